"""Gates of a run for people: threshold, value, and whether it is met."""

from collections.abc import Callable, Sequence

import msgspec

from assay.core.number_text import RATE_PLACES, SCORE_PLACES, rate_text, score_text
from assay.core.settings import Gates
from assay.core.summary import Interval, MetricValue, RecordMetrics

# As many digits as TOLERANCE distinguishes: a missed gate differs from its threshold by more than that.
_MAX_PLACES = 9
_UNKNOWN = MetricValue(value=None, interval=None, n=0)
TOLERANCE = 1e-9
"""Rounding in the last digits decides no gate."""


def meets_gate(value: float | None, limit: float, *, is_most: bool) -> bool:
    """Return whether a value meets a threshold; thresholds are inclusive, and an undefined value meets none."""
    # An undefined value meets nothing: a run in which no record could be graded must not pass its gates.
    return value is not None and (limit - value if is_most else value - limit) >= -TOLERANCE


class NamedMetric(msgspec.Struct, frozen=True):
    """Pass rate of a check or of a grader that has a gate."""

    gate: str
    """`checks.exact`, `graders.polite`."""
    words: str
    limit: float
    value: MetricValue


def named_metrics(gates: Gates, summary: RecordMetrics | None) -> list[NamedMetric]:
    """Return the checks and graders that have a gate, each with its pass rate."""
    found: list[NamedMetric] = []
    for member, word in (("checks", "check"), ("graders", "grader")):
        known = getattr(summary, member, msgspec.UNSET)
        for name, limit in getattr(gates, member).items():
            metric = known[name].pass_rate_metric if isinstance(known, dict) and name in known else _UNKNOWN
            found.append(NamedMetric(f"{member}.{name}", f"pass rate of the {word} '{name}'", limit, metric))
    return found


class GateText(msgspec.Struct, frozen=True, kw_only=True):
    """One gate that is set, with the metric that it is about."""

    gate: str
    """Member of the plan's gates: `pass_rate`, `min_score`, `max_error_rate`, `max_truncated`, or `checks.NAME`, `graders.NAME`."""
    name: str
    """`pass rate`, `mean score`, `error rate`, `share of truncated answers`, or the id of a profile."""
    limit: float
    value: float | None
    interval: Interval | None
    is_rate: bool
    is_most: bool
    """True if the limit is a maximum."""

    def number(self, value: float) -> str:
        """Format a value of this gate: a percentage or a score."""
        return rate_text(value) if self.is_rate else score_text(value)

    @property
    def is_met(self) -> bool:
        """Return whether the run reaches the gate."""
        return meets_gate(self.value, self.limit, is_most=self.is_most)

    @property
    def asked(self) -> str:
        """Describe the threshold: `pass rate at least 80.0 %`."""
        return f"{self.name} {'at most' if self.is_most else 'at least'} {self.number(self.limit)}"

    @property
    def met(self) -> str:
        """Describe a met gate: `pass rate 83.3 % (at least 80.0 %)`."""
        found = "unknown" if self.value is None else self.number(self.value)
        return f"{self.name} {found} ({'at most' if self.is_most else 'at least'} {self.number(self.limit)})"

    @property
    def missed(self) -> str:
        """Describe a missed gate: `pass rate 79.96 % is below 80.00 %`, with enough digits to distinguish the two."""
        if self.value is None:
            return f"{self.name} is undefined"
        text: Callable[[float, int], str] = rate_text if self.is_rate else score_text
        first = RATE_PLACES if self.is_rate else SCORE_PLACES
        places = next(
            (places for places in range(first, _MAX_PLACES) if text(self.value, places) != text(self.limit, places)), _MAX_PLACES
        )
        words = "is above" if self.is_most else "is below"
        return f"{self.name} {text(self.value, places)} {words} {text(self.limit, places)}"


def tool_call_value(summary: RecordMetrics) -> float | None:
    """Return what a gate on tool calls is about: the share of the expected calls that are right, if all unknown ones were wrong."""
    return None if summary.tool_calls is msgspec.UNSET else summary.tool_calls.correct_rate_bounds.worst


def gate_texts(gates: Gates, summary: RecordMetrics | None) -> list[GateText]:
    """Return the gates that are set, in the order in which reports list them; `summary` is None where a run has no metrics."""
    rate, score_name, score, error_rate, truncated = _UNKNOWN, "mean score", _UNKNOWN, _UNKNOWN, _UNKNOWN
    correct = _UNKNOWN
    if summary is not None:
        rate, score = summary.pass_rate_metric, summary.raw_score_mean_metric
        error_rate = MetricValue(value=summary.error_rate, interval=None, n=summary.total_records)
        if summary.truncated is not None:
            truncated = MetricValue(value=summary.truncated.share, interval=None, n=summary.truncated.n_answers)
        if summary.profile is not None:
            # With a profile the gate on the score is one on its headline.
            score_name, score = summary.profile.id, summary.profile.metric
        if summary.tool_calls is not msgspec.UNSET:
            calls = summary.tool_calls
            correct = MetricValue(value=tool_call_value(summary), interval=calls.correct_rate_interval, n=calls.expected)
    found = (
        ("pass_rate", "pass rate", rate, False),
        ("min_score", score_name, score, False),
        ("max_error_rate", "error rate", error_rate, True),
        ("max_truncated", "share of truncated answers", truncated, True),
        ("min_tool_calls", "share of correct tool calls", correct, False),
    )
    limited = [(gate, name, metric, is_most, getattr(gates, gate)) for gate, name, metric, is_most in found]
    limited += [(metric.gate, metric.words, metric.value, False, metric.limit) for metric in named_metrics(gates, summary)]
    return [
        GateText(
            gate=gate,
            name=name,
            limit=limit,
            value=metric.value,
            interval=metric.interval if metric.value is not None else None,
            is_rate=gate != "min_score",
            is_most=is_most,
        )
        for gate, name, metric, is_most, limit in limited
        if limit is not None
    ]


class MissedGate(msgspec.Struct, frozen=True):
    """One reason of a decision, and the gate that it is about."""

    gate: str
    """Member of the plan's gates; empty where the reason is about the whole run."""
    reason: str


def missed_gates(reasons: Sequence[str], gates: Sequence[GateText]) -> list[MissedGate]:
    """Name the gate of each reason of a decision, and write rates as percentages; artifacts hold them as numbers from 0 to 1.

    A decision has one reason for each gate that was missed, in the order of the gates, or else reasons about the whole run.
    """
    missed = [gate for gate in gates if not gate.is_met]
    # A cancelled or ungraded run has one reason of its own, regardless of what its gates say; pairs would name the wrong gates.
    if len(missed) != len(reasons):
        return [MissedGate("", reason) for reason in reasons]
    pairs = zip(missed, reasons, strict=True)
    return [MissedGate(gate.gate, reason if gate.value is None else gate.missed) for gate, reason in pairs]
