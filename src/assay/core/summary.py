"""The summary of a run and of its slices: the types of `metrics_summary.json` and `metrics_by_slice.json`.

Members have the order of the files, because the files are these structs, encoded. `read_summary` and
`read_slices` are the only readers; they also read what earlier versions wrote, and give every member that those did not know.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol, SupportsFloat

import msgspec

from assay.core.canonical import JsonObject
from assay.core.graders import GraderKind
from assay.core.runs import RunCounts

# Not a setting: runs with different levels could not be compared, and readers would have to ask each time.
LEVEL = 0.95
"""Of every interval."""
METRICS = "metrics_summary.json"
BY_SLICE = "metrics_by_slice.json"


class SortedNumbers(Protocol):
    """Sorted numbers, in a list or an array."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> SupportsFloat: ...


def percentile(ordered: SortedNumbers, share: float) -> float:
    """Return the value below which a share of sorted values lies, interpolated linearly."""
    # Interpolated linearly, as numpy does by default; a run under way and a sealed one must show the same percentile.
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (high - low) * (place - below)


def on_scale(normalized: float, scale: str | None) -> float:
    """Return a score from 0 to 1 on the scale of its record; of all scales only 1-5 differs from 0-1."""
    return 1 + 4 * normalized if scale == "1-5" else normalized


class RunKind(Enum):
    """What the metrics of a run are about."""

    GRADING = "grading"
    """Answers of one candidate, graded: scores and passes."""
    RANKING = "ranking"
    """Answers of several candidates, compared two at a time: strengths."""


# An interval names its method and n, so that a reader of the artifact can recompute it without this program.
class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Range that plausibly holds the true value."""

    low: float
    high: float
    level: float = LEVEL
    method: str
    n: int
    """Number of records, or clusters, that it was computed from."""
    # UNSET leaves the member out of the file; None would say that something was resampled an unknown number of times.
    resamples: int | msgspec.UnsetType = msgspec.UNSET
    """Only where it was resampled."""

    def to_json(self) -> dict[str, object]:
        """Convert to plain values, as artifacts hold them."""
        found: dict[str, object] = msgspec.to_builtins(self)
        return found


class MetricValue(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its interval and its n; an undefined one is None."""

    value: float | None
    interval: Interval | None
    standard_error: float | None = None
    """Not known of runs that earlier versions sealed."""
    n: int
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """Why there is no value, or no interval."""


class MeanBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Means under the assumption that every record without a score had the worst one, or the best one."""

    worst: float | None
    best: float | None
    n: int


class LatencySummary(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of some calls in milliseconds; None where no latency is known."""

    n: int
    """Number of records, or calls, with a known latency."""
    p50: float | None
    p95: float | None
    mean: float | None
    max: float | None

    def figures(self) -> dict[str, float | None]:
        """Return all values but `n`, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "n"}


class RunLatencies(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of the candidate, of the judges, and of whole records."""

    model: LatencySummary
    judge: LatencySummary
    end_to_end: LatencySummary

    def by_name(self) -> dict[str, LatencySummary]:
        """All of them, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


# Known and unknown are counted separately: an unknown price is never 0, and a sum without its n says nothing.
class AmountSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Sum and mean of the known amounts, and the number of known and unknown ones."""

    sum: int | float | None
    """An integer for tokens."""
    mean: float | None
    n_known: int
    n_unknown: int


class TokenAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of the candidate, and of the judges together."""

    input: AmountSummary
    output: AmountSummary
    total: AmountSummary
    cached: AmountSummary
    judge: AmountSummary

    def by_name(self) -> dict[str, AmountSummary]:
        """All of them, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class ScoreCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of records with one score, or with a score in a range."""

    score: float | msgspec.UnsetType = msgspec.UNSET
    start: float | msgspec.UnsetType = msgspec.field(name="from", default=msgspec.UNSET)
    end: float | msgspec.UnsetType = msgspec.field(name="to", default=msgspec.UNSET)
    count: int


class ProfileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Official score of a benchmark; intervals and standard errors are those of the plain mean."""

    id: str
    version: str
    sha256: str
    compat: bool
    scale: str
    headline: float | None
    headline_interval: Interval | None
    headline_cluster_interval: Interval | None
    headline_standard_error: float | None
    headline_cluster_standard_error: float | None
    mean: float | None
    n: int
    headline_bounds: MeanBounds | None
    n_scored: int
    n_unscored: int
    unscored: dict[str, int]
    """Number of records without a score, by reason."""

    @property
    def name(self) -> str:
        """`prbench` or `prbench (compat)`."""
        return f"{self.id} (compat)" if self.compat else self.id

    @property
    def metric(self) -> MetricValue:
        """Return the headline with the interval to show: by clusters, if there are any."""
        return MetricValue(
            value=self.headline,
            # Where records belong together, the interval by clusters is meant; a narrower one would promise what no gate keeps.
            interval=self.headline_cluster_interval or self.headline_interval,
            standard_error=_either(self.headline_cluster_standard_error, self.headline_standard_error),
            n=self.n,
        )


class TruncationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that ended at the output limit, and what the metrics are without them; with them they are those of the run."""

    n: int
    """Answers that ended at the limit, graded or not."""
    n_answers: int
    """Those answers, and all graded ones."""
    share: float | None
    n_without: int
    """Graded answers that are whole."""
    pass_rate_without: float | None
    score_mean_without: float | None
    """On the scale 0-1."""
    raw_score_mean_without: float | None


class ToolMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one tool, or of all."""

    expected: int
    scored: int
    """Expected calls that were compared; those after the candidate left the recording are unknown."""
    made: int
    name_correct: int
    """Expected calls in whose place the right tool was called."""
    arguments_correct: int
    """Of these, calls with the right arguments too."""
    missing: int
    extra: int
    not_json: int
    """Calls whose arguments are not a JSON object."""
    unknown: int
    called_rate: float | None
    """Share of the scored calls for which the tool was called."""
    called_rate_interval: Interval | None
    correct_rate: float | None
    """Share of the scored calls that were made with the right arguments."""
    correct_rate_interval: Interval | None
    correct_rate_bounds: MeanBounds
    """The same if all unknown calls were wrong, and if all were right."""
    wanted_rate: float | None
    """Share of the calls made that were expected."""
    wanted_rate_interval: Interval | None


class ToolCallSummary(ToolMetrics, frozen=True, kw_only=True):
    """Tool calls of a run."""

    records: int
    """Records whose calls were compared."""
    tools: dict[str, ToolMetrics]
    """By tool; a wrong tool counts as missing where it was expected, and as extra where it was called."""


class CheckSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One check over the records that have a result of it."""

    type: str
    """Type of the check; where records have several of one name, that of the first."""
    n: int
    """Records whose answer passed or did not."""
    n_unknown: int
    """Records of which is not known what the check is about, such as the latency of an answer that was given."""
    pass_count: int
    pass_rate: float | None
    pass_rate_interval: Interval | None
    pass_rate_cluster_interval: Interval | None
    pass_rate_standard_error: float | None
    pass_rate_cluster_standard_error: float | None
    score_mean: float | None
    """Mean similarity; the pass rate for other types."""
    score_mean_interval: Interval | None
    score_mean_cluster_interval: Interval | None

    @property
    def pass_rate_metric(self) -> MetricValue:
        """Return the pass rate with the interval to show."""
        return MetricValue(
            value=self.pass_rate,
            interval=self.pass_rate_cluster_interval or self.pass_rate_interval,
            standard_error=_either(self.pass_rate_cluster_standard_error, self.pass_rate_standard_error),
            n=self.n,
        )

    @property
    def score_mean_metric(self) -> MetricValue:
        """Return the mean score with the interval to show."""
        return MetricValue(value=self.score_mean, interval=self.score_mean_cluster_interval or self.score_mean_interval, n=self.n)


class ScoreSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One of the scores that a custom grader gives, over the records that have it; on the scale 0-1."""

    n: int
    mean: float | None
    interval: Interval | None
    cluster_interval: Interval | None

    @property
    def metric(self) -> MetricValue:
        """Return the mean with the interval to show."""
        return MetricValue(value=self.mean, interval=self.cluster_interval or self.interval, n=self.n)


class GraderSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One of several graders over the records that it graded."""

    kind: GraderKind
    is_primary: bool
    """It decides score and result of the records."""
    n: int
    """Records that it gave a score."""
    n_not_assessed: int
    """Records whose answer its judge could not assess."""
    n_errors: int
    errors: dict[str, int]
    """Number of records on which it ended in an error, by its code."""
    pass_count: int
    pass_rate: float | None
    pass_rate_interval: Interval | None
    pass_rate_cluster_interval: Interval | None
    pass_rate_standard_error: float | None
    pass_rate_cluster_standard_error: float | None
    score_mean: float | None
    """On the scale 0-1."""
    score_mean_interval: Interval | None
    score_mean_cluster_interval: Interval | None
    scale: str | None
    """Scale of its raw scores; None where records have several that cannot be combined."""
    raw_score_mean: float | None
    scores: dict[str, ScoreSummary]
    """Further scores of a custom grader, by name."""

    @property
    def pass_rate_metric(self) -> MetricValue:
        """Return the pass rate with the interval to show."""
        return MetricValue(
            value=self.pass_rate,
            interval=self.pass_rate_cluster_interval or self.pass_rate_interval,
            standard_error=_either(self.pass_rate_cluster_standard_error, self.pass_rate_standard_error),
            n=self.n,
        )

    @property
    def score_mean_metric(self) -> MetricValue:
        """Return the mean score, on its own scale, with the interval to show."""
        found = self.score_mean_cluster_interval or self.score_mean_interval
        interval = found and msgspec.structs.replace(
            found, low=on_scale(found.low, self.scale), high=on_scale(found.high, self.scale)
        )
        value = self.score_mean if self.scale is None else self.raw_score_mean
        return MetricValue(value=value, interval=interval, n=self.n)


class GateCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One gate of a run, and whether the run met it."""

    name: str
    """As the run file names it: `pass_rate`, `min_score`, `max_error_rate`, `max_truncated`, `min_tool_calls`, or `checks.NAME` and
    `graders.NAME`."""
    threshold: float
    value: float | None
    """What the run has; None where it is undefined, which meets no gate."""
    met: bool


class GateResult(msgspec.Struct, frozen=True):
    """Whether the run reached what its plan demands; without gates it passes, unless it was cancelled or evaluated nothing."""

    passed: bool
    reasons: tuple[str, ...] = ()
    gates: tuple[GateCheck, ...] = ()
    """Every gate that is set; runs of earlier versions list none."""


class RecordMetrics(RunCounts, frozen=True, kw_only=True):
    """Metrics of a set of records: all of a run, or those of a slice."""

    error_rate: float | None
    n_scored: int
    n_unscored: int
    pass_count: int
    fail_count: int
    pass_rate: float | None
    pass_rate_interval: Interval | None
    pass_rate_cluster_interval: Interval | None
    """None unless records belong to clusters, here and below."""
    pass_rate_standard_error: float | None
    pass_rate_cluster_standard_error: float | None
    pass_rate_bounds: MeanBounds | None
    score_mean: float | None
    """On the scale 0-1."""
    score_mean_interval: Interval | None
    score_mean_cluster_interval: Interval | None
    score_mean_standard_error: float | None
    score_mean_cluster_standard_error: float | None
    score_mean_bounds: MeanBounds | None
    scale: str | None
    """Scale of the raw scores; None where records have several that cannot be combined."""
    raw_score_mean: float | None
    raw_score_mean_interval: Interval | None
    raw_score_mean_standard_error: float | None
    raw_score_mean_cluster_standard_error: float | None
    score_distribution: dict[str, tuple[ScoreCount, ...]]
    """By scale."""
    profile: ProfileSummary | None
    latency_ms: RunLatencies
    tokens: TokenAmounts
    cost_usd: AmountSummary
    truncated: TruncationSummary | None
    """None in runs of earlier versions, which only flagged single answers."""
    errors: dict[str, int]
    """Number of records that ended in an error, by its code."""
    labels: dict[str, int]
    """Number of records that did not pass, by their failure label."""
    checks: dict[str, CheckSummary] | msgspec.UnsetType = msgspec.UNSET
    """Checks by name, over the records that have a result of them; absent in a run without checks."""
    graders: dict[str, GraderSummary] | msgspec.UnsetType = msgspec.UNSET
    """Graders by name; absent in a run with one that gives no further scores."""
    tool_calls: ToolCallSummary | msgspec.UnsetType = msgspec.UNSET
    """Only where tool calls are compared."""

    @property
    def raw_score_mean_cluster_interval(self) -> Interval | None:
        """Return the interval by clusters of the raw mean; files have only the one on the scale 0-1."""
        found = self.score_mean_cluster_interval
        if found is None:
            return None
        # The map to 1-5 is linear, so the interval of the raw mean is that of the normalized one at its ends.
        return msgspec.structs.replace(found, low=on_scale(found.low, self.scale), high=on_scale(found.high, self.scale))

    # Where records form clusters, the interval to show is the one that counts clusters.

    @property
    def pass_rate_metric(self) -> MetricValue:
        """Return the pass rate with the interval to show."""
        return MetricValue(
            value=self.pass_rate,
            interval=self.pass_rate_cluster_interval or self.pass_rate_interval,
            standard_error=_either(self.pass_rate_cluster_standard_error, self.pass_rate_standard_error),
            n=self.n_scored,
        )

    @property
    def score_mean_metric(self) -> MetricValue:
        """Return the mean on the scale 0-1 with the interval to show."""
        return MetricValue(
            value=self.score_mean,
            interval=self.score_mean_cluster_interval or self.score_mean_interval,
            standard_error=_either(self.score_mean_cluster_standard_error, self.score_mean_standard_error),
            n=self.n_scored,
        )

    @property
    def raw_score_mean_metric(self) -> MetricValue:
        """Return the mean on the records' own scale with the interval to show."""
        return MetricValue(
            value=self.raw_score_mean,
            interval=self.raw_score_mean_cluster_interval or self.raw_score_mean_interval,
            standard_error=_either(self.raw_score_mean_cluster_standard_error, self.raw_score_mean_standard_error),
            n=self.n_scored,
        )


class PassCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of records with a given number of passing answers."""

    passes: int
    records: int


class PassAtK(msgspec.Struct, frozen=True, kw_only=True):
    """Mean over records for one k."""

    k: int
    value: float | None
    interval: Interval | None
    standard_error: float | None = None
    """Not known of runs that earlier versions sealed."""


class VarianceParts(msgspec.Struct, frozen=True, kw_only=True):
    """Variance of answers within a record and between records; None where there are too few values to tell."""

    within: float | None
    between: float | None
    intraclass_correlation: float | None


class RepeatVariance(msgspec.Struct, frozen=True, kw_only=True):
    """Variance of scores, and of passing."""

    score: VarianceParts
    passed: VarianceParts


class RepeatSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of several answers per record, over the records whose answers all have a score."""

    repeat: int
    n_records: int
    n_complete: int
    n_left_out: int
    left_out: dict[str, int]
    """Number of records without all their scores, by reason."""
    passes: tuple[PassCount, ...]
    pass_at_k: tuple[PassAtK, ...]
    pass_hat_k: tuple[PassAtK, ...]
    variance: RepeatVariance


class PanelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the decisions of a panel of judges."""

    quorum: int
    escalate: bool
    n_records: int
    n_decisions: int
    n_disagree: int
    n_tied: int
    n_escalated: int
    n_vote_lost: int
    n_calls_saved: int | None
    """Calls that escalation made unnecessary; None unless the panel escalates."""
    cost_saved_usd: float | None


class JudgeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Votes, cost and latency of one judge of a panel, and its agreement with the others."""

    judge: str
    n_votes: int
    score_mean: float | None
    agreement: MetricValue
    n_questions: int
    n_calls: int
    n_failed_calls: int
    n_asked_again: int
    n_salvaged: int
    n_lost: int
    latency_ms: LatencySummary
    tokens: AmountSummary
    cost_usd: AmountSummary


class CandidateSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate of a ranking: the results of its comparisons, and its strength if it could be estimated."""

    name: str
    wins: int
    losses: int
    ties: int
    inconsistent: int
    unscored: int
    strength: MetricValue | None
    win_chance: MetricValue | None
    ahead_of_next: MetricValue | None


class PairSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The comparisons of two candidates."""

    first: str
    second: str
    n: int
    first_wins: int
    second_wins: int
    ties: int
    inconsistent: int
    unscored: int
    first_share: MetricValue


