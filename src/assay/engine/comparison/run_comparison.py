"""Two finished runs compared: the paired difference with its interval, tests that hold what they promise, flips, slices."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.canonical import JsonObject
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.plan import Plan, changed_settings
from assay.engine.comparison.alignment import (
    Alignment,
    Flip,
    FlipOffsets,
    PredictionSummary,
    RecordPair,
    align,
    find_flips,
    load_flips,
)
from assay.engine.records.groups import RecordGroups
from assay.metrics.intervals import Estimate
from assay.metrics.paired import (
    McNemar,
    detectable_effect,
    difference_p_value,
    flips_of,
    holm,
    mcnemar,
    paired_difference,
    required_records,
)
from assay.metrics.profiles import profile_of
from assay.store.published_run import PublishedRun

MAX_LISTED = 100
"""Ids of changed, missing and added records that a comparison lists; how many there are is always said."""
MAX_SLICE_VALUES = 100
"""Values of one slice that are compared, the largest ones."""
_EXPECTED = frozenset(
    {"candidate", "providers", "seed", "gates", "slices", "cluster_key", "max_cost", "keep_raw", "responses_sha256"}
)
"""Settings that may differ between two runs without a word: they are what is compared, or change no score."""

Floats = NDArray[np.float64]
Clusters = NDArray[np.int32]


class ComparisonSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs."""

    run_id: str
    candidate: str
    judges: tuple[str, ...]
    datasets: tuple[str, ...]
    records: int
    """Records that both runs have with the same contents, or that this one alone has."""
    pass_rate: float | None
    """Over the compared records."""
    mean: float | None


class SliceDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference over the records of one value of a slice."""

    slice: str
    value: str | None
    n: int
    passes: Estimate
    scores: Estimate
    p_value: float | None
    """Of the passes: McNemar's, below 0.05 where their interval leaves out 0."""
    p_adjusted: float | None
    """The same after Holm's correction for the number of slices tested."""


class NamedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of the pass rates of one check, or of one of several graders."""

    name: str
    n: int
    """Compared records of which both runs have a result of it."""
    before: float | None
    after: float | None
    passes: Estimate
    p_value: float | None
    p_adjusted: float | None
    """After Holm's correction for the number of checks and graders."""


class ExcludedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records that were not compared: how many, and the first ids."""

    count: int
    record_ids: tuple[str, ...] = ()


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that two runs say about each other; differences are after - before."""

    before: ComparisonSide
    after: ComparisonSide
    n: int
    """Records that both runs graded, with the same contents: every number below is over these."""
    n_clusters: int | None
    """Clusters of records; None where each record is independent."""
    cluster: str
    """What makes the groups: a member of the metadata, `record` for samples of one record, or empty."""
    scale: str
    """Of the scores: that of a profile which both runs have, or `0-1` where the records have several scales."""
    span: float
    """Largest difference that the scale allows."""
    passes: Estimate
    scores: Estimate
    p_passes: float | None
    """Below 0.05 where the interval leaves out 0, which decides; McNemar's exact test is shown with it."""
    p_scores: float | None
    mcnemar: McNemar
    both_passed: int
    both_failed: int
    detectable_effect: float | None
    """The smallest true difference of pass rates that so many records would show in 4 of 5 such comparisons; None for none."""
    required_records: int | None
    """Records, or clusters, that would show the difference seen here, if it is the true one, in 4 of 5 such comparisons."""
    slices: tuple[SliceDifference, ...]
    checks: tuple[NamedDifference, ...] = ()
    """Checks that both runs have, by name."""
    graders: tuple[NamedDifference, ...] = ()
    """Graders that both runs have, where they have several."""
    flips: tuple[Flip, ...]
    """The losses first, each group by how much the score changed."""
    n_flips: int
    unscored: ExcludedRecords
    changed: ExcludedRecords
    missing: ExcludedRecords
    added: ExcludedRecords
    notes: tuple[str, ...]
    """What keeps the difference from being the candidate's alone."""
    setting_notes: tuple[str, ...]
    """Those of the notes that name a setting in which the runs differ."""

    def to_dict(self) -> JsonObject:
        """Return the comparison as JSON documents hold it."""
        found: JsonObject = msgspec.to_builtins(self)
        # Part of `notes` already; apart they only tell the gate which of them are about settings.
        del found["setting_notes"]
        return found


class StoredComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison whose flips are known by their places alone: small enough to be kept, and without a word of any answer."""

    comparison: RunComparison
    """Without flips."""
    flips: tuple[FlipOffsets, ...]
    """All of them, in the order of the comparison's."""


class ComparisonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison is asked for."""

    cluster: str | None = None
    """Member of the metadata; None takes the plan's."""
    slices: tuple[str, ...] | None = None
    """None takes the plan's."""
    max_flips: int | None = 20
    """None is all of them."""


class _PairedColumns(msgspec.Struct, frozen=True):
    """The compared records as columns."""

    passed_before: NDArray[np.bool_]
    passed_after: NDArray[np.bool_]
    before: Floats
    after: Floats
    clusters: Clusters | None
    span: float

    def at(self, rows: NDArray[np.int64]) -> "_PairedColumns":
        # Rows are selected once and shared by all measures of a slice.
        clusters = None if self.clusters is None else self.clusters[rows]
        return _PairedColumns(
            self.passed_before[rows], self.passed_after[rows], self.before[rows], self.after[rows], clusters, self.span
        )

    def passes(self) -> Estimate:
        return paired_difference(
            self.passed_before.astype(np.float64), self.passed_after.astype(np.float64), clusters=self.clusters
        )

    def scores(self) -> Estimate:
        known = self._measured()
        return paired_difference(known.before, known.after, clusters=known.clusters, span=self.span)

    def _measured(self) -> "_PairedColumns":
        # A profile may leave out records that have a result, so scores can be over fewer of them.
        return self.at(np.flatnonzero(~np.isnan(self.before) & ~np.isnan(self.after)))

    def p_passes(self) -> float | None:
        return difference_p_value(
            self.passed_before.astype(np.float64), self.passed_after.astype(np.float64), clusters=self.clusters
        )

    def p_scores(self) -> float | None:
        known = self._measured()
        return difference_p_value(known.before, known.after, clusters=known.clusters, span=self.span)


def compare(before: PublishedRun, after: PublishedRun, choices: ComparisonOptions) -> RunComparison:
    """Compare two finished runs over the records that both graded; raises UsageProblem when they have no record in common."""
    measured = measure(before, after, choices)
    places = measured.flips if choices.max_flips is None else measured.flips[: choices.max_flips]
    return msgspec.structs.replace(measured.comparison, flips=load_flips(places, before=before, after=after))


