"""Alignment of two finished runs: their common records, and those that passed in only one of them."""

from collections.abc import Iterator, Sequence
from sys import intern
from typing import Literal

import msgspec

from assay.core.artifact_lines import PredictionLine
from assay.core.errors import RunDamaged
from assay.store.published_run import PublishedRun

Key = tuple[str, str, int, int]
"""Dataset, record id, sample, and the number of earlier records with the same three."""


class NamedResult(msgspec.Struct, frozen=True):
    """Result of a check, or of one of several graders."""

    name: str
    passed: bool | None = None

    def __post_init__(self) -> None:
        # The same names stand in every line, and 50,000 lines are in memory.
        msgspec.structs.force_setattr(self, "name", intern(self.name))


class PredictionSummary(msgspec.Struct, frozen=True):
    """The part of a prediction that a comparison needs; texts stay in the file, so that memory stays bounded."""

    record_id: str
    record_sha256: str
    status: str
    dataset: str = ""
    sample: int = 0
    score: float | None = None
    raw_score: float | None = None
    scale: str | None = None
    passed: bool | None = None
    profile_score: float | None = None
    checks: tuple[NamedResult, ...] = ()
    graders: tuple[NamedResult, ...] = ()

    @property
    def is_scored(self) -> bool:
        """True when the record has a grade."""
        return self.status == "evaluated" and self.score is not None and self.passed is not None


class LocatedPrediction(msgspec.Struct, frozen=True):
    """A prediction and the byte offset of its line."""

    offset: int
    prediction: PredictionSummary


class RecordPair(msgspec.Struct, frozen=True):
    """One record in both runs."""

    before: LocatedPrediction
    after: LocatedPrediction


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """The records of two runs, matched, in the order of the first."""

    pairs: tuple[RecordPair, ...]
    """Identical records graded in both runs."""
    unscored: tuple[RecordPair, ...]
    """Identical records without a grade in at least one run."""
    changed: tuple[RecordPair, ...]
    """Records with the same id but different content: a difference of their scores means nothing."""
    missing: tuple[PredictionSummary, ...]
    """Records of the first run only."""
    added: tuple[PredictionSummary, ...]
    """Records of the second run only."""
    is_by_id_alone: bool = False
    """True when the runs name their datasets differently, so that records are matched by id alone."""


_decode = msgspec.json.Decoder(PredictionSummary).decode


def align(before: PublishedRun, after: PublishedRun) -> Alignment:
    """Match the records of two runs by dataset, id and sample; raises RunNotFound when predictions were removed by retention."""
    first, second = list(read_predictions(before)), list(read_predictions(after))
    # Datasets of two tools or versions have other names; if none is shared, names say nothing about which records
    # are the same.
    is_by_id_alone = {located.prediction.dataset for located in first}.isdisjoint(located.prediction.dataset for located in second)
    ours = index_by_key(first, is_by_id_alone=is_by_id_alone)
    theirs = index_by_key(second, is_by_id_alone=is_by_id_alone)
    shared = [RecordPair(located, theirs[key]) for key, located in ours.items() if key in theirs]
    same = [pair for pair in shared if pair.before.prediction.record_sha256 == pair.after.prediction.record_sha256]
    return Alignment(
        pairs=tuple(pair for pair in same if _is_scored(pair)),
        unscored=tuple(pair for pair in same if not _is_scored(pair)),
        changed=tuple(pair for pair in shared if pair.before.prediction.record_sha256 != pair.after.prediction.record_sha256),
        missing=tuple(located.prediction for key, located in ours.items() if key not in theirs),
        added=tuple(located.prediction for key, located in theirs.items() if key not in ours),
        is_by_id_alone=is_by_id_alone and bool(shared),
    )


def _is_scored(pair: RecordPair) -> bool:
    return pair.before.prediction.is_scored and pair.after.prediction.is_scored


