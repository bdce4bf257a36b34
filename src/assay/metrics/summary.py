"""Records of a run into its summary and those of its slices; what is undefined is null, never 0 or NaN."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import fsum
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from assay.core.graders import GraderKind
from assay.core.runs import count_records
from assay.core.summary import (
    AmountSummary,
    CheckSummary,
    GraderSummary,
    Interval,
    LatencySummary,
    MeanBounds,
    ProfileSummary,
    RecordMetrics,
    RunLatencies,
    ScoreCount,
    ScoreSummary,
    SlicesSummary,
    SliceSummary,
    SliceValues,
    Summary,
    TokenAmounts,
    TruncationSummary,
    on_scale,
    percentile,
)
from assay.core.version import __version__
from assay.metrics.facts import NO_WORD, STATUSES, UNKNOWN, RecordColumns, RecordFacts, ResultColumns, Value, collect
from assay.metrics.intervals import RESAMPLES, Ends, cluster_interval, mean_interval, standard_error, wilson
from assay.metrics.profiles import Profile, condense, headline, headline_figures
from assay.metrics.repeats import RepeatedAnswers, summarize_repeats
from assay.metrics.tool_calls import ToolCallCounter

# There may be hundreds of slices, and each would cost as much as the whole run.
SLICE_RESAMPLES = 2_000
SLICES_VERSION = 2
"""Since 2 tasks have the contracts' terms, documents' metadata counts, and records that broke their contract are in slices."""
MAX_SLICE_VALUES = 500
"""Values of one slice that are reported, the largest ones; the number of the others is stated."""
MAX_EXACT_LEVELS = 25
"""Distinct scores that a distribution lists one by one; above, it has ten bins."""
_PIECE = 1 << 14
_UNIT_SCALES = frozenset({"0-1", "0/1"})

Floats = NDArray[np.float64]
Rows = NDArray[np.uint32]
Records = NDArray[np.uint32] | NDArray[np.int32]


__all__ = ["RecordColumns", "RecordFacts", "summarize", "summarize_slices"]


def summarize(
    facts: Iterable[RecordFacts] | RecordColumns, *, seed: int = 0, profile: Profile | None = None, repeat: int = 1
) -> Summary:
    """Return the summary of a run before its gates; the same records and seed give the same numbers.

    `repeat` is how often every record was asked.
    """
    columns = collect(facts)
    tables = _RecordArrays(columns, profile)
    metrics = tables.metrics(np.arange(len(columns), dtype=np.uint32), seed=(seed,), resamples=RESAMPLES)
    return Summary(
        **{**asdict(metrics), "tool_calls": columns.tool_calls.summary() if columns.tool_calls.records else msgspec.UNSET},
        assay_version=__version__,
        repeats=summarize_repeats(tables.samples(repeat)) if repeat > 1 else msgspec.UNSET,
        flags=dict(sorted(columns.flags.items())),
    )


def summarize_slices(
    facts: Iterable[RecordFacts] | RecordColumns, *, seed: int = 0, profile: Profile | None = None
) -> SlicesSummary:
    """Return the metrics by slice: those of the records with each value of each slice."""
    columns = collect(facts)
    tables = _RecordArrays(columns, profile)
    calls = columns.sliced_calls
    slices = {name: _slice(tables, columns.members[name], name=name, seed=seed, calls=calls) for name in sorted(columns.members)}
    return SlicesSummary(slices_version=SLICES_VERSION, total_records=len(columns), slices=slices)


def _slice(
    tables: "_RecordArrays",
    groups: dict[Value, "array[int]"],
    *,
    name: str,
    seed: int,
    calls: Mapping[tuple[str, Value], ToolCallCounter],
) -> SliceValues:
    """List every value of a slice, the largest first; a record with several values is a member of each."""
    # Ties are broken by name, so that the file is the same in every run over the same records.
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0] is None, group[0] or ""))
    shown = []
    for value, rows in ordered[:MAX_SLICE_VALUES]:
        metrics = tables.metrics(np.frombuffer(rows, dtype=np.uint32), seed=_seed(seed, name, value), resamples=SLICE_RESAMPLES)
        counted = calls.get((name, value))
        members = {**asdict(metrics), "tool_calls": msgspec.UNSET if counted is None else counted.summary()}
        shown.append(SliceSummary(value=value, slice=f"{name}={'(none)' if value is None else value}", **members))
    return SliceValues(n_values=len(ordered), n_values_omitted=len(ordered) - len(shown), values=tuple(shown))


def _seed(seed: int, name: str, value: Value) -> tuple[int, ...]:
    """Return a seed of the slice's own, so that its numbers do not depend on which other slices there are."""
    digest = hashlib.sha256(repr((name, value)).encode()).digest()
    return (seed, int.from_bytes(digest[:8], "big"))


