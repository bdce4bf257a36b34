"""Numbers and estimates as text of a chart."""

from functools import partial

from assay.core.number_text import rate_change_text, rate_text, score_change_text, score_text
from assay.presentation.charts import PlottedEstimate
from assay.presentation.words import ends_between, with_interval
from assay.surfaces.charts.svg import MINUS, is_large, tick_text

UNKNOWN = "no score"


def number_label(value: float | None, *, is_signed: bool = False, is_rate: bool = False) -> str:
    """Return `0.83`, `83.3 %`; a difference has a sign: `+0.04`, `+4.2 pp`."""
    if value is None:
        return UNKNOWN
    # Large numbers are drawn with an exponent, which has no place for the sign of a change.
    if is_large(value):
        text = tick_text(value, 1.0)
    elif is_rate:
        text = rate_change_text(value) if is_signed else rate_text(value)
    else:
        text = score_change_text(value) if is_signed else _score(value)
    # The minus sign is as wide as a plus and a digit; a hyphen is not, and may end a line.
    return text.replace("-", MINUS)


def _score(value: float) -> str:
    whole, _, rest = score_text(value).partition(".")
    return f"{int(whole):,}.{rest}" if abs(value) >= 1000 else f"{whole}.{rest}"


def estimate_text(estimate: PlottedEstimate, *, is_signed: bool = False) -> str:
    """Return `83.3 % [78.1 %, 87.4 %], n = 120`."""
    if not estimate.is_known:
        return f"{UNKNOWN}, n = {estimate.n:,}"
    ends = ends_between(estimate.low, estimate.high) if estimate.has_interval else None
    text = partial(number_label, is_signed=is_signed, is_rate=estimate.is_rate)
    return f"{with_interval(estimate.middle, ends, text)}, n = {estimate.n:,}"