def measure(before: PublishedRun, after: PublishedRun, choices: ComparisonOptions) -> StoredComparison:
    """Compute what the comparison says without the answers; raises UsageProblem when the runs have no record in common."""
    plans = (before.manifest.settings, after.manifest.settings)
    alignment = align(before, after)
    # Changed records count: the comparison can at least say that all of them changed.
    if not (alignment.pairs or alignment.unscored or alignment.changed):
        raise UsageProblem(
            f"runs '{plans[0].run_id}' and '{plans[1].run_id}' have no record in common", hint="compare runs over the same dataset"
        )
    groups = _Groups(before, plans[0], alignment, choices)
    ruler = _ruler(plans, alignment.pairs)
    paired = _columns(alignment.pairs, ruler, clusters=groups.clusters)
    test = mcnemar(paired.passed_before, paired.passed_after)
    flips = flips_of(paired.passed_before, paired.passed_after, clusters=paired.clusters)
    # The scale tells whether raw scores are comparable.
    places = find_flips(alignment.pairs, is_scaled=ruler.name == "1-5")
    setting_notes = _setting_notes(*plans)
    named = _named_differences(alignment.pairs, paired.clusters)
    comparison = RunComparison(
        # Over the compared records alone; each run's own report has its figures over all.
        before=_side(plans[0], alignment, paired.passed_before, scores=paired.before, only=alignment.missing),
        after=_side(plans[1], alignment, paired.passed_after, scores=paired.after, only=alignment.added),
        n=len(alignment.pairs),
        n_clusters=None if paired.clusters is None else len(np.unique(paired.clusters)),
        cluster=groups.name,
        scale=ruler.name,
        span=ruler.span,
        passes=paired.passes(),
        scores=paired.scores(),
        p_passes=paired.p_passes(),
        p_scores=paired.p_scores(),
        mcnemar=test,
        both_passed=int((paired.passed_before & paired.passed_after).sum()),
        both_failed=int((~paired.passed_before & ~paired.passed_after).sum()),
        detectable_effect=detectable_effect(flips),
        required_records=required_records(flips),
        slices=_slices(groups, paired),
        checks=tuple(one for kind, one in named if kind == "checks"),
        graders=tuple(one for kind, one in named if kind == "graders"),
        # Loaded by the caller, as many as it shows.
        flips=(),
        n_flips=len(places),
        unscored=_excluded_records(pair.before.prediction for pair in alignment.unscored),
        changed=_excluded_records(pair.before.prediction for pair in alignment.changed),
        missing=_excluded_records(alignment.missing),
        added=_excluded_records(alignment.added),
        notes=(*_grader_notes(*plans), *setting_notes, *_notes(alignment, groups)),
        setting_notes=setting_notes,
    )
    return StoredComparison(comparison=comparison, flips=places)


class _ScoreField(msgspec.Struct, frozen=True):
    """Which of a record's scores are compared."""

    name: str
    member: str
    factor: float = 1.0
    span: float = 1.0


def _ruler(plans: tuple[Plan, Plan], pairs: Sequence[RecordPair]) -> _ScoreField:
    """Return the profile that both runs have; else the scale that all scores share; else 0-1, to which they are normalized."""
    first, second = plans
    profile = profile_of(first.profile, is_compat=first.compat)
    if profile is not None and (first.profile, first.compat) == (second.profile, second.compat):
        # Items are not clipped, so that penalties may take a score below 0.
        span = 4.0 if profile.scale == "1-5" else 2 * profile.factor
        return _ScoreField(profile.id, "profile_score", profile.factor, span)
    scales = {prediction.scale for pair in pairs for prediction in (pair.before.prediction, pair.after.prediction)}
    return _ScoreField("1-5", "raw_score", span=4.0) if scales == {"1-5"} else _ScoreField("0-1", "score")


def _columns(pairs: Sequence[RecordPair], ruler: _ScoreField, *, clusters: Clusters | None) -> _PairedColumns:
    first, second = [pair.before.prediction for pair in pairs], [pair.after.prediction for pair in pairs]
    return _PairedColumns(
        np.array([prediction.passed for prediction in first], dtype=bool),
        np.array([prediction.passed for prediction in second], dtype=bool),
        _scores(first, ruler),
        _scores(second, ruler),
        clusters,
        ruler.span,
    )


def _scores(predictions: Sequence[PredictionSummary], ruler: _ScoreField) -> Floats:
    """Return the scores; NaN for a record that the field does not have, such as one that a profile leaves out."""
    values = [getattr(prediction, ruler.member) for prediction in predictions]
    return ruler.factor * np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _side(
    plan: Plan, alignment: Alignment, passed: NDArray[np.bool_], *, scores: Floats, only: Sequence[PredictionSummary]
) -> ComparisonSide:
    return ComparisonSide(
        run_id=plan.run_id,
        candidate=plan.candidate.name,
        judges=tuple(judge.name for judge in plan.judges),
        datasets=tuple(dataset.title for dataset in plan.datasets),
        records=len(alignment.pairs) + len(alignment.unscored) + len(alignment.changed) + len(only),
        pass_rate=float(passed.mean()) if len(passed) else None,
        # NaN marks records that the profile does not score.
        mean=float(np.nanmean(scores)) if len(scores) and not np.isnan(scores).all() else None,
    )


