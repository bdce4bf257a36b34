"""Baselines: the runs that others are measured against, by name, as the audit log says."""

import getpass
import time
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import RunNotFound, UsageProblem
from assay.core.version import __version__
from assay.engine.evidence import iso
from assay.store.audit import append_audit, read_audit
from assay.store.folder import RunFolder, open_run_folder

SET = "baseline_set"
"""Action of the audit log that makes a run a baseline."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A run that others are measured against."""

    name: str
    run_id: str
    manifest_sha256: str
    """Of the run when it was promoted; another one is another run under the same id."""
    at: str
    by: str = ""
    reason: str = ""


def promote(run: RunFolder, runs_dir: Path, *, name: str = "", reason: str = "") -> Baseline:
    """Make a finished run the baseline of that name, by default that of its dataset; raises UsageProblem for one without scores."""
    manifest = run.manifest
    if not manifest["counts"]["evaluated_records"]:
        raise UsageProblem(f"run '{manifest['run_id']}' evaluated nothing, so nothing can be measured against it")
    baseline = Baseline(
        name=name or manifest["dataset_id"],
        run_id=manifest["run_id"],
        manifest_sha256=manifest["manifest_sha256"],
        at=iso(time.time()),
        by=whose_account(),
        reason=reason,
    )
    record(runs_dir, SET, msgspec.to_builtins(baseline))
    return baseline


def baselines(runs_dir: Path) -> dict[str, Baseline]:
    """The baselines by name: of each the last promotion."""
    found: dict[str, Baseline] = {}
    for entry in read_audit(runs_dir):
        if entry["action"] == SET:
            found[entry["name"]] = msgspec.convert(entry, Baseline)
    return found


def baseline_run(runs_dir: Path, baseline: Baseline) -> RunFolder:
    """The run of a baseline; raises RunNotFound when it is gone, UsageProblem when it is not the one that was promoted."""
    path = runs_dir / baseline.run_id
    try:
        run = open_run_folder(path)
    except RunNotFound:
        raise RunNotFound(
            f"the run '{baseline.run_id}' of baseline '{baseline.name}' is gone", hint="promote another: assay baseline set RUN"
        ) from None
    if run.manifest.get("manifest_sha256") != baseline.manifest_sha256:
        raise UsageProblem(
            f"run '{baseline.run_id}' is not the one that became baseline '{baseline.name}'",
            hint="`assay verify` says what changed",
        )
    return run


def record(runs_dir: Path, action: str, members: dict[str, Any]) -> None:
    """A line in the audit log: when, by whom, with which version, and what was decided."""
    head = {"at": iso(time.time()), "by": whose_account(), "action": action, "assay_version": __version__}
    append_audit(runs_dir, {**head, **members})


def whose_account() -> str:
    """The account that runs this; empty where the system knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
