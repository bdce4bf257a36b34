"""Flips: records that passed in only one of two runs, their offsets in the files, and both runs' results."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.engine.comparison.alignment import RecordPair
from assay.store.published_run import PublishedRun

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
    first = before.lines_at(PREDICTIONS, [flip.before for flip in offsets])
    second = after.lines_at(PREDICTIONS, [flip.after for flip in offsets])
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


def _flip_side(line: JsonObject, *, is_scaled: bool) -> FlipSide:
    return FlipSide(
        answer=line["model_response"],
        score=line["raw_score"] if is_scaled else line["score"],
        passed=line["passed"],
        justification=line["justification"],
        label=line["label"],
        status=line["status"],
        index=line["index"],
    )
