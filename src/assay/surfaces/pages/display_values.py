"""Numbers, times and states as a page shows them: each with what it means and what it is counted over."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from assay.core.metrics_summary import cluster_interval_of, interval_of
from assay.core.run_result import RunListing
from assay.core.run_state import TERMINAL
from assay.surfaces.reporters.run_numbers import UNKNOWN, decimal, dollars, latency
from assay.surfaces.reporters.run_numbers import rate as rate_number
from assay.surfaces.reporters.wording import counted, price_unknown_text

Kind = Literal["good", "bad", "warn", "live", "quiet"]
"""How a word is meant; each has a colour and a shape, and the word beside it."""
DASH = "\u2013"
_KINDS: dict[str, Kind] = {
    "queued": "quiet",
    "completed": "good",
    "completed_with_failures": "warn",
    "failed": "bad",
    "cancelled": "quiet",
    "interrupted": "warn",
    "damaged": "bad",
    "unreachable": "warn",
}
_STATES = {
    "queued": "Queued.",
    "validating": "Its records are being validated.",
    "running": "Models are being called.",
    "retrying": "Records with an error are being retried.",
    "finalizing": "The artifacts are being written and hashed.",
    "completed": "Every record has been graded or skipped.",
    "completed_with_failures": "It is finished; some records have no score.",
    "failed": "It could not continue. Unless it was sealed, it can be resumed.",
    "cancelled": "It was cancelled before all records were done.",
    "interrupted": "No process is working on it. You can resume it.",
    "damaged": "Its files cannot be read.",
    "unreachable": "Its ledger cannot be reached, or no longer contains it.",
}
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


class DisplayValue(msgspec.Struct, frozen=True):
    """A number in words, and what it means."""

    text: str
    says: str = ""
    """Shown when it is pointed at or focused: what is counted, over how many, how."""
    n: str = ""
    """How many it is of, where that stands beside it."""


class Badge(msgspec.Struct, frozen=True):
    """A word that is good or bad news."""

    text: str
    kind: Kind
    says: str = ""


class Timestamp(msgspec.Struct, frozen=True):
    """A time: for machines as it is, for people without a script in UTC; a script shows it in the reader's zone."""

    iso: str
    text: str


class IntervalBar(msgspec.Struct, frozen=True):
    """An interval as a small bar on a line from 0 to 100."""

    low: float
    middle: float
    high: float


class KeyMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A number that stands large on a page."""

    label: str
    figure: DisplayValue
    note: str = ""
    bar: IntervalBar | None = None


class Fact(msgspec.Struct, frozen=True):
    """A label and what belongs to it."""

    label: str
    text: str
    is_hash: bool = False


class DecisionView(msgspec.Struct, frozen=True):
    """A decision with its reason."""

    mark: Badge
    reason: str


def state_mark(state: str) -> Badge:
    """The state of a run, or that it was interrupted."""
    return Badge(state.replace("_", " "), _KINDS.get(state, "live"), _STATES.get(state, ""))


def is_live(listing: RunListing) -> bool:
    """True while a run may still change."""
    return listing.state not in TERMINAL and listing.state not in ("damaged", "unreachable")


def gate_mark(listing: RunListing) -> Badge | None:
    """Whether a run met its gates; None where it has none."""
    if listing.has_no_result:
        return Badge("no result", "bad", "No result; see its page for the reason.")
    if listing.passed is None:
        return None
    met = Badge("met", "good", "It met every gate.")
    return met if listing.passed else Badge("missed", "bad", "It missed a gate; see its page.")


def moment(iso: str) -> Timestamp | None:
    """A time of a manifest; None where there is none."""
    if not iso:
        return None
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        return None
    return Timestamp(iso, f"{found:%Y-%m-%d %H:%M} UTC")


def interval_text(interval: tuple[float, float] | None) -> str:
    """`0.44 to 0.97`, or that there is none."""
    return "no interval" if interval is None else f"{decimal(interval[0])} to {decimal(interval[1])}"


def rate_interval_text(interval: tuple[float, float] | None) -> str:
    """`43.6 % to 97.0 %`, or that there is none."""
    return "no interval" if interval is None else f"{rate_number(interval[0])} to {rate_number(interval[1])}"


def ends(metrics: dict[str, Any], member: str) -> tuple[float, float] | None:
    """The two ends of the interval that is meant with a figure of the metrics."""
    return ends_of(interval_of(metrics, member))


def ends_of(interval: dict[str, Any] | None) -> tuple[float, float] | None:
    """The two ends of an interval."""
    return None if interval is None else (interval["low"], interval["high"])


def share(count: int, total: int) -> DisplayValue:
    """`12.5 %`; only all of them are 100 and only none are 0."""
    if not total:
        return DisplayValue(DASH)
    part = count / total if count in (0, total) else min(max(count / total, 0.001), 0.999)
    return DisplayValue(rate_number(part), f"{count:,} of {total:,}")


class MetricBasis(msgspec.Struct, frozen=True):
    """What a figure is counted over."""

    answers: int
    """With a score."""
    records: int | None = None
    """That they are to, where records were asked several times: an interval is over those."""
    clusters: int | None = None
    """That they are in, where records hang together: an interval is over those."""

    @property
    def says(self) -> str:
        """In words."""
        if self.clusters is not None:
            return f"{counted(self.answers, 'scored record')} in {counted(self.clusters, 'cluster')}"
        if self.records in (None, self.answers):
            return counted(self.answers, "scored record")
        return f"{counted(self.answers, 'scored answer')} to {counted(self.records or 0, 'record')}"

    @property
    def n(self) -> str:
        """As it stands beside a figure."""
        if self.clusters is not None:
            return f"n {counted(self.clusters, 'cluster')}"
        return f"n {self.answers if self.records is None else self.records:,}"


def basis(n: int, metrics: dict[str, Any], member: str) -> MetricBasis:
    """What a figure of the metrics is counted over, and what its interval counts."""
    clustered, plain = cluster_interval_of(metrics, member), metrics[f"{member}_interval"] or {}
    return MetricBasis(n, plain.get("n"), None if clustered is None else clustered["n"])


def rate(value: float | None, interval: tuple[float, float] | None, *, over: MetricBasis, name: str = "pass rate") -> DisplayValue:
    """A share of records that have a score, with its interval."""
    if value is None:
        return DisplayValue(DASH, f"{name}: no record has a score")
    said = "" if interval is None else f"; 95 % interval {rate_interval_text(interval)}"
    return DisplayValue(rate_number(value), f"{name} {rate_number(value)} of {over.says}{said}", over.n)


def score(
    value: float | None, interval: tuple[float, float] | None, *, over: MetricBasis, scale: str, name: str = "mean score"
) -> DisplayValue:
    """A mean of scores on their scale, with its interval."""
    if value is None:
        return DisplayValue(DASH, f"{name}: not known" if over.answers else f"{name}: no record has a score")
    scaled = f" on the scale {scale}" if scale else ""
    said = "" if interval is None else f"; 95 % interval {interval_text(interval)}"
    return DisplayValue(decimal(value), f"{name} {decimal(value)}{scaled} over {over.says}{said}", over.n)


def money(amount: float | None, *, unpriced: int = 0) -> DisplayValue:
    """What calls cost; what is not known makes it a lower bound."""
    rest = f"; {price_unknown_text(unpriced, 'record')}" if unpriced else ""
    if amount is None:
        return DisplayValue("unknown" if unpriced else DASH, f"cost in US dollars: no price is known{rest}")
    return DisplayValue(("> " if unpriced else "") + dollars(amount), f"cost in US dollars of candidate and judges{rest}")


def most_took(p95: float | None) -> str:
    """How long nearly all of it took, in milliseconds; nothing where nobody measured."""
    if p95 is None:
        return ""
    limit = latency(p95)
    return f"95 % took {limit}" if limit.startswith("<") else f"95 % took less than {limit}"


def domain(scale: str) -> tuple[float, float]:
    """The ends of a scale such as `1-5`; 0 and 1 where it names none."""
    low, _, high = scale.partition("-")
    return (float(low), float(high)) if low.isdigit() and high.isdigit() and low != high else (0.0, 1.0)


def whisker(
    value: float | None, interval: tuple[float, float] | None, *, domain: tuple[float, float] = (0.0, 1.0)
) -> IntervalBar | None:
    """The bar of an estimate; None where there is nothing to draw."""
    if value is None:
        return None
    low, high = interval or (value, value)
    return IntervalBar(
        *(round(100 * min(max((end - domain[0]) / (domain[1] - domain[0]), 0.0), 1.0), 2) for end in (low, value, high))
    )


def size(number: int) -> str:
    """`812 bytes`, `1.4 MB`; a KB has 1024 bytes."""
    amount, unit = float(number), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{number:,} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def shown(text: str) -> str:
    """A text of a reporter; its dash for what is unknown is one here too."""
    return DASH if text == UNKNOWN else text
