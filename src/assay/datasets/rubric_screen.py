"""Many rubrics at once into those that the lint has something to say of: what is cheap to see clears nearly all others.

The lint takes microseconds for a criterion, a whole validation less than one. What it would warn of is not cleared.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from msgspec import UNSET, UnsetType

from assay.core.case import Criterion
from assay.datasets.rubric_lint import FAULT_SIGNS, GAP_SIGNS, begins_doubtfully, is_doubtful_alone, lint_rubric


class _Item(Protocol):
    """A criterion as it was read."""

    id: str
    title: str
    description: str | UnsetType
    weight: int | float | UnsetType


class _Row(Protocol):
    """A row with a rubric as it was read."""

    rubric: list[_Item]
    reference_answers: list[str] | UnsetType


_SEAM = "\0"
"""Stands in no valid text."""
_TELLING = b"bfgqxyz0123456789"
"""Of Latin letters those in none of the words (`not`, `keine`, `The response`) that two criteria may differ in and say the same."""
_FOREIGN = {*range(0x80, 0x100)} - {*"éèà\u00ab\u00bb\u00a0\u2018\u2019\u201c\u201d\u2026".encode()}
"""Bytes of other letters, apart from those of signs and words that may differ."""
_LOWER = bytes(range(256)).lower()
_NOT_TELLING = bytes({*range(256)} - {*_TELLING, *_TELLING.upper(), ord(_SEAM)})
_NOT_TELLING_ABROAD = bytes({*_NOT_TELLING} - _FOREIGN)
_UNKNOWN = b"?"
_MANY = 50
"""A text of which every so many letters one is not Latin is in another script."""
_CASED_SIGNS = tuple((cased, sign) for letter, sign in FAULT_SIGNS.items() for cased in (letter, letter.upper()))
_BEGINNING = 3


def doubtful_rows(rows: Sequence[_Row]) -> list[int]:
    """Places of the rows of which the lint has something to say; all of them have a rubric."""
    if not rows:
        return []
    criteria = list(chain.from_iterable([row.rubric for row in rows]))
    joined = _SEAM.join([item.title for item in criteria])
    latin = joined.encode("latin-1", "replace")
    closer = {id(item) for item in _conspicuous(criteria, joined) if is_doubtful_alone(item.title, weight=_weight(item))}
    closer |= {id(item) for item in criteria if item.weight == 0}
    places = {*_alike(rows, joined, latin), *(place for place, row in enumerate(rows) if row.reference_answers)}
    if closer:
        places |= {place for place, row in enumerate(rows) if any(id(item) in closer for item in row.rubric)}
    return [place for place in sorted(places) if _is_warned_of(rows[place])]


def _is_warned_of(row: _Row) -> bool:
    criteria = [Criterion(item.id, item.title, item.description or "", _weight(item)) for item in row.rubric]
    return bool(lint_rubric(criteria, row.reference_answers or ()))


def _weight(item: _Item) -> float:
    return 1.0 if item.weight is UNSET else item.weight


def _alike(rows: Sequence[_Row], joined: str, latin: bytes) -> Iterator[int]:
    """Rubrics of which two criteria have the same telling letters, as repetitions and opposites have."""
    if not joined.isascii() and latin.count(_UNKNOWN) * _MANY > len(latin):
        telling = joined.casefold().encode().translate(None, _NOT_TELLING_ABROAD)
    else:
        telling = latin.translate(_LOWER, _NOT_TELLING)
    letters = iter(telling.split(_SEAM.encode()))
    for place, row in enumerate(rows):
        size = len(row.rubric)
        if len(set(islice(letters, size))) < size:
            yield place


def _conspicuous(criteria: Sequence[_Item], joined: str) -> Iterator[_Item]:
    """Criteria that begin as those do which are doubtful by themselves, or have a sign that such have."""
    beginnings = [item.title[:_BEGINNING] for item in criteria]
    looked_at = set(filter(begins_doubtfully, set(beginnings)))
    if looked_at:
        yield from (item for item, beginning in zip(criteria, beginnings, strict=True) if beginning in looked_at)
    for sign in GAP_SIGNS:
        if sign in joined:
            yield from (item for item in criteria if sign in item.title)
    for letter, sign in () if joined.isascii() else _CASED_SIGNS:
        if letter in joined:
            yield from (item for item in criteria if letter in item.title and sign in item.title.casefold())
