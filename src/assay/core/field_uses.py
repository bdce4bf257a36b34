"""Where the fields of a dataset go: which models receive them, and how many records have each."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

Audience = Literal["candidate_and_judge", "judge_only", "not_sent"]
FieldCounts = Mapping[str, Mapping[str, int]]
"""Number of records with each field, by audience; audiences without a field are left out."""
OTHERS = "other fields"
"""Replaces all names above the limit; its number counts values, of which a record may have many."""
_MAX_NAMES = 100
_MAX_NAME = 200


class FieldUse(NamedTuple):
    """Where a field of a record goes."""

    field: str
    """Path in the record, such as `input.choices`."""
    audience: Audience


class FieldCounter:
    """Counts records by field, in bounded memory."""

    def __init__(self) -> None:
        self._counts: dict[Audience, dict[str, int]] = {audience: {} for audience in get_args(Audience)}

    def add(self, uses: Iterable[FieldUse]) -> None:
        """Count the fields of one record."""
        for use in uses:
            self.count(use.field, use.audience)

    def count(self, field: str, audience: Audience, records: int = 1) -> None:
        """Count a field of several records."""
        if not records:
            return
        counts = self._counts[audience]
        name = field[:_MAX_NAME]
        if name not in counts and len(counts) >= _MAX_NAMES:
            name = OTHERS
        counts[name] = counts.get(name, 0) + records

    def counts(self) -> FieldCounts:
        """Return the counts so far."""
        return {audience: dict(fields) for audience, fields in self._counts.items() if fields}


def added(all_counts: Iterable[FieldCounts]) -> FieldCounts:
    """Add the counts of several datasets."""
    counter = FieldCounter()
    for counts in all_counts:
        for audience in get_args(Audience):
            for field, records in counts.get(audience, {}).items():
                counter.count(field, audience, records)
    return counter.counts()
