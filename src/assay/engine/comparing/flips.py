"""Records that passed in one run and not in the other: where they stand, and what both runs say of them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from assay.engine.comparing.alignment import Pair
from assay.store.folder import RunFolder

PREDICTIONS = "predictions.jsonl"

Direction = Literal["worse", "better"]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one run says of a record."""

    answer: str | None
    score: float | None
    passed: bool | None
    justification: str | None
    label: str | None
    status: str
    index: int = 0
    """Position of the record in that run."""


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """A record that passed in one run and not in the other."""

    record_id: str
    dataset: str
    sample: int
    direction: Direction
    before: Told
    after: Told


class FlipPlace(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A flip, and the bytes that its lines begin at in the two files of predictions."""

    record_id: str
    dataset: str
    sample: int
    direction: Direction
    before: int
    after: int
    is_scaled: bool
    """Scores are told on the scale 1-5, not as shares."""


def flip_places(pairs: Sequence[Pair], *, is_scaled: bool) -> tuple[FlipPlace, ...]:
    """Losses, then gains, the largest change of the score first."""
    flips = [pair for pair in pairs if pair.before.standing.passed != pair.after.standing.passed]
    flips.sort(key=lambda pair: (not pair.before.standing.passed, -abs(_change(pair)), pair.before.offset))
    return tuple(
        FlipPlace(
            record_id=pair.before.standing.record_id,
            dataset=pair.before.standing.dataset,
            sample=pair.before.standing.sample,
            direction="worse" if pair.before.standing.passed else "better",
            before=pair.before.offset,
            after=pair.after.offset,
            is_scaled=is_scaled,
        )
        for pair in flips
    )


def _change(pair: Pair) -> float:
    return (pair.after.standing.score or 0.0) - (pair.before.standing.score or 0.0)


def tell(places: Sequence[FlipPlace], *, before: RunFolder, after: RunFolder) -> tuple[Flip, ...]:
    """The flips with what both runs say; of the files only these lines are read. Raises RunNotFound where answers were removed."""
    if not places:
        return ()
    first = before.lines_at(PREDICTIONS, [place.before for place in places])
    second = after.lines_at(PREDICTIONS, [place.after for place in places])
    return tuple(
        Flip(
            record_id=place.record_id,
            dataset=place.dataset,
            sample=place.sample,
            direction=place.direction,
            before=_saying(ours, is_scaled=place.is_scaled),
            after=_saying(theirs, is_scaled=place.is_scaled),
        )
        for place, ours, theirs in zip(places, first, second, strict=True)
    )


def _saying(line: dict[str, Any], *, is_scaled: bool) -> Told:
    return Told(
        answer=line["model_response"],
        score=line["raw_score"] if is_scaled else line["score"],
        passed=line["passed"],
        justification=line["justification"],
        label=line["label"],
        status=line["status"],
        index=line["index"],
    )