def read_predictions(run: PublishedRun) -> Iterator[LocatedPrediction]:
    """Read the predictions of a run, each with its place; raises RunNotFound when retention has removed them, RunDamaged."""
    offset = 0
    # Read as lines with their places: an answer is loaded later by its offset, and 50,000 answers are not in
    # memory.
    for line in run.raw_lines("predictions.jsonl"):
        try:
            yield LocatedPrediction(offset, _decode(line))
        except ValueError as problem:
            raise RunDamaged(f'"{run.path}": predictions.jsonl is damaged: {problem}') from problem
        # The line feed is not part of the raw line.
        offset += len(line) + 1


def index_by_key(located: list[LocatedPrediction], *, is_by_id_alone: bool) -> dict[Key, LocatedPrediction]:
    """Return predictions by what makes the same record of two runs."""
    found: dict[Key, LocatedPrediction] = {}
    for one in located:
        prediction, number = one.prediction, 0
        dataset = "" if is_by_id_alone else prediction.dataset
        # Equal records of one dataset are matched in the order in which they stand.
        while (dataset, prediction.record_id, prediction.sample, number) in found:
            number += 1
        found[dataset, prediction.record_id, prediction.sample, number] = one
    return found


PREDICTIONS = "predictions.jsonl"

Direction = Literal["worse", "better"]


class FlipSide(msgspec.Struct, frozen=True, kw_only=True):
    """One run's result for a record."""

    answer: str | None
    score: float | None
    passed: bool | None
    justification: str | None
    label: str | None
    status: str
    index: int = 0
    """Index of the record in that run."""


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """A record that passed in only one of two runs."""

    record_id: str
    dataset: str
    sample: int
    direction: Direction
    before: FlipSide
    after: FlipSide


class FlipOffsets(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A flip, and the byte offsets of its lines in the two files of predictions."""

    record_id: str
    dataset: str
    sample: int
    direction: Direction
    before: int
    after: int
    is_scaled: bool
    """True when scores are on the scale 1-5 instead of 0-1."""


def find_flips(pairs: Sequence[RecordPair], *, is_scaled: bool) -> tuple[FlipOffsets, ...]:
    """Return the flips: losses, then gains, each with the largest change of score first."""
    flips = [pair for pair in pairs if pair.before.prediction.passed != pair.after.prediction.passed]
    # The offset makes the order of equal changes the one of the dataset.
    flips.sort(key=lambda pair: (not pair.before.prediction.passed, -abs(_score_change(pair)), pair.before.offset))
    return tuple(
        FlipOffsets(
            record_id=pair.before.prediction.record_id,
            dataset=pair.before.prediction.dataset,
            sample=pair.before.prediction.sample,
            direction="worse" if pair.before.prediction.passed else "better",
            before=pair.before.offset,
            after=pair.after.offset,
            is_scaled=is_scaled,
        )
        for pair in flips
    )


def _score_change(pair: RecordPair) -> float:
    return (pair.after.prediction.score or 0.0) - (pair.before.prediction.score or 0.0)


def load_flips(offsets: Sequence[FlipOffsets], *, before: PublishedRun, after: PublishedRun) -> tuple[Flip, ...]:
    """Load both runs' results for the flips, reading only their lines; raises RunNotFound when answers were removed."""
    if not offsets:
        return ()
    first = before.lines_at(PREDICTIONS, PredictionLine, [flip.before for flip in offsets])
    second = after.lines_at(PREDICTIONS, PredictionLine, [flip.after for flip in offsets])
    return tuple(
        Flip(
            record_id=flip.record_id,
            dataset=flip.dataset,
            sample=flip.sample,
            direction=flip.direction,
            before=_flip_side(ours, is_scaled=flip.is_scaled),
            after=_flip_side(theirs, is_scaled=flip.is_scaled),
        )
        for flip, ours, theirs in zip(offsets, first, second, strict=True)
    )


def _flip_side(line: PredictionLine, *, is_scaled: bool) -> FlipSide:
    return FlipSide(
        answer=line.model_response,
        # The raw score where both runs share the scale, as people know it.
        score=line.raw_score if is_scaled else line.score,
        passed=line.passed,
        justification=line.justification,
        label=line.label,
        status=line.status,
        index=line.index,
    )
