"""Two finished runs record by record: which records both have, which changed in between, and which only one of them has."""

from collections.abc import Iterator

import msgspec

from assay.core.errors import RunDamaged
from assay.store.folder import RunFolder

Key = tuple[str, str, int, int]
"""Dataset, record id, sample, and how many of the same name came before."""


class Standing(msgspec.Struct, frozen=True):
    """What a comparison needs to know of a prediction; everything else stays in the file."""

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

    @property
    def is_scored(self) -> bool:
        """The record has a grade."""
        return self.status == "evaluated" and self.score is not None and self.passed is not None


class Placed(msgspec.Struct, frozen=True):
    """A prediction and the byte of its file that its line begins at."""

    offset: int
    standing: Standing


class Pair(msgspec.Struct, frozen=True):
    """One record as both runs have it."""

    before: Placed
    after: Placed


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """The records of two runs side by side, in the order of the first."""

    pairs: tuple[Pair, ...]
    """The same record in both, graded in both."""
    unscored: tuple[Pair, ...]
    """The same record in both, without a grade in one of them or in both."""
    changed: tuple[Pair, ...]
    """The same id with other contents: nothing can be said about the difference of its scores."""
    missing: tuple[Standing, ...]
    """Only the first run has it."""
    added: tuple[Standing, ...]
    """Only the second run has it."""
    is_by_id_alone: bool = False
    """The runs name their datasets differently, so that only ids were compared."""


_decode = msgspec.json.Decoder(Standing).decode


def align(before: RunFolder, after: RunFolder) -> Alignment:
    """The records of two runs by dataset, id and sample; raises RunNotFound where predictions have been removed."""
    first, second = list(_standings(before)), list(_standings(after))
    is_by_id_alone = {placed.standing.dataset for placed in first}.isdisjoint(placed.standing.dataset for placed in second)
    ours = _keyed(first, is_by_id_alone=is_by_id_alone)
    theirs = _keyed(second, is_by_id_alone=is_by_id_alone)
    shared = [Pair(placed, theirs[key]) for key, placed in ours.items() if key in theirs]
    same = [pair for pair in shared if pair.before.standing.record_sha256 == pair.after.standing.record_sha256]
    return Alignment(
        pairs=tuple(pair for pair in same if _is_scored(pair)),
        unscored=tuple(pair for pair in same if not _is_scored(pair)),
        changed=tuple(pair for pair in shared if pair.before.standing.record_sha256 != pair.after.standing.record_sha256),
        missing=tuple(placed.standing for key, placed in ours.items() if key not in theirs),
        added=tuple(placed.standing for key, placed in theirs.items() if key not in ours),
        is_by_id_alone=is_by_id_alone and bool(shared),
    )


def _is_scored(pair: Pair) -> bool:
    return pair.before.standing.is_scored and pair.after.standing.is_scored


def _standings(run: RunFolder) -> Iterator[Placed]:
    offset = 0
    for line in run.raw_lines("predictions.jsonl"):
        try:
            yield Placed(offset, _decode(line))
        except ValueError as problem:
            raise RunDamaged(f'"{run.path}": predictions.jsonl is damaged: {problem}') from problem
        offset += len(line) + 1


def _keyed(placed: list[Placed], *, is_by_id_alone: bool) -> dict[Key, Placed]:
    found: dict[Key, Placed] = {}
    for one in placed:
        standing, number = one.standing, 0
        dataset = "" if is_by_id_alone else standing.dataset
        while (dataset, standing.record_id, standing.sample, number) in found:
            number += 1
        found[dataset, standing.record_id, standing.sample, number] = one
    return found
