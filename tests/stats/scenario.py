"""What a row of the table simulates."""

from collections.abc import Callable

import msgspec
import numpy as np

from assay.core.summary import Interval

Generator = np.random.Generator
Trial = Callable[[Generator], bool | None]
"""True for a truth that was covered, or for an alarm; None when the numbers allow no answer."""

FIVE = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
GOOD = np.array([0.05, 0.10, 0.15, 0.30, 0.40])
SKEWED = np.array([0.03, 0.02, 0.05, 0.10, 0.80])
FEW_RECORDS = "so few records often do not show the lowest scores, which the interval has to allow for"
FEW_CLUSTERS = "so few clusters hardly show their correlation, which is never taken as negative"
RESAMPLES = 1_000


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    sizes: str
    trial: Trial
    target: float = 95.0
    """Percent of trials that should be covered, or alarmed."""
    note: str = ""
    """Why it misses its target by more than one point, where it does by nature."""


def holds(interval: Interval | None, truth: float) -> bool | None:
    return None if interval is None else interval.low <= truth <= interval.high