class _RecordArrays:
    """Columns as numpy arrays, and the summary of any of their rows."""

    def __init__(self, columns: RecordColumns, profile: Profile | None = None) -> None:
        self.profile = profile
        size = len(columns)
        self.status = _as_array(columns.status, size)
        self.passed = _as_array(columns.passed, size)
        self.score = _as_array(columns.score, size)
        self.raw_score = _as_array(columns.raw_score, size)
        self.codes = {name: _as_array(getattr(columns, name), size) for name in columns.names}
        self.profile_score = _as_array(columns.profile_score, size)
        self.profile_ends = {"worst": _as_array(columns.profile_worst, size), "best": _as_array(columns.profile_best, size)}
        self.words = {name: tuple(words) for name, words in columns.names.items()}
        self.latencies = {name: _as_array(column, size) for name, column in columns.latencies.items()}
        self.amounts = {name: _as_array(column, size) for name, column in columns.amounts.items()}
        self.is_called = _as_array(columns.is_called, size)
        self.is_truncated = _as_array(columns.is_truncated, size)
        self.checks = _ResultArrays(columns.checks, size)
        self.graders = _ResultArrays(columns.graders, size)
        self.grader_scores = _ResultArrays(columns.grader_scores, size)
        self.primary_grader = columns.primary_grader

    def metrics(self, rows: Rows, *, seed: tuple[int, ...], resamples: int) -> RecordMetrics:
        """Compute all metrics of a set of records."""
        status = np.bincount(_take_rows(self.status, rows), minlength=len(STATUSES)).tolist()
        counts = count_records(dict(zip(STATUSES, status, strict=True)))
        # Only records with a score: an error is in the error rate, and in no mean.
        scored = rows[~np.isnan(_take_rows(self.score, rows))]
        n, n_valid = len(scored), counts.valid_records
        passed = _take_rows(self.passed, scored) == 1
        passes, pass_count = passed.astype(np.float64), int(passed.sum())
        pass_error, pass_cluster_error = self._errors(passes, scored)
        scores = _take_rows(self.score, scored)
        score_total, score_interval = _sum(scores), self._mean_interval(scores, scored, seed=seed, resamples=resamples)
        score_error, score_cluster_error = self._errors(scores, scored)
        scale, distribution = self._scales(scored)
        raw_scores = _take_rows(self.raw_score, scored)
        raw_error, raw_cluster_error = self._errors(raw_scores, scored) if scale else (None, None)
        # Tokens and cost of every record that was called, also of failed ones: they were paid for.
        called = rows[_take_rows(self.is_called, rows) == 1]
        # Latencies of records that were answered; a timeout would only show how long the limit is.
        evaluated = rows[_take_rows(self.status, rows) == STATUSES.index("evaluated")]
        return RecordMetrics(
            **asdict(counts),
            error_rate=_ratio(counts.failed_records + counts.cancelled_records, counts.total_records),
            n_scored=n,
            n_unscored=n_valid - n,
            pass_count=pass_count,
            fail_count=n - pass_count,
            pass_rate=_ratio(pass_count, n),
            pass_rate_interval=self._rate_interval(passed, scored),
            pass_rate_cluster_interval=self._cluster_interval(passes, scored),
            pass_rate_standard_error=pass_error,
            pass_rate_cluster_standard_error=pass_cluster_error,
            pass_rate_bounds=_bounds(float(pass_count), n, n_valid=n_valid),
            score_mean=_ratio(score_total, n),
            score_mean_interval=score_interval,
            score_mean_cluster_interval=self._cluster_interval(scores, scored),
            score_mean_standard_error=score_error,
            score_mean_cluster_standard_error=score_cluster_error,
            score_mean_bounds=_bounds(score_total, n, n_valid=n_valid),
            scale=scale,
            # A mean over several scales has no meaning; the normalized mean above has.
            raw_score_mean=_ratio(_sum(raw_scores), n) if scale else None,
            raw_score_mean_interval=_rescale_interval(score_interval, scale) if scale else None,
            raw_score_mean_standard_error=raw_error,
            raw_score_mean_cluster_standard_error=raw_cluster_error,
            score_distribution=distribution,
            profile=self._profile(rows, seed=seed, resamples=resamples),
            latency_ms=RunLatencies(
                **{name: latency_figures(_take_rows(column, evaluated)) for name, column in self.latencies.items()}
            ),
            tokens=TokenAmounts(**{kind: self._amount(f"{kind}_tokens", called) for kind in TokenAmounts.__struct_fields__}),
            cost_usd=self._amount("cost", called),
            truncated=self._truncated(rows, scored),
            errors=self._words(rows, "error"),
            labels=self._words(rows, "label"),
            checks=self._checks(rows, seed=seed, resamples=resamples),
            graders=self._graders(rows, seed=seed, resamples=resamples),
        )

    def _checks(self, rows: Rows, *, seed: tuple[int, ...], resamples: int) -> dict[str, CheckSummary] | msgspec.UnsetType:
        """Return the figures of each check over some records; unset in a run without checks."""
        if not self.checks.kinds:
            return msgspec.UNSET
        return {
            result.name: CheckSummary(
                type=result.kind,
                n=len(result.rows),
                n_unknown=result.n_unknown,
                **self._rates(result, seed=seed, resamples=resamples),
            )
            for result in self.checks.of(rows)
        }

    def _graders(self, rows: Rows, *, seed: tuple[int, ...], resamples: int) -> dict[str, GraderSummary] | msgspec.UnsetType:
        """Return the figures of each grader over some records; unset in a run without several graders."""
        if not self.graders.kinds:
            return msgspec.UNSET
        scores: dict[str, dict[str, ScoreSummary]] = {}
        for found in self.grader_scores.of(rows):
            grader, _, name = found.name.partition("\0")
            scores.setdefault(grader, {})[name] = ScoreSummary(
                n=len(found.rows),
                mean=_ratio(_sum(found.score), len(found.rows)),
                interval=self._mean_interval(found.score, found.rows, seed=seed, resamples=resamples),
                cluster_interval=self._cluster_interval(found.score, found.rows),
            )
        return {
            result.name: self._grader(result, scores.get(result.name, {}), seed=seed, resamples=resamples)
            for result in self.graders.of(rows)
        }

    def _grader(
        self, result: "_Result", scores: dict[str, ScoreSummary], *, seed: tuple[int, ...], resamples: int
    ) -> GraderSummary:
        graded = {word: count for word, count in result.words.items() if ":" not in word}
        errors = {word.partition(":")[2]: count for word, count in result.words.items() if word.startswith("error:")}
        scale = _shared_scale(set(graded))
        rates = self._rates(result, seed=seed, resamples=resamples)
        mean = rates["score_mean"]
        return GraderSummary(
            kind=cast("GraderKind", result.kind),
            is_primary=result.name == self.primary_grader,
            n=len(result.rows),
            n_not_assessed=sum(count for word, count in result.words.items() if word.startswith("not_assessed:")),
            n_errors=sum(errors.values()),
            errors=dict(sorted(errors.items())),
            **rates,
            scale=scale,
            # The map between the scales is linear, so that the mean of one is that of the other.
            raw_score_mean=None if scale is None or mean is None else on_scale(mean, scale),
            scores=scores,
        )

    def _rates(self, result: "_Result", *, seed: tuple[int, ...], resamples: int) -> dict[str, Any]:
        """Return pass rate and mean score of a check, with intervals."""
        n, passes = len(result.rows), result.passed.astype(np.float64)
        count = int(result.passed.sum())
        error, cluster_error = self._errors(passes, result.rows)
        return {
            "pass_count": count,
            "pass_rate": _ratio(count, n),
            "pass_rate_interval": self._rate_interval(result.passed, result.rows),
            "pass_rate_cluster_interval": self._cluster_interval(passes, result.rows),
            "pass_rate_standard_error": error,
            "pass_rate_cluster_standard_error": cluster_error,
            "score_mean": _ratio(_sum(result.score), n),
            "score_mean_interval": self._mean_interval(result.score, result.rows, seed=seed, resamples=resamples),
            "score_mean_cluster_interval": self._cluster_interval(result.score, result.rows),
        }

    def _mean_interval(self, values: Floats, scored: Rows, *, seed: tuple[int, ...], resamples: int) -> Interval | None:
        if self.words["record"]:
            return cluster_interval(values, self.codes["record"][scored])
        return mean_interval(values, seed=seed, resamples=resamples)

    def _truncated(self, rows: Rows, scored: Rows) -> TruncationSummary:
        """Count the answers that ended at the output limit, and compute pass rate and scores without them."""
        n = int(_take_rows(self.is_truncated, rows).sum())
        kept = scored[_take_rows(self.is_truncated, scored) == 0]
        n_answers = n + len(kept)
        scale, _ = self._scales(kept)
        return TruncationSummary(
            n=n,
            n_answers=n_answers,
            share=_ratio(n, n_answers),
            n_without=len(kept),
            pass_rate_without=_ratio(int((_take_rows(self.passed, kept) == 1).sum()), len(kept)),
            score_mean_without=_ratio(_sum(_take_rows(self.score, kept)), len(kept)),
            raw_score_mean_without=_ratio(_sum(_take_rows(self.raw_score, kept)), len(kept)) if scale else None,
        )

    def _amount(self, name: str, called: Rows) -> AmountSummary:
        return amount_figures(_take_rows(self.amounts[name], called), is_whole=name != "cost")

    def _profile(self, rows: Rows, *, seed: tuple[int, ...], resamples: int) -> ProfileSummary | None:
        """Return the figure of the run's profile over the valid records; None without one."""
        if self.profile is None:
            return None
        valid = rows[_take_rows(self.status, rows) != STATUSES.index("invalid_record")]
        scores = self.profile_score[valid]
        records = self.codes["record"][valid] if self.words["record"] else valid
        values, shown = condense(self.profile, scores, rows=valid, records=records)
        ends = self.profile.ends
        interval = mean_interval(values, seed=seed, resamples=resamples, ends=ends)
        clustered = self._cluster_interval(values, shown, ends=ends)
        clusters = self._clusters(shown)
        errors = standard_error(values), None if clusters is None else standard_error(values, clusters)
        n_unscored = int(np.isnan(scores).sum())
        return ProfileSummary(
            id=self.profile.id,
            version=self.profile.version,
            sha256=self.profile.sha256,
            compat=self.profile.is_compat,
            scale=self.profile.scale,
            **asdict(headline_figures(self.profile, values, interval=interval, clustered=clustered, errors=errors)),
            headline_bounds=self._headline_bounds(self.profile, valid, records=records),
            n_scored=len(scores) - n_unscored,
            n_unscored=n_unscored,
            unscored=self._words(valid, "profile_unscored"),
        )

    def _headline_bounds(self, profile: Profile, valid: Rows, *, records: Records) -> MeanBounds | None:
        """Return the headline if every record that could have had a score, and has none, had its worst, or its best one."""
        scores = self.profile_score[valid]
        worst, best = (
            condense(profile, np.where(np.isnan(scores), column[valid], scores), rows=valid, records=records).values
            for column in (self.profile_ends["worst"], self.profile_ends["best"])
        )
        return MeanBounds(worst=headline(profile, worst), best=headline(profile, best), n=len(best)) if len(best) else None

    def _scales(self, scored: Rows) -> tuple[str | None, dict[str, tuple[ScoreCount, ...]]]:
        """Return the scale that all records share, or None, and how scores are distributed on each scale."""
        codes = _take_rows(self.codes["scale"], scored)
        # np.unique would load numpy's masked arrays, which takes as long as the metrics of a thousand records.
        present = {self.words["scale"][code]: code for code in np.flatnonzero(np.bincount(codes[codes >= 0])).tolist()}
        values = _take_rows(self.raw_score, scored)
        found = {name: _distribution(values[codes == present[name]], scale=name) for name in sorted(present)}
        return _shared_scale(set(present)), found

    def _rate_interval(self, passed: NDArray[np.bool_], scored: Rows) -> Interval | None:
        """Return the interval of a pass rate; answers to one record depend on each other, so that records count instead."""
        if self.words["record"]:
            return cluster_interval(passed.astype(np.float64), self.codes["record"][scored])
        return wilson(int(passed.sum()), len(scored))

    def _cluster_interval(self, values: Floats, scored: Rows, *, ends: Ends = (0.0, 1.0)) -> Interval | None:
        clusters = self._clusters(scored)
        return None if clusters is None else cluster_interval(values, clusters, ends=ends)

    def _errors(self, values: Floats, scored: Rows) -> tuple[float | None, float | None]:
        """Return the standard errors of a mean, by records however often they were asked, and by clusters."""
        records = self.codes["record"][scored] if self.words["record"] else None
        clusters = self._clusters(scored)
        return standard_error(values, records), None if clusters is None else standard_error(values, clusters)

    def _clusters(self, scored: Rows) -> NDArray[np.int32] | None:
        """Return the clusters; None unless records carry one. A record without a cluster is one of its own."""
        clusters: NDArray[np.int32] = _take_rows(self.codes["cluster"], scored)
        if not len(clusters) or clusters.max() < 0:
            return None
        # A record without a cluster is one by itself, numbered above all others.
        itself = self.codes["record"][scored] if self.words["record"] else np.arange(len(clusters), dtype=np.int32)
        return np.where(clusters < 0, clusters.max() + 1 + itself, clusters)

    def samples(self, repeat: int) -> RepeatedAnswers:
        """Return the evaluations of all valid records, which were each asked several times."""
        rows = np.flatnonzero(self.codes["record"] >= 0)
        errors = self.words["error"]
        return RepeatedAnswers(
            repeat=repeat,
            record=self.codes["record"][rows].astype(np.int64),
            score=self.score[rows],
            passed=(self.passed[rows] == 1).astype(np.float64),
            reason=tuple(errors[code] if code >= 0 else "" for code in self.codes["error"][rows].tolist()),
        )

    def _words(self, rows: Rows, name: str) -> dict[str, int]:
        codes = _take_rows(self.codes[name], rows)
        counts = np.bincount(codes[codes >= 0], minlength=len(self.words[name])).tolist()
        return {word: count for word, count in sorted(zip(self.words[name], counts, strict=True)) if count}


