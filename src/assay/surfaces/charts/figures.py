"""Figures as they are written in charts."""

from assay.surfaces.charts.scales import MINUS, tick_text
from assay.surfaces.charts.values import Estimate

UNKNOWN = "no score"


def figure(value: float | None, *, is_signed: bool = False) -> str:
    """`0.83`, `+0.04`, with a sign before both where a difference is meant."""
    if value is None:
        return UNKNOWN
    text = tick_text(value, 0.01)
    zero = tick_text(0.0, 0.01)
    if text == MINUS + zero:
        text = zero
    return f"+{text}" if is_signed and value > 0 and text != zero else text


def estimate_text(estimate: Estimate, *, is_signed: bool = False) -> str:
    """`0.83 [0.78, 0.87], n = 120`."""
    if not estimate.is_known:
        return f"{UNKNOWN}, n = {estimate.n:,}"
    ends = [figure(end, is_signed=is_signed) for end in (estimate.low, estimate.high)]
    interval = f" [{ends[0]}, {ends[1]}]" if estimate.has_interval else ""
    return f"{figure(estimate.middle, is_signed=is_signed)}{interval}, n = {estimate.n:,}"
