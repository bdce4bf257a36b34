"""Numbers and states in words: the only place that writes intervals, scales, rates, costs, times, counts, states and decisions.

What is unknown is a dash, never 0. Where a page explains a number, the explanation is written here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from assay import api
from assay.core.number_text import ChangeText, rate_change_text, rate_text, score_change_text, score_text
from assay.core.runs import TERMINAL
from assay.core.summary import on_scale
from assay.presentation.sections import Badge, Cell, DisplayValue, IntervalBar, Timestamp, Tone

if TYPE_CHECKING:
    # A report on datasets needs these words, and none of the types of a run.
    from assay.core.artifact_lines import JudgeDisagreement, PredictionLine
    from assay.core.plan import PluginPlan
    from assay.core.run_result import RunListing
    from assay.core.summary import AmountSummary, Interval, MeanBounds, ProfileSummary, RecordMetrics

UNKNOWN = "-"
DASH = "\u2013"
"""What pages show for the unknown."""
NO_VALUE = "(none)"
"""Records of a slice that have no value."""
PASSED, NOT_PASSED, ERROR = "passed", "not passed", "error"
"""Three results of a record, in the words of every report."""
MET, MISSED = "MET", "MISSED"
NO_RESULT = "NO RESULT"
"""Neither: nothing could be graded, or the run was cancelled."""
BLOCKED, UNFINISHED = "BLOCKED", "UNFINISHED"
NOTE = "NOTE"
"""A reason that is worth knowing and decides nothing."""
NO_GATES = "no gates"
"""Word where there is nothing to decide."""
DATASETS = 8
"""Datasets that are listed by name; a folder may have thousands of files."""
PASS_RATE_BAR = "the bar is its 95 % interval from 0 to 100 %"
INTERVALS_NOTE = "Numbers in brackets are 95 % intervals"
"""What every report says of its intervals."""
BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SECOND = 1000.0
_MINUTE = 60.0
_HOUR = 3600.0
_UNITS = ("bytes", "KB", "MB", "GB", "TB")
_STATE_TONES: dict[str, Tone] = {
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
TONES: dict[str, Tone] = {
    MET: "good",
    MISSED: "bad",
    NO_RESULT: "bad",
    BLOCKED: "bad",
    UNFINISHED: "live",
    NOTE: "warn",
    "IMPROVED": "good",
    "WORSE": "bad",
    "UNDECIDED": "warn",
}
"""How the word of a decision is meant."""

Ends = tuple[float, float] | None
"""Two ends of an interval; None where there is none."""
Item = TypeVar("Item")


class _HasEnds(Protocol):
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class EstimateLike(Protocol):
    """A value with its interval, such as a `MetricValue` or an estimate of a comparison."""

    @property
    def value(self) -> float | None:
        """None where it is undefined."""

    @property
    def interval(self) -> _HasEnds | None:
        """None where there is none."""


class ExplainedEstimate(EstimateLike, Protocol):
    """An estimate of a comparison or a calibration, which says what it rests on."""

    @property
    def n(self) -> int:
        """Number of records, units or comparisons."""

    @property
    def reason(self) -> str:
        """Why there is no value, or no interval; empty where there are both."""


# Numbers


def decimal(value: float | None) -> str:
    """Return a score: `0.83`."""
    return UNKNOWN if value is None else score_text(value)


def rate(value: float | None) -> str:
    """Return a rate: `83.3 %`."""
    return UNKNOWN if value is None else rate_text(value)


def level_name(score: float) -> str:
    """Return a score of a distribution: `4`, `0.55`."""
    return f"{score:g}" if float(score).is_integer() else score_text(score)


def record_score(raw: float | None, scale: str) -> str:
    """Return the score of a record on its own scale; a dash without one."""
    return UNKNOWN if raw is None else f"{raw:g}" if scale == "1-5" else decimal(raw)


def percent(part: float, whole: float) -> str:
    """Return `60 %`; it says 100 only when everything is done."""
    return UNKNOWN if not whole else f"{int(100 * part / whole)} %"


def counted(number: int, noun: str) -> str:
    """Return `1 file`, `1,204 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def p_text(p: float | None) -> str:
    """Return `0.031`, `<0.001`."""
    if p is None:
        return UNKNOWN
    # A p of 0.0004 is neither 0 nor worth more digits.
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def bar(count: int, largest: int) -> str:
    """Return a bar whose length is to that of the largest as the counts are; anything above 0 leaves a mark."""
    if not count or not largest:
        return ""
    # At least one eighth: a single record among 50,000 must not look like none.
    eighths = max(1, round(8 * BAR_WIDTH * count / largest))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def size(number: int) -> str:
    """Return `812 bytes`, `1.4 MB`; a KB has 1024 bytes."""
    # 1024-based, as the limits of the contracts.
    amount, unit = float(number), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{number:,} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def share(count: int, total: int) -> DisplayValue:
    """Return `12.5 %`; only all of them are 100 and only none are 0."""
    if not total:
        return DisplayValue(DASH)
    # Rounded, 49,999 of 50,000 would be 100.0 %, which says that none failed.
    part = count / total if count in (0, total) else min(max(count / total, 0.001), 0.999)
    return DisplayValue(rate(part), f"{count:,} of {total:,}")


def shown(text: str) -> str:
    """Return a text as a page shows it, whose dash for what is unknown is a longer one."""
    return DASH if text == UNKNOWN else text


# Intervals and scales


def ends_of(interval: _HasEnds | None) -> Ends:
    """Return the two ends of an interval."""
    return None if interval is None else (interval.low, interval.high)


def ends_between(low: float | None, high: float | None) -> Ends:
    """Return the two ends, where both are known."""
    return None if low is None or high is None else (low, high)


def bracketed(ends: Ends, text: Callable[[float], str] = decimal) -> str:
    """Return `[0.44, 0.97]`; empty without an interval."""
    return "" if ends is None else f"[{text(ends[0])}, {text(ends[1])}]"


def with_interval(value: float | None, ends: Ends, text: Callable[[float], str] = decimal) -> str:
    """Return a number and its interval: `0.83 [0.44, 0.97]`, or in the words of another function."""
    if value is None:
        return UNKNOWN
    return text(value) if ends is None else f"{text(value)} {bracketed(ends, text)}"


def metric_text(metric: EstimateLike, *, is_rate: bool = False) -> str:
    """Return a metric with its interval: `4.33 [3.97, 4.69]`, `83.3 % [43.6 %, 97.0 %]`."""
    return with_interval(metric.value, ends_of(metric.interval), rate if is_rate else decimal)


def interval_text(ends: Ends, *, is_rate: bool = False) -> str:
    """Return `0.44 to 0.97`, or that there is none."""
    text = rate if is_rate else decimal
    return "no interval" if ends is None else f"{text(ends[0])} to {text(ends[1])}"


def change_text(estimate: EstimateLike, *, before: float | None = None, after: float | None = None, is_rate: bool = False) -> str:
    """Return `+5.0 pp [-1.2 pp, +11.3 pp]`, `+0.05 [-0.01, +0.11]`; `before` and `after` are given where they are shown with it."""
    if estimate.value is None:
        return UNKNOWN
    text: ChangeText = rate_change_text if is_rate else score_change_text
    # Given both levels, the difference is rounded so that it fits the two numbers shown next to it.
    shown_change = text(estimate.value, before=before, after=after)
    return f"{shown_change} {bracketed(ends_of(estimate.interval), text) or '(no interval)'}"


def bounds_text(bounds: MeanBounds | None, *, scale: str | None = None, is_rate: bool = False) -> str:
    """Return `0.40 at worst, 0.45 at best`, on the scale; empty where nothing is known."""
    if bounds is None:
        return ""
    # Bounds are stored from 0 to 1; on a 1-5 scale they are shown where the mean is.
    worst, best = ((rate if is_rate else decimal)(_raw(end, scale)) for end in (bounds.worst, bounds.best))
    return f"{worst} at worst, {best} at best"


def _raw(value: float | None, scale: str | None) -> float | None:
    return None if value is None else on_scale(value, scale)


def domain(scale: str | None) -> tuple[float, float]:
    """Return the ends of a scale such as `1-5`; 0 and 1 where it names none."""
    low, _, high = (scale or "").partition("-")
    # Names such as `0/1` or a profile's own scale are not ranges; equal ends would divide by zero in `whisker`.
    return (float(low), float(high)) if low.isdigit() and high.isdigit() and low != high else (0.0, 1.0)


def whisker(value: float | None, ends: Ends, *, domain: tuple[float, float] = (0.0, 1.0)) -> IntervalBar | None:
    """Return the bar of an estimate; None where there is nothing to draw."""
    if value is None:
        return None
    low, high = ends or (value, value)
    # Intervals of means may reach beyond the scale (t, bootstrap of few records); the bar ends with it.
    return IntervalBar(
        *(round(100 * min(max((end - domain[0]) / (domain[1] - domain[0]), 0.0), 1.0), 2) for end in (low, value, high))
    )


class MetricBasis(msgspec.Struct, frozen=True):
    """What a figure is counted over."""

    answers: int
    """With a score."""
    records: int | None = None
    """That they are to, where records were asked several times: an interval is over those."""
    clusters: int | None = None
    """Clusters of the records, where they have some: an interval is over clusters."""

    @property
    def says(self) -> str:
        """In words."""
        # The interval is over what was drawn independently: clusters, else records, else answers. The number
        # behind a metric is of those.
        if self.clusters is not None:
            return f"{counted(self.answers, 'scored record')} in {counted(self.clusters, 'cluster')}"
        if self.records in (None, self.answers):
            return counted(self.answers, "scored record")
        return f"{counted(self.answers, 'scored answer')} to {counted(self.records or 0, 'record')}"

    @property
    def n(self) -> str:
        """The number as it follows a metric."""
        if self.clusters is not None:
            return f"n {counted(self.clusters, 'cluster')}"
        return f"n {self.answers if self.records is None else self.records:,}"


def basis(n: int, plain: Interval | None, clustered: Interval | None) -> MetricBasis:
    """Return what a metric over n answers is counted over, from its interval over records and the one over clusters."""
    return MetricBasis(n, None if plain is None else plain.n, None if clustered is None else clustered.n)


def rate_value(value: float | None, ends: Ends, *, over: MetricBasis, name: str = "pass rate") -> Cell:
    """Return a share of records that have a score, with its interval."""
    if value is None:
        return Cell(DASH, f"{name}: no record has a score")
    said = "" if ends is None else f"; 95 % interval {interval_text(ends, is_rate=True)}"
    return Cell(
        rate(value),
        f"{name} {rate(value)} of {over.says}{said}",
        over.n,
        interval=bracketed(ends, rate),
        bar=whisker(value, ends),
    )


def score_value(value: float | None, ends: Ends, *, over: MetricBasis, scale: str | None, name: str = "mean score") -> Cell:
    """Return a mean of scores on their scale, with its interval."""
    if value is None:
        # Two reasons for no value: nothing was scored, or what was scored has no mean that is defined.
        return Cell(DASH, f"{name}: not known" if over.answers else f"{name}: no record has a score")
    scaled = f" on the scale {scale}" if scale else ""
    said = "" if ends is None else f"; 95 % interval {interval_text(ends)}"
    return Cell(
        decimal(value),
        f"{name} {decimal(value)}{scaled} over {over.says}{said}",
        over.n,
        interval=bracketed(ends),
        bar=whisker(value, ends, domain=domain(scale)),
    )


def pass_rate_value(metrics: RecordMetrics, *, name: str = "pass rate") -> Cell:
    """Return the pass rate of a run or a slice."""
    over = basis(metrics.n_scored, metrics.pass_rate_interval, metrics.pass_rate_cluster_interval)
    return rate_value(metrics.pass_rate, ends_of(metrics.pass_rate_metric.interval), over=over, name=name)


def profile_value(profile: ProfileSummary) -> Cell:
    """Return the headline of a benchmark."""
    over = basis(profile.n, profile.headline_interval, profile.headline_cluster_interval)
    return score_value(profile.headline, ends_of(profile.metric.interval), over=over, scale=profile.scale, name=profile.name)


# Money and time


def dollars(amount: float) -> str:
    """Return `$12.40`, `$0.0123`, `$0.00000450`: cents at least, and three digits of what is less."""
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    # A call of a small model costs fractions of a cent, and comparing two of them takes three digits.
    places = next((places for places in range(2, 12) if amount * 10 ** (places - 2) >= 1), 12)
    return f"${amount:.{max(places, 4)}f}"


def price_unknown_text(number: int, noun: str) -> str:
    """Return `price unknown for 40 records`; empty for none."""
    return f"price unknown for {counted(number, noun)}" if number else ""


def cost_text(cost: AmountSummary) -> str:
    """Return what the calls cost, and how many records have no known price."""
    known = dollars(cost.sum) if cost.sum is not None else ""
    return " · ".join(filter(None, (known, price_unknown_text(cost.n_unknown, "record")))) or UNKNOWN


def money(amount: float | None, *, unpriced: int = 0) -> Cell:
    """Return what calls cost, short for a cell; what is not known makes it a lower bound."""
    # Next to a known sum the unknown prices make it a lower bound, which the sign says.
    rest = f"; {price_unknown_text(unpriced, 'record')}" if unpriced else ""
    if amount is None:
        return Cell("unknown" if unpriced else DASH, f"cost in US dollars: no price is known{rest}")
    return Cell(("> " if unpriced else "") + dollars(amount), f"cost in US dollars of candidate and judges{rest}")


def latency(milliseconds: float | None) -> str:
    """Return `812 ms`, `2.1 s`, `3 min 05 s`."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < _SECOND:
        return f"{milliseconds:.0f} ms" if milliseconds >= 1 else "<1 ms"
    return duration(milliseconds / _SECOND)


def duration(seconds: float) -> str:
    """Return `400 ms`, `4.2 s`, `42 s`, `3 min 05 s`, `2 h 07 min`."""
    # The limits lie half a last digit below the round number, so that rounding never prints `1000 ms`, `10.0 s`
    # or `60 s`.
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


def most_took(p95: float | None) -> str:
    """Return how long nearly all of it took, in milliseconds; empty if it was not measured."""
    if p95 is None:
        return ""
    # `latency` writes less than a millisecond as `<1 ms`, which is a limit already.
    return f"95 % took {latency(p95)}" if p95 < 1 else f"95 % took less than {latency(p95)}"


def moment(iso: str) -> Timestamp | None:
    """Return a time of a manifest; None where there is none."""
    if not iso:
        return None
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        return None
    # Manifests are written in UTC.
    return Timestamp(iso, f"{found:%Y-%m-%d %H:%M} UTC")


# What a run would cost


def estimate_text(estimate: api.CostEstimate) -> str:
    """Return `about $0.0123 for 12 calls`, or why the sum is unknown."""
    calls = counted(estimate.calls, "call")
    if not estimate.calls:
        return "free: no model is called"
    if all(model.is_free for model in estimate.models):
        return f"free: local or scripted models only ({calls})"
    if estimate.cost is not None:
        return f"about {dollars(estimate.cost)} for {calls}"
    unknown = dict.fromkeys(model.model for model in estimate.models if model.cost is None)
    rest = f"; about {dollars(estimate.known_cost)} for the rest" if estimate.known_cost else ""
    return f"unknown for {calls}: no price is listed for {', '.join(unknown)}{rest}"


def batch_text(model: api.ModelEstimate) -> str:
    """Return `2 batches of openai/gpt-6-sol for 60,000 requests, about $1.20 instead of $2.40; answers within 24 hours`."""
    batches = "1 batch" if model.batches == 1 else f"{model.batches:,} batches"
    cost = ", price unknown"
    if model.cost is not None and model.live_cost is not None:
        cost = f", about {dollars(model.cost)} instead of {dollars(model.live_cost)} one by one"
        cost += " (half is taken for granted, no price of batches is listed)" if model.is_assumed else ""
    return f"{batches} of {model.model} for {counted(model.calls, 'request')}{cost}; answers within 24 hours"


def assumption_text(estimate: api.CostEstimate) -> str:
    """Return the assumptions of an estimate; empty if no call costs money."""
    if not any(not model.is_free for model in estimate.models):
        return ""
    sent = sum(model.input_tokens for model in estimate.models)
    parts = [f"{sent:,} tokens are sent (4 bytes each)"]
    parts += [f"answers have {estimate.answer_tokens:,} tokens"] if _has_stage(estimate, "candidate") else []
    parts += [f"verdicts have {estimate.verdict_tokens:,}"] if _has_stage(estimate, "judge") else []
    if estimate.sampled < estimate.records:
        # The estimate reads the first records and multiplies; prompts of other lengths further on would change
        # it.
        parts.append(f"all {estimate.records:,} records are like the {estimate.sampled:,} looked at")
    return f"if {', '.join(parts)}; without thinking, retries and cached replies"


def _has_stage(estimate: api.CostEstimate, stage: str) -> bool:
    return any(model.stage == stage for model in estimate.models)


# States and decisions


def state_mark(state: str) -> Badge:
    """Return the state of a run, or that it was interrupted."""
    # A state without a tone is one in progress.
    return Badge(state.replace("_", " "), _STATE_TONES.get(state, "live"), _STATES.get(state, ""))


def is_live(listing: RunListing) -> bool:
    """Return True while a run may still change."""
    return listing.state not in TERMINAL and listing.state not in ("damaged", "unreachable")


def gate_mark(listing: RunListing) -> Badge | None:
    """Return whether a run met its gates; None where it has none."""
    # Asked first: a run without a result met no gate either, but that is not a verdict on it.
    if listing.has_no_result:
        return Badge("no result", "bad", "No result; see its page for the reason.")
    if listing.passed is None:
        return None
    met = Badge("met", "good", "It met every gate.")
    return met if listing.passed else Badge("missed", "bad", "It missed a gate; see its page.")


def gate_word(*, passed: bool) -> str:
    """Return what became of a gate."""
    return MET if passed else MISSED


def change_word(verdict: api.GateDecision) -> str:
    """Return ` · regression` or ` · improved` where a comparison with a baseline shows it; else empty."""
    words = {finding.word for finding in verdict.reasons if finding.is_difference}
    return next((f" · {word.lower()}" for word in ("REGRESSION", "IMPROVED") if word in words), "")


def finding_word(finding: api.GateReason) -> str:
    """Return MISSED for a reason that keeps the gate from being met, NOTE for one that is only worth knowing; else MET."""
    if finding.is_failure:
        return MISSED
    return NOTE if finding.word == "WARNING" else MET


# Errors, names and lists


def error_text(code: str, message: str | None) -> str:
    """Return `timeout: judge openai/gpt-6-sol after 3 attempts: no whole answer within 60 s`: the code once, then the message."""
    return ": ".join(filter(None, (code, without_code(code, message or ""))))


def without_code(code: str, message: str) -> str:
    """Return the message of an error without the code that is shown next to it; the message about a judge repeats it."""
    if not code:
        return message

    def kept(found: re.Match[str]) -> str:
        tries = found["tries"] or ""
        return f"{tries}: " if found["before"] else f"{tries.strip()}: " if tries else ""

    # The attempt log stores whole sentences, and sealed artifacts cannot be rewritten, so the code is taken out
    # where it is shown.
    return re.sub(rf"(?P<before>^|: ){re.escape(code)}(?P<tries> after \d+ attempts)?: ", kept, message, count=1)


def sampled_name(line: PredictionLine | JudgeDisagreement) -> str:
    """Return the record's id, and which of several answers to it a line is about."""
    return sample_name(line.record_id, None if line.sample is msgspec.UNSET else line.sample)


def sample_name(record_id: str, sample: int | None) -> str:
    """Return `q-1`, `q-1 (sample 2)`."""
    return record_id if sample is None else f"{record_id} (sample {sample})"


def first_datasets(datasets: Sequence[Item]) -> tuple[Sequence[Item], str]:
    """Return those that are listed, and words for the others; empty when there are none."""
    more = len(datasets) - DATASETS
    return (datasets[:DATASETS], f"and {more:,} more, {len(datasets):,} in all") if more > 0 else (datasets, "")


def plugin_words(plugin: PluginPlan) -> tuple[str, ...]:
    """Return `exact`, `acme-evals 2.1`, `source 1f2e3d4c5b6a`: a piece of code as a report names it."""
    package = f"{plugin.distribution} {plugin.version}".strip()
    source = f"source {plugin.source_sha256[:12]}" if plugin.source_sha256 else ""
    return tuple(part for part in (plugin.name, package, source) if part)


def one_line(text: str) -> str:
    """Return the text with every stretch of white space as one space."""
    return " ".join(text.split())


def cut(text: str, limit: int) -> str:
    """Return the first characters of a text; what is left out shows as `…`."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