class PositionBias(msgspec.Struct, frozen=True, kw_only=True):
    """Rate at which a judge changes its verdict when the answers are swapped, and the position that it prefers then."""

    judge: str
    n: int
    n_inconsistent: int
    n_first_place: int
    n_second_place: int
    rate: MetricValue


class RankingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, the strongest first, with the comparisons that they were ranked by."""

    n_comparisons: int
    n_unscored: int
    n_clusters: int
    candidates: tuple[CandidateSummary, ...]
    is_bounded: bool
    reason: str
    pairs: tuple[PairSummary, ...]
    position_bias: tuple[PositionBias, ...]
    notes: tuple[str, ...]


class Summary(RecordMetrics, frozen=True, kw_only=True):
    """`metrics_summary.json`: the metrics of a whole run."""

    assay_version: str = ""
    """Version of assay that computed them; empty for versions that did not record it."""
    repeats: RepeatSummary | msgspec.UnsetType = msgspec.UNSET
    """Of a run that asks more than once."""
    flags: dict[str, int]
    panel: PanelSummary | msgspec.UnsetType = msgspec.UNSET
    """Of a run with several judges, as are `judges`."""
    judges: tuple[JudgeSummary, ...] | msgspec.UnsetType = msgspec.UNSET
    ranking: RankingSummary | msgspec.UnsetType = msgspec.UNSET
    gate: GateResult | msgspec.UnsetType = msgspec.UNSET
    """Computed last, from all of the above; every file has it."""

    @property
    def kind(self) -> RunKind:
        """What the metrics are about."""
        return RunKind.GRADING if self.ranking is msgspec.UNSET else RunKind.RANKING


class SliceSummary(RecordMetrics, frozen=True, kw_only=False):
    """The metrics of the records with one value of a slice."""

    value: str | None
    slice: str
    """`NAME=VALUE`, as reports show it."""


class SliceValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one slice, the largest first."""

    n_values: int
    n_values_omitted: int
    values: tuple[SliceSummary, ...]


class SlicesSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`metrics_by_slice.json`: the metrics of each value of each slice."""

    slices_version: int = 1
    """The rules by which records are sliced; the first versions named none."""
    total_records: int
    slices: dict[str, SliceValues]


def read_summary(document: Mapping[str, object]) -> Summary:
    """Read the metrics summary of any version; raises msgspec.ValidationError for other documents."""
    return msgspec.convert(_upgraded(document), Summary)


def read_slices(document: Mapping[str, Any]) -> SlicesSummary:
    """Read the metrics by slice of any version; raises msgspec.ValidationError for other documents."""
    slices = {
        name: {**entry, "values": [_upgraded(value) for value in entry["values"]]}
        for name, entry in document.get("slices", {}).items()
    }
    return msgspec.convert({**document, "slices": slices}, SlicesSummary)


def kind_of_metrics(document: Mapping[str, object]) -> RunKind:
    """Return the kind of run that an unparsed summary is about; the only code that looks for the member."""
    return RunKind.RANKING if "ranking" in document else RunKind.GRADING


# Zero known and zero unknown: nothing was counted by the version that wrote the file.
_UNKNOWN = {"sum": None, "mean": None, "n_known": 0, "n_unknown": 0}
_ERRORS = ("standard_error", "cluster_standard_error")
_LATER_METRICS = {
    **{f"{figure}_{error}": None for figure in ("pass_rate", "score_mean", "raw_score_mean") for error in _ERRORS},
    "profile": None,
    "truncated": None,
}
"""Members that earlier versions did not write, with the values they get. A new member needs a line here."""
_LATER_PROFILE = {
    **{f"headline_{error}": None for error in _ERRORS},
    "headline_bounds": None,
}


def _upgraded(document: Mapping[str, Any]) -> JsonObject:
    """Add the members that came later to the metrics of an earlier version; existing members stay unchanged."""
    # Only missing members are added. Numbers of an earlier version are never recomputed: they are sealed and hashed.
    found = {**_LATER_METRICS, **document}
    if found["profile"] is not None:
        found["profile"] = {**_LATER_PROFILE, **found["profile"]}
    if "tokens" in found:
        found["tokens"] = {"judge": _UNKNOWN, **found["tokens"]}
    return found


def _either(first: float | None, second: float | None) -> float | None:
    return second if first is None else first