class _Result(NamedTuple):
    """Results of one check over some records."""

    name: str
    kind: str
    rows: Rows
    """Records whose result is known."""
    passed: NDArray[np.bool_]
    score: Floats
    n_unknown: int
    words: dict[str, int]
    """Number of results by their word: a scale, or the reason why there is no score."""


class _ResultArrays:
    """Results of all checks, sorted by name and then by record."""

    def __init__(self, columns: ResultColumns, size: int) -> None:
        self.kinds = columns.kinds
        self._size = size
        names = np.frombuffer(columns.name, dtype=columns.name.typecode)
        order = np.argsort(names, kind="stable")
        self._names = names[order]
        self._rows = np.frombuffer(columns.row, dtype=np.uint32)[order]
        self._passed = np.frombuffer(columns.passed, dtype=np.int8)[order]
        self._scores = np.frombuffer(columns.score, dtype=np.float64)[order]
        self._words = np.frombuffer(columns.word, dtype=columns.word.typecode)[order]
        self._vocabulary = tuple(columns.words)

    def of(self, rows: Rows) -> Iterator[_Result]:
        """Yield the results of each check over some records, in the order in which the run first has them."""
        names, places, passed, scores, words = self._names, self._rows, self._passed, self._scores, self._words
        if len(rows) < self._size:
            is_in = np.zeros(self._size, dtype=np.bool_)
            is_in[rows] = True
            kept = is_in[places]
            names, places, passed, scores, words = names[kept], places[kept], passed[kept], scores[kept], words[kept]
        ends = np.searchsorted(names, np.arange(len(self.kinds)), side="right").tolist()
        for (name, kind), start, end in zip(self.kinds.items(), [0, *ends], ends, strict=False):
            if start == end:
                continue
            known = passed[start:end] >= 0
            yield _Result(
                name=name,
                kind=kind,
                rows=places[start:end][known],
                passed=passed[start:end][known] == 1,
                score=scores[start:end][known],
                n_unknown=int(end - start - known.sum()),
                words=self._counted(words[start:end]),
            )

    def _counted(self, words: NDArray[np.int32]) -> dict[str, int]:
        counts = np.bincount(words, minlength=len(self._vocabulary)).tolist()
        return {word: count for word, count in zip(self._vocabulary, counts, strict=True) if count}


