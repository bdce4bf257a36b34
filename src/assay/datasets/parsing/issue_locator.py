"""Findings as issues: with the location in the source, an excerpt and the record they belong to."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from assay.core.issue import MAX_ERRORS, MAX_LISTED, Finding, Issue, Path, Severity, path_text, shorten
from assay.core.strict_json import Location, ParsedDocument, excerpt
from assay.datasets.parsing.checks import FindingList, HintWriter

START = Location(1, 1)


class RecordContext(msgspec.Struct, frozen=True):
    """Record that a finding belongs to, and the location of its text in the source."""

    index: int | None = None
    record_id: str | None = None
    path: Path = ()
    """Steps from the source's root to the record; the document contains only the steps below it."""
    start: Location = START


def locate_issue(finding: Finding, document: ParsedDocument, record: RecordContext, *, hints: HintWriter | None = None) -> Issue:
    """Build the issue of a finding in the text of one record; `hints` is that of its file."""
    # A problem of the text itself knows its place; a broken rule only knows a path, which is looked up.
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
        record_id=None if record.record_id is None else shorten(record.record_id),
        line=place.line,
        column=place.column,
        hint=(hints or HintWriter()).hint(finding),
        excerpt=around.text,
        caret=around.caret,
        error_type=finding.error_type,
        name=finding.name,
        details={"parameter": finding.parameter} if finding.parameter else None,
    )


def locate_issues(
    found: Sequence[Finding],
    document: ParsedDocument,
    record_of: Callable[[Finding], RecordContext],
    *,
    hints: HintWriter | None = None,
) -> list[Issue]:
    """Build the issues of many findings; their locations are found in one pass."""
    hints = hints or HintWriter()
    records = [record_of(finding) for finding in found]
    # One walk over the text for all of them: one for each took quadratic time for records with many problems.
    document.locate(
        [finding.path[len(record.path) :] for finding, record in zip(found, records, strict=True) if finding.offset is None]
    )
    return [locate_issue(finding, document, record, hints=hints) for finding, record in zip(found, records, strict=True)]


class IssueList:
    """Issues of one source: the first errors and the first warnings in full, the others by their codes."""

    def __init__(self, *, is_bounded: bool = True) -> None:
        """Start empty; only a caller that drains the issues may have them unbounded."""
        self.issues: list[Issue] = []
        self.unlisted: Counter[tuple[str, Severity]] = Counter()
        """Codes and severities of the issues that are counted only."""
        self.dataset_errors = 0
        """Errors of the source as a whole, listed or not."""
        self.hints = HintWriter()
        # More errors than warnings: each of 50,000 records may be a duplicate, and every error has to be fixed.
        self._room = {"error": MAX_ERRORS, "warning": MAX_LISTED} if is_bounded else None
        self._listed = {"error": 0, "warning": 0}

    def add(self, issue: Issue) -> None:
        """Add an issue that has its location."""
        self.dataset_errors += issue.index is None and issue.severity == "error"
        if self._has_room(issue.severity):
            self._listed[issue.severity] += 1
            self.issues.append(issue)
        else:
            self.unlisted[issue.code, issue.severity] += 1

    def note(self, found: FindingList, document: ParsedDocument, record: RecordContext) -> None:
        """Add the findings of one record, or of the source as a whole."""
        self.note_all(found, document, lambda _: record)
        if record.index is None:
            self.dataset_errors += sum(number for (_, severity), number in found.unlisted.items() if severity == "error")

    def note_all(self, found: FindingList, document: ParsedDocument, record_of: Callable[[Finding], RecordContext]) -> None:
        """Add the findings of one document; only those that are listed are located in its text."""
        listed = []
        for finding in found:
            if self._has_room(finding.severity):
                self._listed[finding.severity] += 1
                listed.append(finding)
            else:
                self.unlisted[finding.code, finding.severity] += 1
            self.dataset_errors += finding.severity == "error" and record_of(finding).index is None
        issues = locate_issues(listed, document, record_of, hints=self.hints) if listed else []
        if self._room is None and found.unlisted and issues:
            # A stream has no counts of omitted issues, so the last issue states them.
            last = issues[-1]
            issues[-1] = msgspec.structs.replace(
                last, message=f"{last.message} (and {found.unlisted.total():,} more issues in this record)"
            )
        self.issues += issues
        self.unlisted.update(found.unlisted)

    @property
    def lists_errors(self) -> bool:
        """Return whether another error would be listed, not only counted."""
        return self._has_room("error")

    def count(self, unlisted: Mapping[tuple[str, Severity], int]) -> None:
        """Add issues of records that are counted only."""
        self.unlisted.update(unlisted)

    def drain(self) -> list[Issue]:
        """Return the issues and remove them."""
        issues, self.issues = self.issues, []
        return issues

    def _has_room(self, severity: Severity) -> bool:
        return self._room is None or self._listed[severity] < self._room[severity]
