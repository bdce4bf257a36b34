"""A verdict on a run that may be released: its own thresholds, and how it compares with a baseline, with every reason in words."""

from typing import Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.gate_text import GateText, gate_texts, missed_gates
from assay.core.number_text import ChangeText, rate_change_text, score_change_text
from assay.core.plan import Plan
from assay.core.settings import Gates
from assay.core.summary import Interval, RecordMetrics
from assay.engine.comparison.run_comparison import RunComparison
from assay.metrics.gates import check_gates
from assay.metrics.intervals import Estimate
from assay.metrics.paired import decide

Mode = Literal["absolute", "superiority", "non-inferiority"]
Measure = Literal["pass_rate", "score"]
Word = Literal["REGRESSION", "WARNING", "PASS", "IMPROVED"]

MODES: tuple[Mode, ...] = ("absolute", "superiority", "non-inferiority")
MEASURES: tuple[Measure, ...] = ("pass_rate", "score")
MAX_LEFT_OUT = 0.05
"""Share of the baseline's records that may be missing from a comparison without a warning."""
NOTICEABLE_LOSS = 0.05
"""A loss, as a share of the scale, that is worth a warning although it cannot be told from chance."""
_NAMES: dict[Measure, str] = {"pass_rate": "pass rate", "score": "mean score"}
_GRAVITY: tuple[Word, ...] = ("REGRESSION", "WARNING", "PASS", "IMPROVED")


class GateReason(msgspec.Struct, frozen=True):
    """One thing that speaks for or against the run."""

    word: Word
    reason: str
    is_failure: bool = False
    """It keeps the run from passing."""


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
        """The verdict as JSON documents hold it."""
        members: JsonObject = msgspec.to_builtins(self)
        return {"verdict": members.pop("word"), **members}


class GateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate asks for."""

    mode: Mode = "absolute"
    delta: float | None = None
    """Acceptable loss, for non-inferiority."""
    measure: Measure = "pass_rate"
    gates: Gates | None = None
    """Thresholds in place of the same ones of the plan."""


def decide_gate(plan: Plan, summary: RecordMetrics, demand: GateSpec, *, comparison: RunComparison | None = None) -> GateDecision:
    """The verdict on a finished run; the gravest finding decides, and every one of them is a reason."""
    findings = _thresholds(_demanded(plan.gates, demand.gates), summary) + _incomplete(summary)
    estimate: Estimate | None = None
    if comparison is not None:
        estimate = comparison.passes if demand.measure == "pass_rate" else comparison.scores
        findings += [_difference(estimate, demand, comparison), *_left_out(comparison)]
    findings = findings or [GateReason("PASS", "no threshold and no baseline is set: nothing was demanded")]
    ordered = sorted(findings, key=lambda finding: (not finding.is_failure, _GRAVITY.index(finding.word)))
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
    """A threshold that is given takes the place of the plan's; the others stay."""
    members = {} if given is None else {name: limit for name, limit in msgspec.structs.asdict(given).items() if limit is not None}
    return msgspec.structs.replace(planned, **members)


def _span(comparison: RunComparison, demand: GateSpec) -> float:
    """Length of the scale that the differences are on."""
    return comparison.span if demand.measure == "score" else 1.0


def _levels(comparison: RunComparison, demand: GateSpec) -> tuple[ChangeText, tuple[float | None, float | None]]:
    """How a difference is written, and the two figures that it is between."""
    before, after = comparison.before, comparison.after
    if demand.measure == "pass_rate":
        return rate_change_text, (before.pass_rate, after.pass_rate)
    return score_change_text, (before.mean, after.mean)


def _word(findings: list[GateReason]) -> Word:
    """The gravest word; an improvement is one only where nothing speaks against the run."""
    words = {finding.word for finding in findings}
    if "IMPROVED" in words and not words & {"REGRESSION", "WARNING"}:
        return "IMPROVED"
    return next(word for word in _GRAVITY if word in words)


