"""Baselines: named runs that others are compared with; the audit log holds them."""

import getpass
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.moment import iso
from assay.core.version import __version__
from assay.engine.storage.run_paths import RunPaths, run_ids
from assay.store.audit import append_audit, read_audit
from assay.store.published_run import PublishedRun, open_run_folder

SET = "baseline_set"
"""Action of the audit log that makes a run a baseline."""
NO_BASELINE = "none"
"""Selects no baseline, although the dataset has one."""
PREVIOUS = "previous"
"""Selects the last complete run over the same dataset before this one."""
COMPLETE = frozenset({"completed", "completed_with_failures"})
"""States of runs that processed all their records."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A run that others are compared with."""

    name: str
    run_id: str
    manifest_sha256: str
    """Manifest hash at the time of promotion; a different one means another run under the same id."""
    at: str
    by: str = ""
    reason: str = ""


def promote(run: PublishedRun, runs_dir: Path, *, name: str = "", reason: str = "") -> Baseline:
    """Make a finished run the baseline of a name, by default its dataset's; raises UsageProblem for an unsuitable run or name."""
    manifest = run.manifest
    if not manifest.counts.evaluated_records:
        raise UsageProblem(f"run '{manifest.run_id}' evaluated nothing, so nothing can be measured against it")
    if manifest.status not in COMPLETE:
        raise UsageProblem(
            f"run '{manifest.run_id}' is {manifest.status}: it did not go through all its records",
            hint="promote a complete run",
        )
    if name in (NO_BASELINE, PREVIOUS, "latest") or (name and (runs_dir / name).is_dir()):
        raise UsageProblem(f"a baseline cannot be called '{name}'", hint="the name means something else to `assay gate --baseline`")
    baseline = Baseline(
        name=name or manifest.dataset_id,
        run_id=manifest.run_id,
        manifest_sha256=manifest.own_hash,
        at=iso(time.time()),
        by=whose_account(),
        reason=reason,
    )
    record(runs_dir, SET, msgspec.to_builtins(baseline))
    return baseline


def baselines(runs_dir: Path) -> dict[str, Baseline]:
    """Return the current baselines by name: the last promotion of each counts."""
    found: dict[str, Baseline] = {}
    for entry in read_audit(runs_dir):
        if entry["action"] == SET:
            found[entry["name"]] = msgspec.convert(entry, Baseline)
    return found


def previous_run(run: PublishedRun, runs_dir: Path) -> PublishedRun | None:
    """Return the last complete run over the same dataset before this one, ignoring rescored runs and retries."""
    manifest = run.manifest
    for run_id in reversed(run_ids(runs_dir)):
        folders = RunPaths(runs_dir, run_id)
        if not folders.is_sealed:
            continue
        other = open_run_folder(folders.sealed)
        if (
            other.manifest.created_at < manifest.created_at
            and other.manifest.dataset_id == manifest.dataset_id
            and other.manifest.status in COMPLETE
            and not is_derived(other)
        ):
            return other
    return None


def is_derived(run: PublishedRun) -> bool:
    """Return True for a run made from another: rescored, or a retry of its failed records."""
    return run.manifest.rescored_from is not None or bool(run.manifest.plan.get("parent_run_id"))


def baseline_run(runs_dir: Path, baseline: Baseline) -> PublishedRun:
    """Open a baseline's run; raises RunNotFound when it is gone, UsageProblem when it is not the one that was promoted."""
    path = runs_dir / baseline.run_id
    try:
        run = open_run_folder(path)
    except RunNotFound:
        raise RunNotFound(
            f"the run '{baseline.run_id}' of baseline '{baseline.name}' is gone", hint="promote another: assay baseline set RUN"
        ) from None
    if run.manifest.own_hash != baseline.manifest_sha256:
        raise UsageProblem(
            f"run '{baseline.run_id}' is not the one that became baseline '{baseline.name}'",
            hint="`assay verify` says what changed",
        )
    return run


def record(runs_dir: Path, action: str, members: Mapping[str, object]) -> None:
    """Append an action to the audit log, with its time, account and version."""
    append_audit(runs_dir, audit_entry(action, members))


def audit_entry(action: str, members: Mapping[str, object]) -> JsonObject:
    """Return the audit entry of an action."""
    head = {"at": iso(time.time()), "by": whose_account(), "action": action, "assay_version": __version__}
    return {**head, **members}


def whose_account() -> str:
    """Return the name of the account that runs this process; empty if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
