"""Baselines: named runs that others are compared with; the audit log holds them."""

import getpass
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.gate_text import GateText, gate_texts, missed_gates
from assay.core.number_text import ChangeText, rate_change_text, score_change_text
from assay.core.plan import Plan
from assay.core.settings import Gates
from assay.core.summary import Interval, RecordMetrics
from assay.core.text import iso
from assay.core.version import __version__
from assay.engine.comparison.run_comparison import RunComparison
from assay.engine.storage.run_paths import RunPaths, run_ids
from assay.metrics.gates import check_gates
from assay.metrics.intervals import Estimate
from assay.metrics.paired import decide
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
    # These words select something else, and a name that is a run would hide that run.
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
    # In the audit log and not in a file of its own: who changed the measure of releases must stay known.
    record(runs_dir, SET, msgspec.to_builtins(baseline))
    return baseline


def baselines(runs_dir: Path) -> dict[str, Baseline]:
    """Return the current baselines by name: the last promotion of each counts."""
    found: dict[str, Baseline] = {}
    # The log is read from its beginning, so the last promotion of a name wins.
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
            # Times are ISO 8601 in UTC, which sort as text.
            other.manifest.created_at < manifest.created_at
            and other.manifest.dataset_id == manifest.dataset_id
            and other.manifest.status in COMPLETE
            and not is_derived(other)
        ):
            return other
    return None


def is_derived(run: PublishedRun) -> bool:
    """Return True for a run made from another: rescored, or a retry of its failed records."""
    return run.manifest.rescored_from is not None or bool(run.manifest.plan.parent_run_id)


def baseline_run(runs_dir: Path, baseline: Baseline) -> PublishedRun:
    """Open a baseline's run; raises RunNotFound when it is gone, UsageProblem when it is not the one that was promoted."""
    path = runs_dir / baseline.run_id
    try:
        run = open_run_folder(path)
    except RunNotFound:
        raise RunNotFound(
            f"the run '{baseline.run_id}' of baseline '{baseline.name}' is gone", hint="promote another: assay baseline set RUN"
        ) from None
    # A folder of that name may hold another run by now.
    if run.manifest.own_hash != baseline.manifest_sha256:
        raise UsageProblem(
            f"run '{baseline.run_id}' is not the one that became baseline '{baseline.name}'",
            hint="`assay verify` says what changed",
        )
    return run


def record(runs_dir: Path, action: str, members: Mapping[str, object]) -> None:
    """Append an action to the audit log, with its time, account and version."""
    append_audit(runs_dir, audit_entry(action, members))


def audit_entry(action: str, members: Mapping[str, object]) -> dict[str, object]:
    """Return the audit entry of an action."""
    head = {"at": iso(time.time()), "by": whose_account(), "action": action, "assay_version": __version__}
    return {**head, **members}


def whose_account() -> str:
    """Return the name of the account that runs this process; empty if the system has none."""
    try:
        return getpass.getuser()
    # A container may have no entry for its user.
    except (KeyError, OSError):
        return ""


Mode = Literal["absolute", "superiority", "non-inferiority"]
Measure = Literal["pass_rate", "score"]
Word = Literal["REGRESSION", "WARNING", "PASS", "IMPROVED"]

MODES: tuple[Mode, ...] = ("absolute", "superiority", "non-inferiority")
MEASURES: tuple[Measure, ...] = ("pass_rate", "score")
MAX_LEFT_OUT = 0.05
"""Share of the baseline's records that may be missing from a comparison without a warning."""
NOTICEABLE_LOSS = 0.05
"""A loss, as a share of the scale, that is worth a warning although it may be chance."""
_NAMES: dict[Measure, str] = {"pass_rate": "pass rate", "score": "mean score"}
_SEVERITY: tuple[Word, ...] = ("REGRESSION", "WARNING", "PASS", "IMPROVED")


class GateReason(msgspec.Struct, frozen=True):
    """One thing that speaks for or against the run."""

    word: Word
    reason: str
    is_failure: bool = False
    """It keeps the run from passing."""
    is_difference: bool = False
    """It is about the measured difference from the baseline; no member of JSON documents, whose readers see it in the reason."""


class GateDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided about a run, and why."""

    word: Word
    passed: bool
    """What the exit code says."""
    reasons: tuple[GateReason, ...]
    """The gravest first."""
    run_id: str
    baseline: str
    """Id of the run that it was measured against; empty for none."""
    mode: Mode
    measure: Measure
    delta: float | None
    difference: Estimate | None
    """Paired, run - baseline."""

    def to_dict(self) -> JsonObject:
        """Return the verdict as JSON documents hold it."""
        members: JsonObject = msgspec.to_builtins(self)
        reasons = [{name: value for name, value in reason.items() if name != "is_difference"} for reason in members.pop("reasons")]
        word, passed = members.pop("word"), members.pop("passed")
        return {"verdict": word, "passed": passed, "reasons": reasons, **members}


class GateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate asks for."""

    mode: Mode = "absolute"
    delta: float | None = None
    """Acceptable loss, for non-inferiority."""
    measure: Measure = "pass_rate"
    gates: Gates | None = None
    """Thresholds in place of the same ones of the plan."""


def decide_gate(plan: Plan, summary: RecordMetrics, demand: GateSpec, *, comparison: RunComparison | None = None) -> GateDecision:
    """Return the verdict on a finished run; the gravest finding decides, and every one of them is a reason."""
    findings = _thresholds(_demanded(plan.gates, demand.gates), summary) + _incomplete(summary)
    estimate: Estimate | None = None
    if comparison is not None:
        estimate = comparison.passes if demand.measure == "pass_rate" else comparison.scores
        findings += [_difference(estimate, demand, comparison), *_left_out(comparison)]
    # A gate without any demand passes, and says that it demanded nothing.
    findings = findings or [GateReason("PASS", "no threshold and no baseline is set: nothing was demanded")]
    # Failures first, then by gravity: the first line of a report is what decides.
    ordered = sorted(findings, key=lambda finding: (not finding.is_failure, _SEVERITY.index(finding.word)))
    return GateDecision(
        word=_word(findings),
        passed=not any(finding.is_failure for finding in findings),
        reasons=tuple(ordered),
        run_id=plan.run_id,
        baseline=comparison.before.run_id if comparison else "",
        mode=demand.mode,
        measure=demand.measure,
        delta=demand.delta,
        difference=estimate,
    )


def _demanded(planned: Gates, given: Gates | None) -> Gates:
    """Replace the plan's thresholds by those that are given; the others stay."""
    members = {} if given is None else {name: limit for name, limit in msgspec.structs.asdict(given).items() if limit is not None}
    for name in ("checks", "graders"):
        # By name, so that a threshold of one check leaves those of the others.
        members[name] = {**getattr(planned, name), **members.get(name, {})}
    return msgspec.structs.replace(planned, **members)


def _span(comparison: RunComparison, demand: GateSpec) -> float:
    """Length of the scale that the differences are on."""
    return comparison.span if demand.measure == "score" else 1.0


def _levels(comparison: RunComparison, demand: GateSpec) -> tuple[ChangeText, tuple[float | None, float | None]]:
    """Return the format of a difference, and the two metrics that it is between."""
    before, after = comparison.before, comparison.after
    if demand.measure == "pass_rate":
        return rate_change_text, (before.pass_rate, after.pass_rate)
    return score_change_text, (before.mean, after.mean)


def _word(findings: list[GateReason]) -> Word:
    """Return the gravest word; an improvement is one only where nothing speaks against the run."""
    words = {finding.word for finding in findings}
    if "IMPROVED" in words and not words & {"REGRESSION", "WARNING"}:
        return "IMPROVED"
    return next(word for word in _SEVERITY if word in words)


def _thresholds(gates: Gates, summary: RecordMetrics) -> list[GateReason]:
    """Missed thresholds fail the run; one that may be met by chance, by its interval, is a warning."""
    texts = gate_texts(gates, summary)
    # Reasons of the run's own gate, so that the words are those of its report.
    missed = missed_gates(check_gates(gates, summary).reasons, texts)
    found = [GateReason("REGRESSION", miss.reason, is_failure=True) for miss in missed]
    return found + [_met(gate) for gate in texts if gate.is_met]


