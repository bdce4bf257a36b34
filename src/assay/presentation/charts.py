"""What a chart is drawn from: plain numbers and texts of any origin."""

from math import isfinite

import msgspec

LARGEST = 1e100
"""No score comes near; beyond it the arithmetic of an axis may overflow."""


class Caption(msgspec.Struct, frozen=True):
    """What a chart says about itself."""

    title: str
    """What is shown, as a reader would say it."""
    note: str = ""
    """One or two lines below the title: of what, how many, which intervals."""
    width: int = 420
    """Pixels; below 320 it is drawn for 320 and scaled by the page that shows it."""


class PlottedEstimate(msgspec.Struct, frozen=True):
    """A figure with its interval and the number of records behind it; None where it is not known."""

    low: float | None
    middle: float | None
    high: float | None
    n: int
    is_rate: bool = False
    """A share of records, which is written as a percentage."""

    @property
    def is_known(self) -> bool:
        """False for what has no score, which is shown as a gap and never as 0."""
        return is_drawable(self.middle)

    @property
    def has_interval(self) -> bool:
        """True when both ends are known."""
        return self.is_known and is_drawable(self.low) and is_drawable(self.high)

    @property
    def known_values(self) -> list[float]:
        """Those of the three numbers that can be drawn."""
        return [value for value in (self.low, self.middle, self.high) if value is not None and is_drawable(value)]


class ScoreLevel(msgspec.Struct, frozen=True):
    """How many records have a score from `low` to `high`; equal ends are a score of its own."""

    low: float
    high: float
    count: int


class IntervalRow(msgspec.Struct, frozen=True):
    """A line of an interval plot."""

    label: str
    estimate: PlottedEstimate
    group: str = ""
    """Rows of one group, which follow each other, stand under its name."""


class PlottedRun(msgspec.Struct, frozen=True):
    """A run in a trend; the points are in the order of time."""

    label: str
    estimate: PlottedEstimate
    remark: str = ""
    """Why this point stands out; it is drawn in the colour of warnings, with these words."""


class ScoreBin(msgspec.Struct, frozen=True):
    """Records that were given about the same score, and how they really were."""

    given: float
    """Mean of what the judge said."""
    observed: PlottedEstimate
    """Mean of what the labels say."""


class FlipChartData(msgspec.Struct, frozen=True):
    """Records of two runs, by what each came to."""

    both_passed: int
    gained: int
    """Passed only in the second."""
    lost: int
    """Passed only in the first."""
    both_failed: int


class ReferenceLine(msgspec.Struct, frozen=True):
    """A value that the others are seen against: a gate, a baseline."""

    value: float
    label: str


# Charts take numbers of any origin (imported scores, a profile's headline), and one infinity would move every
# other point to the edge.
def is_drawable(value: float | None) -> bool:
    """Return True for a number that has a place on an axis."""
    return value is not None and isfinite(value) and abs(value) <= LARGEST


class IntervalPlot(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates below each other on one axis."""

    rows: tuple[IntervalRow, ...]
    domain: tuple[float, float] | None = None
    reference: ReferenceLine | None = None
    omitted: int = 0
    """Rows that are left out, because there are too many."""


class DifferencePlot(msgspec.Struct, frozen=True, kw_only=True):
    """Differences below each other, on an axis around 0."""

    rows: tuple[IntervalRow, ...]
    omitted: int = 0


class DistributionPlot(msgspec.Struct, frozen=True, kw_only=True):
    """How often each score was given."""

    levels: tuple[ScoreLevel, ...]
    domain: tuple[float, float]
    mean: PlottedEstimate | None = None


class ReliabilityPlot(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said against what the labels say."""

    bins: tuple[ScoreBin, ...]
    axes: tuple[str, str]


class TrendPlot(msgspec.Struct, frozen=True, kw_only=True):
    """Runs in the order of time."""

    points: tuple[PlottedRun, ...]
    domain: tuple[float, float] | None = None


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart before it is drawn, and the file that it belongs in."""

    name: str
    title: str
    note: str
    plot: IntervalPlot | DifferencePlot | DistributionPlot | FlipChartData | ReliabilityPlot | TrendPlot
    subject: str = ""
    """Run that it is about, where a report has charts of several."""

    @property
    def heading(self) -> str:
        """Title, with the run where that is not clear."""
        return f"{self.title}: {self.subject}" if self.subject else self.title
