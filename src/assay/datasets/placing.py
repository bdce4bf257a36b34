"""Findings into issues: the place in the source, an excerpt and the record they belong to."""

import msgspec

from assay.core.document import Document, Place, excerpt
from assay.core.issue import Finding, Issue, Path, path_text

START = Place(1, 1)
FLOOD = 100_000
"""Issues of one source after which each further record is told of once: no reader needs more, and a few megabytes of wrong words
would take gigabytes of memory."""


class Record(msgspec.Struct, frozen=True):
    """Which record a finding belongs to, and where its text begins in the source."""

    index: int | None = None
    record_id: str | None = None
    path: Path = ()
    """Steps from the source's root to the record; the document knows only what is below."""
    start: Place = START


def placed(finding: Finding, document: Document, record: Record) -> Issue:
    """The issue of a finding in the text of one record."""
    offset = finding.offset
    if offset is None:
        offset = document.offset(finding.path[len(record.path) :], on_key=finding.on_key)
    place = document.place(offset, start=record.start)
    around = excerpt(document.text, offset)
    return Issue(
        code=finding.code,
        message=finding.message,
        path=path_text(finding.path),
        severity=finding.severity,
        index=record.index,
        record_id=record.record_id,
        line=place.line,
        column=place.column,
        hint=finding.hint,
        excerpt=around.text,
        caret=around.caret,
        error_type=finding.error_type,
        name=finding.name,
    )


class Placing:
    """The findings of one source into issues."""

    def __init__(self) -> None:
        self._count = 0

    def issues(self, found: list[Finding], document: Document, record: Record) -> list[Issue]:
        """The issues of one record; in a flood the first of them, which says how many more there are."""
        if self._count >= FLOOD and len(found) > 1:
            first = next((finding for finding in found if finding.severity == "error"), found[0])
            more = f"{first.message} (and {len(found) - 1:,} more in this record)"
            found = [msgspec.structs.replace(first, message=more)]
        self._count += len(found)
        return [placed(finding, document, record) for finding in found]