def _met(gate: GateText) -> GateReason:
    # Of a maximum the interval's upper end would count, and error rates have none.
    low = None if gate.interval is None or gate.is_most else gate.interval.low
    if low is not None and low < gate.limit:
        return GateReason("WARNING", f"{gate.met}, but its 95 % interval begins at {gate.number(low)}")
    return GateReason("PASS", gate.met)


def _incomplete(summary: RecordMetrics) -> list[GateReason]:
    """Return a warning for a cancelled run, which has not seen all its records: a gate is about all of them."""
    cancelled, total = summary.cancelled_records, summary.total_records
    if not cancelled:
        return []
    # A failure although a warning in word: the measured part of the run may be fine.
    return [GateReason("WARNING", f"{cancelled:,} of {total:,} records were cancelled: the run is not complete", is_failure=True)]


def _difference(estimate: Estimate, demand: GateSpec, comparison: RunComparison) -> GateReason:
    name, interval = _NAMES[demand.measure], estimate.interval
    if interval is None:
        # In absolute mode an unknown difference is not a loss that was shown.
        return GateReason("WARNING", f"the {name} cannot be compared: {estimate.reason}", is_failure=demand.mode != "absolute")
    text, (before, after) = _levels(comparison, demand)
    change = text(estimate.value or 0.0, before=before, after=after)
    shown = f"{name} {change} against the baseline, 95 % interval [{text(interval.low)}, {text(interval.high)}]"
    # Better is better in every mode, so this is asked first.
    if decide(interval) == "improved":
        return GateReason("IMPROVED", f"{shown}: better", is_difference=True)
    if demand.mode == "superiority":
        return _not_superior(interval, shown)
    if demand.mode == "non-inferiority":
        return _inferiority(interval, shown, demand)
    if decide(interval) == "worse":
        return GateReason("REGRESSION", f"{shown}: worse", is_failure=True, is_difference=True)
    # A large loss that few records cannot prove should not read like "no loss".
    if (estimate.value or 0.0) < -NOTICEABLE_LOSS * _span(comparison, demand):
        return GateReason(
            "WARNING", f"{shown}: a loss is seen, and so few records cannot tell whether it is one", is_difference=True
        )
    return GateReason("PASS", f"{shown}: no loss can be shown", is_difference=True)


def _not_superior(interval: Interval, shown: str) -> GateReason:
    if decide(interval) == "worse":
        return GateReason("REGRESSION", f"{shown}: worse, and better was demanded", is_failure=True, is_difference=True)
    return GateReason("WARNING", f"{shown}: better was demanded, and is not shown", is_failure=True, is_difference=True)


def _inferiority(interval: Interval, shown: str, demand: GateSpec) -> GateReason:
    delta = demand.delta or 0.0
    loss = rate_change_text(delta, sign=False) if demand.measure == "pass_rate" else f"{delta:g}"
    match decide(interval, margin=delta):
        case "worse":
            return GateReason("REGRESSION", f"{shown}: worse by more than {loss}", is_failure=True, is_difference=True)
        case "not_worse":
            return GateReason("PASS", f"{shown}: a loss of more than {loss} is excluded", is_difference=True)
        case _:
            return GateReason(
                "WARNING", f"{shown}: a loss of more than {loss} cannot be excluded", is_failure=True, is_difference=True
            )


def _left_out(comparison: RunComparison) -> list[GateReason]:
    """Records of the baseline that say nothing about the run, and settings that are not the same."""
    kinds = (
        (comparison.missing.count, "are not in the run"),
        (comparison.changed.count, "have other contents"),
        (comparison.unscored.count, "have no grade in one of the runs"),
    )
    total = comparison.before.records
    found = [
        # Differences over few common records are about those records; a note says when many are missing.
        GateReason("WARNING", f"{count:,} of {total:,} records of the baseline {words}")
        for count, words in kinds
        if total and count / total > MAX_LEFT_OUT
    ]
    return found + [GateReason("WARNING", note) for note in comparison.setting_notes]