def _take_rows(column: Any, rows: Rows) -> Any:
    """Return the values of some rows, each of which is there once; all of them are the column itself, without a copy."""
    return column if len(rows) == len(column) else column[rows]


def _as_array(column: Any, size: int) -> Any:
    """Return a column without a copy; one without any known value is the same mark over and over, which takes no room."""
    mark = UNKNOWN if column.typecode == "d" else NO_WORD
    return np.frombuffer(column, dtype=column.typecode) if column else np.broadcast_to(np.array(mark, column.typecode), size)


def _sum(values: Floats) -> float:
    """Return the sum, rounded once; some values at a time become numbers of Python, which take four times the room."""
    return fsum(chain.from_iterable(values[at : at + _PIECE].tolist() for at in range(0, len(values), _PIECE)))


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _bounds(total: float, n: int, *, n_valid: int) -> MeanBounds | None:
    """Return the means if every valid record without a score had the worst, or the best one."""
    if n_valid == 0:
        return None
    # Shows how much the errors could hide: a narrow range means that they do not matter for the result.
    return MeanBounds(worst=total / n_valid, best=(total + n_valid - n) / n_valid, n=n_valid)


def _shared_scale(scales: set[str]) -> str | None:
    if len(scales) == 1:
        return next(iter(scales))
    # 0/1 lies within 0-1, so these two can be averaged; 1-5 cannot join them.
    return "0-1" if scales and scales <= _UNIT_SCALES else None