def _thresholds(gates: Gates, summary: RecordMetrics) -> list[GateReason]:
    """Missed thresholds fail the run; one that is met by luck, for all that the interval tells, is a warning."""
    texts = gate_texts(msgspec.structs.asdict(gates), summary)
    missed = missed_gates(check_gates(gates, summary).reasons, texts)
    found = [GateReason("REGRESSION", miss.reason, is_failure=True) for miss in missed]
    return found + [_met(gate) for gate in texts if gate.is_met]


def _met(gate: GateText) -> GateReason:
    low = None if gate.interval is None or gate.is_most else gate.interval.low
    if low is not None and low < gate.limit:
        return GateReason("WARNING", f"{gate.met}, but its 95 % interval begins at {gate.number(low)}")
    return GateReason("PASS", gate.met)


def _incomplete(summary: RecordMetrics) -> list[GateReason]:
    """A run that was cancelled has not seen all its records, and a gate is about all of them."""
    cancelled, total = summary.cancelled_records, summary.total_records
    if not cancelled:
        return []
    return [GateReason("WARNING", f"{cancelled:,} of {total:,} records were cancelled: the run is not complete", is_failure=True)]


def _difference(estimate: Estimate, demand: GateSpec, comparison: RunComparison) -> GateReason:
    name, interval = _NAMES[demand.measure], estimate.interval
    if interval is None:
        return GateReason("WARNING", f"the {name} cannot be compared: {estimate.reason}", is_failure=demand.mode != "absolute")
    text, (before, after) = _levels(comparison, demand)
    change = text(estimate.value or 0.0, before=before, after=after)
    shown = f"{name} {change} against the baseline, 95 % interval [{text(interval.low)}, {text(interval.high)}]"
    if decide(interval) == "improved":
        return GateReason("IMPROVED", f"{shown}: better")
    if demand.mode == "superiority":
        return _not_superior(interval, shown)
    if demand.mode == "non-inferiority":
        return _inferiority(interval, shown, demand)
    if decide(interval) == "worse":
        return GateReason("REGRESSION", f"{shown}: worse", is_failure=True)
    if (estimate.value or 0.0) < -NOTICEABLE_LOSS * _span(comparison, demand):
        return GateReason("WARNING", f"{shown}: a loss is seen, and so few records cannot tell whether it is one")
    return GateReason("PASS", f"{shown}: no loss can be shown")


def _not_superior(interval: Interval, shown: str) -> GateReason:
    if decide(interval) == "worse":
        return GateReason("REGRESSION", f"{shown}: worse, and better was demanded", is_failure=True)
    return GateReason("WARNING", f"{shown}: better was demanded, and is not shown", is_failure=True)


def _inferiority(interval: Interval, shown: str, demand: GateSpec) -> GateReason:
    delta = demand.delta or 0.0
    loss = rate_change_text(delta, sign=False) if demand.measure == "pass_rate" else f"{delta:g}"
    match decide(interval, margin=delta):
        case "worse":
            return GateReason("REGRESSION", f"{shown}: worse by more than {loss}", is_failure=True)
        case "not_worse":
            return GateReason("PASS", f"{shown}: a loss of more than {loss} is excluded")
        case _:
            return GateReason("WARNING", f"{shown}: a loss of more than {loss} cannot be excluded", is_failure=True)


def _left_out(comparison: RunComparison) -> list[GateReason]:
    """Records of the baseline that say nothing about the run, and settings that are not the same."""
    kinds = (
        (comparison.missing.count, "are not in the run"),
        (comparison.changed.count, "have other contents"),
        (comparison.unscored.count, "have no grade in one of the runs"),
    )
    total = comparison.before.records
    found = [
        GateReason("WARNING", f"{count:,} of {total:,} records of the baseline {words}")
        for count, words in kinds
        if total and count / total > MAX_LEFT_OUT
    ]
    return found + [GateReason("WARNING", note) for note in comparison.setting_notes]
