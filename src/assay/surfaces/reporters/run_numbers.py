"""Numbers of a run in words: rates, scores, times, money, and small bars; what is unknown is a dash, never 0."""

from typing import Any

from assay.core.metrics_summary import interval_of

UNKNOWN = "-"
BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SECOND = 1000.0
_MINUTE = 60.0
_HOUR = 3600.0


def decimal(value: float | None) -> str:
    """`0.83`."""
    return UNKNOWN if value is None else f"{value:.2f}"


def level_name(score: float) -> str:
    """A score of a distribution: `4`, `0.55`."""
    return f"{score:g}" if float(score).is_integer() else f"{score:.2f}"


def with_interval(value: float | None, interval: dict[str, Any] | None) -> str:
    """`0.83 [0.44, 0.97]`."""
    if value is None or interval is None:
        return decimal(value)
    return f"{decimal(value)} [{decimal(interval['low'])}, {decimal(interval['high'])}]"


def figure_text(metrics: dict[str, Any], member: str) -> str:
    """A figure of the metrics with the interval that is meant with it: `0.83 [0.44, 0.97]`."""
    return with_interval(metrics[member], interval_of(metrics, member))


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
