"""Numbers of a run in words: rates, scores, times, money, and small bars; what is unknown is a dash, never 0."""

from typing import Any

from assay.core.metrics_summary import interval_of
from assay.core.number_text import rate_text, score_text

UNKNOWN = "-"
RATES = frozenset({"pass_rate", "error_rate"})
"""Figures of the metrics that are shares of records; the others are scores."""
BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SECOND = 1000.0
_MINUTE = 60.0
_HOUR = 3600.0


def decimal(value: float | None) -> str:
    """A score: `0.83`."""
    return UNKNOWN if value is None else score_text(value)


def rate(value: float | None) -> str:
    """A rate: `83.3 %`."""
    return UNKNOWN if value is None else rate_text(value)


def level_name(score: float) -> str:
    """A score of a distribution: `4`, `0.55`."""
    return f"{score:g}" if float(score).is_integer() else score_text(score)


def with_interval(value: float | None, interval: dict[str, Any] | None) -> str:
    """A score and its interval: `0.83 [0.44, 0.97]`."""
    if value is None or interval is None:
        return decimal(value)
    return f"{decimal(value)} [{decimal(interval['low'])}, {decimal(interval['high'])}]"


def rate_with_interval(value: float | None, interval: dict[str, Any] | None) -> str:
    """A rate and its interval: `83.3 % [43.6 %, 97.0 %]`."""
    if value is None or interval is None:
        return rate(value)
    return f"{rate(value)} [{rate(interval['low'])}, {rate(interval['high'])}]"


def figure_text(metrics: dict[str, Any], member: str) -> str:
    """A figure of the metrics with the interval that is meant with it: `83.3 % [43.6 %, 97.0 %]`, `4.33 [3.97, 4.69]`."""
    text = rate_with_interval if member in RATES else with_interval
    return text(metrics[member], interval_of(metrics, member))


def rate_ends_text(bounds: dict[str, Any] | None) -> str:
    """`40.0 % at worst, 45.0 % at best`; empty where nothing is known."""
    return f"{rate(bounds['worst'])} at worst, {rate(bounds['best'])} at best" if bounds else ""


def ends_text(bounds: dict[str, Any] | None, *, scale: str | None = None) -> str:
    """`0.40 at worst, 0.45 at best`, on the scale; empty where nothing is known."""
    if not bounds:
        return ""
    worst, best = (1 + 4 * bounds[end] if scale == "1-5" else bounds[end] for end in ("worst", "best"))
    return f"{decimal(worst)} at worst, {decimal(best)} at best"


def percent(part: float, whole: float) -> str:
    """`60 %`; it says 100 only when everything is done."""
    return UNKNOWN if not whole else f"{int(100 * part / whole)} %"


def latency(milliseconds: float | None) -> str:
    """`812 ms`, `2.1 s`, `3 min 05 s`."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < _SECOND:
        return f"{milliseconds:.0f} ms" if milliseconds >= 1 else "<1 ms"
    return duration(milliseconds / _SECOND)


def duration(seconds: float) -> str:
    """`400 ms`, `4.2 s`, `42 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds < 0.95:
        return f"{round(seconds * _SECOND)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE - 0.5:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        minutes, rest = divmod(round(seconds), int(_MINUTE))
        return f"{minutes} min {rest:02} s"
    hours, rest = divmod(round(seconds / _MINUTE), int(_MINUTE))
    return f"{hours} h {rest:02} min"


def dollars(amount: float) -> str:
    """`$12.40`, `$0.0123`, `$0.00000450`: cents at least, and three digits of what is less."""
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    places = next((places for places in range(2, 12) if amount * 10 ** (places - 2) >= 1), 12)
    return f"${amount:.{max(places, 4)}f}"


def short_cost(cost: dict[str, Any]) -> str:
    """Short for a cell: what is not known makes it a lower bound."""
    if cost["sum"] is None:
        return "unknown" if cost["n_unknown"] else UNKNOWN
    return ("> " if cost["n_unknown"] else "") + dollars(cost["sum"])


def bar(count: int, largest: int) -> str:
    """A bar whose length is to that of the largest as the counts are; anything above 0 leaves a mark."""
    if not count or not largest:
        return ""
    eighths = max(1, round(8 * BAR_WIDTH * count / largest))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
