"""Many rubrics at once into those that the lint has something to say of: what is cheap to see clears nearly all others.

The lint takes microseconds for a criterion, a whole validation less than one. What it would warn of is not cleared.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from msgspec import UNSET, UnsetType

from assay.core.case import Criterion
from assay.datasets.rubric_lint import FAULT_SIGNS, GAP_SIGNS, begins_doubtfully, has_gap_sign, is_doubtful_alone, lint_rubric


class _ScreenedCriterion(Protocol):
    """A criterion as it was read."""

    id: str
    title: str
    description: str | UnsetType
    weight: int | float | UnsetType


class _ScreenedRow(Protocol):
    """A row with a rubric as it was read."""

    rubric: list[_ScreenedCriterion]
    reference_answers: list[str] | UnsetType


_SEAM = "\0"
"""Stands in no valid text."""
_TELLING = b"bfgqxyz0123456789"
"""Of Latin letters those in none of the words (`not`, `keine`, `The response`) that two criteria may differ in and say the same."""
_LOWER = bytes(range(256)).lower()
_NOT_TELLING = bytes({*range(256)} - {*_TELLING, *_TELLING.upper(), ord(_SEAM)})
_SIGNS = tuple(sign.encode("latin-1") for sign in FAULT_SIGNS)
_BEGINNING = 3
_FEW = 3
_FOREIGN = re.compile(r"[^\x00-\u024f\u2000-\u206f]+")
"""Letters of other scripts; no sign and no word that may differ has one."""


def doubtful_rows(rows: Sequence[_ScreenedRow]) -> list[int]:
    """Places of the rows of which the lint has something to say; all of them have a rubric."""
    if not rows:
        return []
    criteria = list(chain.from_iterable([row.rubric for row in rows]))
    joined = _SEAM.join([item.title for item in criteria])
    latin = joined.encode("latin-1", "replace")
    closer = {id(item) for item in _conspicuous(criteria, joined, latin) if is_doubtful_alone(item.title, weight=_weight(item))}
    closer |= {id(item) for item in criteria if item.weight == 0}
    places = {place for place, row in enumerate(rows) if row.reference_answers}
    if closer:
        places |= {place for place, row in enumerate(rows) if any(id(item) in closer for item in row.rubric)}
    warned = {place for place in places if _is_warned_of(rows[place].rubric, rows[place].reference_answers or ())}
    return sorted(warned.union(place for place, alike in _alike(rows, latin) if _is_warned_of(alike)))


def _is_warned_of(items: Sequence[_ScreenedCriterion], references: Sequence[str] = ()) -> bool:
    return bool(lint_rubric([Criterion(item.id, item.title, item.description or "", _weight(item)) for item in items], references))


def _weight(item: _ScreenedCriterion) -> float:
    return 1.0 if item.weight is UNSET else item.weight


def _alike(rows: Sequence[_ScreenedRow], latin: bytes) -> Iterator[tuple[int, list[_ScreenedCriterion]]]:
    """Rubrics of which some criteria have the same telling letters, as repetitions and opposites have, and those criteria."""
    letters = iter(latin.translate(_LOWER, _NOT_TELLING).split(_SEAM.encode()))
    for place, row in enumerate(rows):
        size = len(row.rubric)
        telling = list(islice(letters, size))
        if len(set(telling)) < size:
            yield from ((place, alike) for alike in _groups(row.rubric, telling))


def _groups(items: Sequence[_ScreenedCriterion], telling: Sequence[bytes]) -> Iterator[list[_ScreenedCriterion]]:
    """Criteria that are the same so far; where Latin letters tell little, those of other scripts must be the same too."""
    groups: dict[str, list[_ScreenedCriterion]] = {}
    for item, letters in zip(items, telling, strict=True):
        more = "" if len(letters) > _FEW or item.title.isascii() else "".join(_FOREIGN.findall(item.title.casefold()))
        groups.setdefault(f"{letters.decode()} {more}", []).append(item)
    yield from (group for group in groups.values() if len(group) > 1)


def _conspicuous(criteria: Sequence[_ScreenedCriterion], joined: str, latin: bytes) -> Iterator[_ScreenedCriterion]:
    """Criteria that begin as those do which are doubtful by themselves, or have a sign that such have."""
    beginnings = [item.title[:_BEGINNING] for item in criteria]
    looked_at = set(filter(begins_doubtfully, set(beginnings)))
    if looked_at:
        yield from (item for item, beginning in zip(criteria, beginnings, strict=True) if beginning in looked_at)
    if any(sign in joined for sign in GAP_SIGNS):
        yield from (item for item in criteria if has_gap_sign(item.title))
    if not joined.isascii() and any(_has_sign(latin, sign) for sign in _SIGNS):
        yield from (item for item in criteria if not item.title.isascii())


def _has_sign(latin: bytes, sign: bytes) -> bool:
    """Whether a sign is somewhere, by its first letter: that is rare, and the next one is found at once."""
    return any(piece.startswith(sign[1:]) for piece in latin.split(sign[:1])[1:])