class _Groups:
    """Slices and clusters of the compared records, from the input that the first run kept."""

    def __init__(self, run: PublishedRun, plan: Plan, alignment: Alignment, choices: ComparisonOptions) -> None:
        self.name = plan.cluster_key if choices.cluster is None else choices.cluster
        self.problems: list[str] = []
        self.rows: dict[str, dict[str | None, list[int]]] = {}
        names = plan.slices if choices.slices is None else choices.slices
        # By id and hash, since the input that is read is that of the first run.
        rows = self._rows_by_hash(alignment.pairs)
        labels = [""] * len(alignment.pairs)
        try:
            self._read(run, names, RecordGroups(plan.datasets), rows=rows, labels=labels)
        except RunNotFound as problem:
            # Retention has removed the input; the difference itself needs none of it.
            self.problems.append(f"{problem.message}: no slices and no clusters")
            # Without the input there are no clusters by name; samples of a record still belong together.
            self.name = ""
        self._look_for_nothing(names, labels)
        self.clusters = self._codes(labels, alignment.pairs)

    def _look_for_nothing(self, names: Sequence[str], labels: Sequence[str]) -> None:
        """Refuse a key or a slice that no record has: it is a typing error, or of another dataset."""
        if self.name and labels and not any(labels):
            self.problems.append(f"no compared record has '{self.name}' in its metadata: it makes no clusters")
        # A record without tags is usual, and not a slip.
        empty = [name for name in names if set(self.rows.get(name, ())) == {None} and name != "tags"]
        self.problems += [f"no compared record has a value for the slice '{name}'" for name in empty]

    @staticmethod
    def _rows_by_hash(pairs: Sequence[RecordPair]) -> dict[tuple[str, str], list[int]]:
        rows: dict[tuple[str, str], list[int]] = {}
        for row, pair in enumerate(pairs):
            prediction = pair.before.prediction
            rows.setdefault((prediction.record_id, prediction.record_sha256), []).append(row)
        return rows

    def _read(
        self,
        run: PublishedRun,
        names: Sequence[str],
        groups: RecordGroups,
        *,
        rows: dict[tuple[str, str], list[int]],
        labels: list[str],
    ) -> None:
        if not names and not self.name:
            return
        # One pass over the records, which are read in their own order.
        for entry in run.records():
            # A record that was asked several times is listed once for each.
            for row in rows.pop((entry.record_id, entry.record_sha256), ()):
                case = run.case_of(entry)
                labels[row] = groups.cluster(case, self.name)
                for name, values in groups.slices(case, names).items():
                    # A record without a value counts as None, which is a value of the slice.
                    for value in dict.fromkeys(values) or (None,):
                        self.rows.setdefault(name, {}).setdefault(value, []).append(row)

    def _codes(self, labels: Sequence[str], pairs: Sequence[RecordPair]) -> Clusters | None:
        """Return a number for each cluster; samples of one record are one cluster, with or without a key."""
        if not any(labels):
            samples = {(pair.before.prediction.dataset, pair.before.prediction.record_id) for pair in pairs}
            if len(samples) == len(pairs):
                self.name = ""
                return None
            self.name = "record"
            labels = [f"{pair.before.prediction.dataset}\0{pair.before.prediction.record_id}" for pair in pairs]
        # A record without a cluster stands for itself, with all its samples.
        # The NUL keeps an id of a record apart from the name of a cluster.
        own = (f"\0{pair.before.prediction.dataset}\0{pair.before.prediction.record_id}" for pair in pairs)
        named = [label or alone for label, alone in zip(labels, own, strict=True)]
        words = {word: code for code, word in enumerate(dict.fromkeys(named))}
        return np.array([words[label] for label in named], dtype=np.int32)


