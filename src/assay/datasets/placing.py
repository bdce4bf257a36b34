"""Findings into issues: the place in the source, an excerpt and the record they belong to."""

import msgspec

from assay.core.document import Document, Place, excerpt
from assay.core.issue import Finding, Issue, Path, path_text

START = Place(1, 1)


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
