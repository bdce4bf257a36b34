"""Validation reports of one source, with its cases read on demand."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, get_args

import msgspec

from assay.core.case import Case
from assay.core.issue import Issue, Severity
from assay.core.open_fields import Audience, FieldCounts

DIGEST_BYTES = 32
NO_FIELDS: FieldCounts = {}
Outcome = Literal["accepted", "accepted_with_record_errors", "rejected"]


class RecordCounts(msgspec.Struct, frozen=True):
    """Records of one source; for conversation_v1 a record is a turn."""

    total_records: int = 0
    accepted_records: int = 0
    rejected_records: int = 0


class FixChange(msgspec.Struct, frozen=True):
    """One safe fix that was applied: its place in the source, and the change."""

    line: int
    path: str
    message: str


class ValidationReport:
    """Result of validating one source: outcome, counts, issues, and the accepted cases."""

    def __init__(
        self,
        *,
        path: str,
        contract: str | None,
        outcome: Outcome,
        counts: RecordCounts,
        issues: Iterable[Issue],
        unlisted: Mapping[tuple[str, Severity], int] | None = None,
        dataset_error_count: int | None = None,
        broken: Collection[int] = (),
        # Functions instead of lists: cases of a 100 MB file take several times its size, and most callers only want the verdict.
        open_records: Callable[[], Iterator[tuple[Case, object]]] = lambda: iter(()),
        open_rejected: Callable[[], Iterator[tuple[int, bytes]]] = lambda: iter(()),
        open_issues: Callable[[], Iterator[Issue]] | None = None,
        open_head: Callable[[], Mapping[str, object]] = dict,
        fields: FieldCounts = NO_FIELDS,
    ) -> None:
        self.path = path
        self.contract = contract
        self.outcome = outcome
        self.counts = counts
        self.issues = tuple(issues)
        """First 50,000 errors and the first 10,000 warnings; of one record at most 10,000 of each."""
        # Counted, not dropped: totals and exit codes are the same whether an issue is listed or not.
        self.unlisted = dict(unlisted or {})
        """Number of unlisted issues, by code and severity."""
        self._dataset_error_count = dataset_error_count
        self.broken = broken
        """Indexes of the invalid records, in order; of conversations for conversation_v1."""
        self._open_head = open_head
        self.digests: bytes | None = None
        """Hashes of the accepted cases, 32 bytes each, if the reader computed them."""
        self.fields = fields
        """Audiences of the open or unsent fields of the accepted records."""
        self._open_records = open_records
        self._open_rejected = open_rejected
        self._open_issues = open_issues

    def __repr__(self) -> str:
        counts, errors = self.counts, self.count("error")
        summary = f"{counts.accepted_records:,} of {counts.total_records:,} records accepted, {errors:,} errors"
        return f"<assay.ValidationReport {self.path!r} {self.contract or 'unknown contract'} {self.outcome}: {summary}>"

    @property
    def head(self) -> Mapping[str, object]:
        """The document's members outside its records: id, version, time, metadata; those of a large document are read again."""
        return self._open_head()

    @head.setter
    def head(self, members: Mapping[str, object]) -> None:
        """Replace the members by these, which a reader has in memory anyway."""
        self._open_head = lambda: members

    @property
    def cases(self) -> Iterator[Case]:
        """Iterate over the accepted cases, decoded one at a time; each access starts again."""
        return (case for case, _ in self._open_records())

    @property
    def records(self) -> Iterator[tuple[Case, object]]:
        """Iterate over the accepted cases, each with its record, normalized, in its own contract."""
        return self._open_records()

    @property
    def rejected(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the invalid records, with index and bytes, in order; none when the contract cannot separate them."""
        return self._open_rejected()

    @property
    def hashes(self) -> Iterator[str]:
        """Iterate over `record_sha256` of each accepted case, in order; reads the cases only if hashes were not computed before."""
        if self.digests is None:
            return (case.record_sha256 for case in self.cases)
        # One bytes object of 32 bytes per case: 50,000 hex strings would take three times as much.
        digests = self.digests
        return (digests[at : at + DIGEST_BYTES].hex() for at in range(0, len(digests), DIGEST_BYTES))

    def relocate(self, locate: Callable[[Issue], Issue], *, further: Iterable[Issue] = ()) -> None:
        """Replace each issue by the one with its location in the file that the records were made from, after `further` ones."""
        kept, reread = tuple(further), self._open_issues
        self.issues = (*kept, *map(locate, self.issues))
        if reread is not None:
            self._open_issues = lambda: chain(kept, map(locate, reread()))

    @property
    def is_valid(self) -> bool:
        """Return whether no issue is an error."""
        return not self.count("error")

    @property
    def issue_counts(self) -> Counter[tuple[str, Severity]]:
        """Count issues by code and severity, listed or not."""
        counts = Counter((issue.code, issue.severity) for issue in self.issues)
        counts.update(self.unlisted)
        return counts

    def count(self, severity: Severity) -> int:
        """Count the issues of a severity, listed or not."""
        listed = sum(issue.severity == severity for issue in self.issues)
        return listed + sum(number for (_, kind), number in self.unlisted.items() if kind == severity)

    @property
    def all_issues(self) -> Iterator[Issue]:
        """Iterate over every issue; if some are not listed, the source is read again and gives them in the order of its records.

        For a record with more than 10,000 errors or warnings, the last issue states the number of further ones.
        """
        # Reading the source again costs time only where issues were left out, and no memory.
        return iter(self.issues) if not self.unlisted or self._open_issues is None else self._open_issues()

    @property
    def dataset_errors(self) -> tuple[Issue, ...]:
        """List the errors of the source as a whole."""
        return tuple(issue for issue in self.issues if issue.severity == "error" and issue.index is None)

    @property
    def dataset_error_count(self) -> int:
        """Count the errors of the source as a whole, listed or not."""
        return max(self._dataset_error_count or 0, len(self.dataset_errors))

    @property
    def record_errors(self) -> tuple[Issue, ...]:
        """List the errors of single records."""
        return tuple(issue for issue in self.issues if issue.severity == "error" and issue.index is not None)

    @property
    def warnings(self) -> tuple[Issue, ...]:
        """List the warnings, which make nothing invalid."""
        return tuple(issue for issue in self.issues if issue.severity == "warning")

    def to_dict(self) -> dict[str, object]:
        """Convert to plain values, in the form of `assay validate --format json`."""
        members = {
            "path": self.path,
            "contract": self.contract,
            "outcome": self.outcome,
            "summary": msgspec.to_builtins(self.counts),
            **{audience: dict(self.fields.get(audience, {})) for audience in get_args(Audience)},
            "dataset_errors": [_dataset_error(issue) for issue in self.dataset_errors],
            "record_errors": [_record_error(issue) for issue in self.record_errors],
            "warnings": [_record_error(issue) for issue in self.warnings],
        }
        return members | ({"omitted_issues": sum(self.unlisted.values())} if self.unlisted else {})


def issue_members(issue: Issue) -> dict[str, object]:
    """Convert an issue to the members that a report has."""
    return _dataset_error(issue) if issue.severity == "error" and issue.index is None else _record_error(issue)


def _dataset_error(issue: Issue) -> dict[str, object]:
    members = _with_location({"code": issue.code, "message": issue.message, "path": issue.path}, issue)
    return _contract_fields(members, issue)


def _record_error(issue: Issue) -> dict[str, object]:
    members = {
        "index": issue.index,
        "record_id": issue.record_id,
        "code": issue.code,
        "message": issue.message,
        "path": issue.path,
        "severity": issue.severity,
    }
    return _contract_fields(_with_location(members, issue), issue)


def _with_location(members: Mapping[str, object], issue: Issue) -> dict[str, object]:
    return {**members, "line": issue.line, "column": issue.column, "hint": issue.hint or None}


def _contract_fields(members: dict[str, object], issue: Issue) -> dict[str, object]:
    if issue.error_type is not None:
        members |= {"error_type": issue.error_type, "name": issue.name, "turn_id": issue.turn_id}
    if issue.conversation is not None:
        members["conversation"] = issue.conversation
    return {**members, **(issue.details or {})}
