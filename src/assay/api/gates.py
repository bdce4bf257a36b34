"""Decisions about runs: baselines, gates, trends, and the log of what was decided."""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path

from assay.api.stored_runs import sealed_folder
from assay.core.canonical import JsonObject
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.run_backend import RUNS_DIR
from assay.core.summary import METRICS
from assay.engine.comparison.baselines import (
    NO_BASELINE,
    PREVIOUS,
    Baseline,
    baseline_run,
    baselines,
    previous_run,
    promote,
    record,
)
from assay.engine.comparison.gate import MEASURES, MODES, GateDecision, GateSpec, Measure, decide_gate
from assay.engine.comparison.run_comparison import ComparisonOptions, compare
from assay.engine.comparison.trends import RunTrend, TrendChoice, run_trend
from assay.engine.storage.integrity import check_unchanged
from assay.store.audit import read_audit
from assay.store.published_run import PublishedRun

__all__ = [
    "MEASURES",
    "MODES",
    "Baseline",
    "GateDecision",
    "GateSpec",
    "RunTrend",
    "audit",
    "gate",
    "list_baselines",
    "note_audit",
    "set_baseline",
    "trend",
]

DECIDING = (METRICS, "predictions.jsonl")
"""What decisions rest on: thresholds on the first, comparisons on the second, too."""


def set_baseline(run_name: str, *, runs_dir: str | Path = RUNS_DIR, name: str = "", reason: str = "") -> Baseline:
    """Make a finished run the one that others are measured against; the audit log keeps who did it and why."""
    run = sealed_folder(run_name, runs_dir)
    check_unchanged(run, *DECIDING)
    return promote(run, Path(runs_dir), name=name, reason=reason)


def list_baselines(runs_dir: str | Path = RUNS_DIR) -> list[Baseline]:
    """All baselines of a folder, by name."""
    return sorted(baselines(Path(runs_dir)).values(), key=lambda baseline: baseline.name)


def gate(
    run_name: str,
    demand: GateSpec = GateSpec(),
    *,
    runs_dir: str | Path = RUNS_DIR,
    baseline: str = "",
    cluster: str | None = None,
) -> GateDecision:
    """Decide about a finished run and write the decision to the audit log.

    `baseline` names a baseline or a run; by default the baseline of the run's dataset is used where there is one, `none` uses none,
    and `previous` the last complete run over the same dataset. Raises UsageProblem when there is nothing to decide by, and
    for files that were changed since their run was published.
    """
    folder = Path(runs_dir)
    run = sealed_folder(run_name, folder)
    if not run.manifest.counts.evaluated_records:
        raise UsageProblem(f"run '{run.manifest.run_id}' evaluated nothing: there is nothing to decide by")
    against = _against(run, folder, baseline)
    check_unchanged(run, *(DECIDING if against else DECIDING[:1]))
    if against is not None:
        check_unchanged(against, *DECIDING)
    check_demand(demand, has_baseline=against is not None)
    comparison = None if against is None else compare(against, run, ComparisonOptions(cluster=cluster, slices=(), max_flips=0))
    if comparison is not None and not comparison.n:
        raise UsageProblem(
            f"nothing can be compared: {comparison.passes.reason or 'no record was graded in both runs'}",
            hint=f"look at: assay compare {comparison.before.run_id} {comparison.after.run_id}",
        )
    plan = run.manifest.settings
    verdict = decide_gate(plan, run.summary(), demand, comparison=comparison)
    record(folder, "gate", {"manifest_sha256": run.manifest.own_hash, **verdict.to_dict()})
    return verdict


def _against(run: PublishedRun, runs_dir: Path, name: str) -> PublishedRun | None:
    if name == NO_BASELINE:
        return None
    if name == PREVIOUS:
        found = previous_run(run, runs_dir)
        if found is None:
            raise RunNotFound(f"no complete run over '{run.manifest.dataset_id}' is older than this one")
        return found
    known = baselines(runs_dir)
    chosen = known.get(name or run.manifest.dataset_id)
    if chosen is not None:
        # The baseline itself has nothing to be measured against.
        is_itself = chosen.manifest_sha256 == run.manifest.own_hash
        return None if is_itself and not name else baseline_run(runs_dir, chosen)
    if not name:
        return None
    try:
        return sealed_folder(name, runs_dir)
    except RunNotFound:
        raise RunNotFound(
            f"there is no baseline and no run '{name}' in '{runs_dir}'", hint="list the baselines with: assay baseline show"
        ) from None


def check_demand(demand: GateSpec, *, has_baseline: bool) -> None:
    """Raises UsageProblem for a demand that makes no sense."""
    mode, delta = demand.mode, demand.delta
    if delta is not None and not isfinite(delta):
        raise UsageProblem(f"--delta is {delta}, which is no number to compare with")
    if mode != "absolute" and not has_baseline:
        raise UsageProblem(
            f"--mode {mode} needs a baseline", hint="name one: --baseline RUN, or promote one: assay baseline set RUN"
        )
    if mode == "non-inferiority" and (delta is None or delta <= 0):
        raise UsageProblem("--mode non-inferiority needs the loss that is acceptable", hint="for example --delta 0.02")
    if mode != "non-inferiority" and delta is not None:
        raise UsageProblem(f"--delta has no meaning for --mode {mode}", hint="use it with --mode non-inferiority")


def trend(
    *,
    runs_dir: str | Path = RUNS_DIR,
    dataset: str = "",
    candidate: str = "",
    last: int | None = None,
    measure: Measure = "pass_rate",
    is_any_version: bool = False,
) -> RunTrend:
    """The complete runs of one candidate over one dataset in the order of time, and the direction that a test supports."""
    wanted = TrendChoice(dataset=dataset, candidate=candidate, measure=measure, is_any_version=is_any_version)
    return run_trend(Path(runs_dir), wanted, last=last)


def note_audit(runs_dir: Path, action: str, members: Mapping[str, object]) -> None:
    """A line in the audit log of a folder of runs: who did what, and when."""
    record(runs_dir, action, members)


def audit(runs_dir: str | Path = RUNS_DIR) -> list[JsonObject]:
    """Every decision about the runs of a folder, the oldest first; raises StoreUnavailable when the log was tampered with."""
    return read_audit(Path(runs_dir))
