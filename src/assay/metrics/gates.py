"""Gates: whether a run's summary reaches what its plan demands, and why not."""

from collections.abc import Iterator

from assay.core.gate_text import TOLERANCE, meets_gate, named_metrics, tool_call_value
from assay.core.settings import Gates
from assay.core.summary import GateCheck, GateResult, RecordMetrics


def check_gates(gates: Gates, summary: RecordMetrics, *, is_cancelled: bool = False) -> GateResult:
    """Return the decision on a summary as `measure` makes it; thresholds are inclusive, and what is undefined does not pass.

    Records without a score are in no mean and no pass rate, so the error rate is their gate: failed and cancelled
    records as a share of all records. A run that was cancelled as a whole does not pass, regardless of its gates: they are about
    all its records.
    """
    found = (
        # First, because it explains all others.
        cancelled_reason(summary.evaluated_records, summary.total_records) if is_cancelled else "",
        _at_least("pass rate", summary.pass_rate, gates.pass_rate),
        _score_gate(gates, summary),
        _at_most("error rate", summary.error_rate, gates.max_error_rate),
        _at_most("share of truncated answers", _truncated(summary), gates.max_truncated, why_undefined="no record was answered"),
        _at_least(
            "share of correct tool calls", tool_call_value(summary), gates.min_tool_calls, why_undefined="no call was expected"
        ),
        *(
            _at_least(metric.words, metric.value.value, metric.limit, why_undefined="no record has a result of it")
            for metric in named_metrics(gates, summary)
        ),
    )
    reasons = tuple(reason for reason in found if reason)
    if not reasons and not summary.n_scored:
        # No gate was missed, but a run that says nothing about its candidate is not good enough for anything.
        reasons = ("nothing could be evaluated",)
    # Gates are about all records: a part of them neither meets nor misses one.
    return GateResult(not reasons, reasons, () if is_cancelled else tuple(_checks(gates, summary)))


def _checks(gates: Gates, summary: RecordMetrics) -> Iterator[GateCheck]:
    """Yield each gate that is set with the run's value for it."""
    profile = summary.profile
    score = summary.raw_score_mean if profile is None else profile.headline
    for name, value, limit, is_most in (
        ("pass_rate", summary.pass_rate, gates.pass_rate, False),
        ("min_score", score, gates.min_score, False),
        ("max_error_rate", summary.error_rate, gates.max_error_rate, True),
        ("max_truncated", _truncated(summary), gates.max_truncated, True),
        ("min_tool_calls", tool_call_value(summary), gates.min_tool_calls, False),
    ):
        if limit is not None:
            yield GateCheck(name=name, threshold=limit, value=value, met=meets_gate(value, limit, is_most=is_most))
    for metric in named_metrics(gates, summary):
        rate = metric.value.value
        yield GateCheck(name=metric.gate, threshold=metric.limit, value=rate, met=meets_gate(rate, metric.limit, is_most=False))


def _truncated(summary: RecordMetrics) -> float | None:
    return None if summary.truncated is None else summary.truncated.share


def cancelled_reason(evaluated: int, total: int) -> str:
    """Return why a run that was cancelled has not passed."""
    return f"the run was cancelled: {evaluated:,} of {total:,} records were evaluated"


def _score_gate(gates: Gates, summary: RecordMetrics) -> str:
    """Check the minimum score; with a profile its headline is the score that counts."""
    profile = summary.profile
    if profile is not None:
        return _at_least(profile.id, profile.headline, gates.min_score, why_undefined="no record has a score")
    return _at_least("mean score", summary.raw_score_mean, gates.min_score, why_undefined=_why_no_mean(summary))


def _at_least(name: str, value: float | None, limit: float | None, *, why_undefined: str = "no record was evaluated") -> str:
    if limit is None:
        return ""
    if value is None:
        return f"{name} is undefined: {why_undefined}"
    # Stored in artifacts as numbers from 0 to 1; reports write percentages, from the values and not from this text.
    return f"{name} {_against(value, limit)[0]} is below {_against(value, limit)[1]}" if value < limit - TOLERANCE else ""


def _at_most(name: str, value: float | None, limit: float | None, *, why_undefined: str = "the run has no records") -> str:
    if limit is None:
        return ""
    if value is None:
        return f"{name} is undefined: {why_undefined}"
    return f"{name} {_against(value, limit)[0]} is above {_against(value, limit)[1]}" if value > limit + TOLERANCE else ""


def _why_no_mean(summary: RecordMetrics) -> str:
    return "records were graded on different scales" if summary.n_scored else "no record was evaluated"


def _against(value: float, limit: float) -> tuple[str, str]:
    """Format both numbers with as many digits as it takes to tell them apart, at least two."""
    digits = next((digits for digits in range(2, 9) if f"{value:.{digits}f}" != f"{limit:.{digits}f}"), 9)
    return f"{value:.{digits}f}", f"{limit:.{digits}f}"