def _slices(groups: _Groups, paired: _PairedColumns) -> tuple[SliceDifference, ...]:
    """Slices of which there are at least two values; one value is everything once more."""
    found: list[SliceDifference] = []
    for name, values in groups.rows.items():
        # None last among values of equal size, as it has no name to be sorted by.
        largest = sorted(values.items(), key=lambda entry: (-len(entry[1]), entry[0] is None, entry[0] or ""))
        if len(largest) > 1:
            found += [_slice(name, value, paired.at(np.array(rows))) for value, rows in largest[:MAX_SLICE_VALUES]]
    # Over all slices together: each value is one more chance to find something.
    adjusted = holm([entry.p_value for entry in found])
    return tuple(msgspec.structs.replace(entry, p_adjusted=p) for entry, p in zip(found, adjusted, strict=True))


def _named_differences(
    pairs: Sequence[RecordPair], clusters: Clusters | None
) -> list[tuple[Literal["checks", "graders"], NamedDifference]]:
    """Return the differences of the checks and graders that both runs have, with p values corrected for their number."""
    found: list[tuple[Literal["checks", "graders"], NamedDifference]] = []
    kinds: tuple[Literal["checks", "graders"], ...] = ("checks", "graders")
    for kind in kinds:
        rows: dict[str, list[tuple[int, bool, bool]]] = {}
        for row, pair in enumerate(pairs):
            before = {one.name: one.passed for one in getattr(pair.before.prediction, kind)}
            for one in getattr(pair.after.prediction, kind):
                was = before.get(one.name)
                if was is not None and one.passed is not None:
                    rows.setdefault(one.name, []).append((row, was, one.passed))
        found += [(kind, _named(name, results, clusters)) for name, results in rows.items()]
    adjusted = holm([one.p_value for _, one in found])
    return [(kind, msgspec.structs.replace(one, p_adjusted=p)) for (kind, one), p in zip(found, adjusted, strict=True)]


def _named(name: str, results: Sequence[tuple[int, bool, bool]], clusters: Clusters | None) -> NamedDifference:
    rows, before, after = (np.array(column) for column in zip(*results, strict=True))
    first, second = before.astype(np.float64), after.astype(np.float64)
    own = None if clusters is None else clusters[rows]
    return NamedDifference(
        name=name,
        n=len(rows),
        before=float(first.mean()),
        after=float(second.mean()),
        passes=paired_difference(first, second, clusters=own),
        p_value=difference_p_value(first, second, clusters=own),
        p_adjusted=None,
    )


def _slice(name: str, value: str | None, part: _PairedColumns) -> SliceDifference:
    return SliceDifference(
        slice=name,
        value=value,
        n=len(part.before),
        passes=part.passes(),
        scores=part.scores(),
        p_value=part.p_passes(),
        p_adjusted=None,
    )


def _excluded_records(predictions: Iterable[PredictionSummary]) -> ExcludedRecords:
    ids = [prediction.record_id for prediction in predictions]
    return ExcludedRecords(count=len(ids), record_ids=tuple(ids[:MAX_LISTED]))


def _setting_notes(before: Plan, after: Plan) -> tuple[str, ...]:
    """Name the settings that differ; how another tool was set up is unknown."""
    # The other tool's settings are not known, so every one of ours would seem to differ.
    if before.imported is not None or after.imported is not None:
        return ()
    changed = changed_settings(before, after)
    return tuple(f"'{name}' differs between the runs" for name in changed if name not in {*_EXPECTED, "datasets"})


def _grader_notes(before: Plan, after: Plan) -> tuple[str, ...]:
    """Name who graded the runs, where another tool made one of them."""
    makers = [plan.imported for plan in (before, after)]
    graders = ["assay" if maker is None else f"{maker.tool} ({maker.scorer})" for maker in makers]
    return (f"graded by {graders[0]} before, by {graders[1]} after",) if graders[0] != graders[1] else ()


def _notes(alignment: Alignment, groups: _Groups) -> tuple[str, ...]:
    """List what a reader has to know of the records before believing the difference."""
    notes: list[str] = []
    if not alignment.pairs:
        notes.append("no record was graded in both runs")
    if alignment.changed:
        notes.append("records with the same id and other contents were left out")
    if alignment.is_by_id_alone:
        notes.append("the runs name their datasets differently: records were aligned by id and contents alone")
    return (*notes, *groups.problems)