def _rescale_interval(interval: Interval | None, scale: str) -> Interval | None:
    if interval is None:
        return None
    return msgspec.structs.replace(interval, low=on_scale(interval.low, scale), high=on_scale(interval.high, scale))


def _distribution(values: Floats, *, scale: str) -> tuple[ScoreCount, ...]:
    levels, counts = np.unique(values, return_counts=True)
    if len(levels) <= MAX_EXACT_LEVELS:
        seen = dict(zip(levels.tolist(), counts.tolist(), strict=True))
        # All five levels are listed, since a level without records is information.
        whole = {float(level): 0 for level in range(1, 6)} if scale == "1-5" else {}
        return tuple(ScoreCount(score=level, count=count) for level, count in sorted({**whole, **seen}.items()))
    low, high = (1.0, 5.0) if scale == "1-5" else (min(0.0, float(levels[0])), max(1.0, float(levels[-1])))
    counts, edges = np.histogram(values, bins=10, range=(low, high))
    bounds = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return tuple(ScoreCount(start=start, end=end, count=count) for start, end, count in bounds)


def latency_figures(values: Floats) -> LatencySummary:
    """Return the metrics of the latencies that are known."""
    known = np.sort(values[~np.isnan(values)])
    n = len(known)
    return LatencySummary(
        n=n,
        p50=percentile(known, 0.5) if n else None,
        p95=percentile(known, 0.95) if n else None,
        mean=_ratio(_sum(known), n),
        max=float(known[-1]) if n else None,
    )


def amount_figures(values: Floats, *, is_whole: bool) -> AmountSummary:
    """Compute sum and mean of the known amounts, and count the known and the unknown ones."""
    known = values[~np.isnan(values)]
    total = _sum(known)
    n = len(known)
    return AmountSummary(
        sum=(int(total) if is_whole else total) if n else None, mean=_ratio(total, n), n_known=n, n_unknown=len(values) - n
    )
