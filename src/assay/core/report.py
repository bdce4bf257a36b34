"""Reports: what validation says of one source, with its cases read on demand."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from assay.core.case import Case
from assay.core.field_uses import Audience, FieldCounts
from assay.core.issue import Issue, Severity

DIGEST_BYTES = 32
NO_FIELDS: FieldCounts = {}
Outcome = Literal["accepted", "accepted_with_record_errors", "rejected"]


class Counts(msgspec.Struct, frozen=True):
    """Records of one source; for conversation_v1 a record is a turn."""

    total_records: int = 0
    accepted_records: int = 0
    rejected_records: int = 0


class Report:
    """The verdict on one source: outcome, counts, the issues, and the accepted cases."""

    def __init__(
        self,
        *,
        path: str,
        contract: str | None,
        outcome: Outcome,
        counts: Counts,
        issues: Iterable[Issue],
        unlisted: Mapping[tuple[str, Severity], int] | None = None,
        dataset_error_count: int | None = None,
        broken: Collection[int] = (),
        open_records: Callable[[], Iterator[tuple[Case, Any]]] = lambda: iter(()),
        open_rejected: Callable[[], Iterator[tuple[int, bytes]]] = lambda: iter(()),
        open_issues: Callable[[], Iterator[Issue]] | None = None,
        fields: FieldCounts = NO_FIELDS,
    ) -> None:
        self.path = path
        self.contract = contract
        self.outcome = outcome
        self.counts = counts
        self.issues = tuple(issues)
        """The first 50,000 errors and the first 10,000 warnings; of one record at most 10,000 of each."""
        self.unlisted = dict(unlisted or {})
        """How many more issues there are, by code and severity."""
        self._dataset_error_count = dataset_error_count
        self.broken = broken
        """Indexes of the records that broke their contract, in their order; of conversations for conversation_v1."""
        self.head: Mapping[str, Any] = {}
        """What the document says of itself outside its records: id, version, time, metadata."""
        self.digests: bytes | None = None
        """The hashes of the accepted cases, 32 bytes each, if the reader was asked for them."""
        self.fields = fields
        """Where the fields of the accepted records go that the contract leaves open, or that no model is sent."""
        self._open_records = open_records
        self._open_rejected = open_rejected
        self._open_issues = open_issues

    def __repr__(self) -> str:
        counts, errors = self.counts, self.count("error")
        said = f"{counts.accepted_records:,} of {counts.total_records:,} records accepted, {errors:,} errors"
        return f"<assay.Report {self.path!r} {self.contract or 'unknown contract'} {self.outcome}: {said}>"

    @property
    def cases(self) -> Iterator[Case]:
        """The accepted cases, decoded one at a time; each access starts anew."""
        return (case for case, _ in self._open_records())

    @property
    def records(self) -> Iterator[tuple[Case, Any]]:
        """The accepted cases, each with the record that it was made from, normalized, as its contract writes it."""
        return self._open_records()

    @property
    def rejected(self) -> Iterator[tuple[int, bytes]]:
        """The records that broke their contract, with index and bytes, in order; none where the contract cannot tell them apart."""
        return self._open_rejected()

    @property
    def hashes(self) -> Iterator[str]:
        """`record_sha256` of each accepted case, in their order; the cases are read for it only if nobody hashed them before."""
        if self.digests is None:
            return (case.record_sha256 for case in self.cases)
        digests = self.digests
        return (digests[at : at + DIGEST_BYTES].hex() for at in range(0, len(digests), DIGEST_BYTES))

    @property
    def is_valid(self) -> bool:
        """True when no issue is an error."""
        return not self.count("error")

    @property
    def issue_counts(self) -> Counter[tuple[str, Severity]]:
        """How often each code was found with each severity, whether or not every issue is listed."""
        counts = Counter((issue.code, issue.severity) for issue in self.issues)
        counts.update(self.unlisted)
        return counts

    def count(self, severity: Severity) -> int:
        """How many issues there are, listed or not."""
        listed = sum(issue.severity == severity for issue in self.issues)
        return listed + sum(number for (_, kind), number in self.unlisted.items() if kind == severity)

    @property
    def all_issues(self) -> Iterator[Issue]:
        """Every issue; where some are not listed, the source is read again and gives them in the order of its records.

        Of a record with more than 10,000 errors or warnings the last issue says how many more there are.
        """
        return iter(self.issues) if not self.unlisted or self._open_issues is None else self._open_issues()

    @property
    def dataset_errors(self) -> tuple[Issue, ...]:
        """Errors of the source as a whole."""
        return tuple(issue for issue in self.issues if issue.severity == "error" and issue.index is None)

    @property
    def dataset_error_count(self) -> int:
        """How many errors the source as a whole has, listed or not."""
        return max(self._dataset_error_count or 0, len(self.dataset_errors))

    @property
    def record_errors(self) -> tuple[Issue, ...]:
        """Errors of single records."""
        return tuple(issue for issue in self.issues if issue.severity == "error" and issue.index is not None)

    @property
    def warnings(self) -> tuple[Issue, ...]:
        """What does not make anything invalid."""
        return tuple(issue for issue in self.issues if issue.severity == "warning")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, in the shape of `assay validate --format json`."""
        shown = {
            "path": self.path,
            "contract": self.contract,
            "outcome": self.outcome,
            "summary": msgspec.to_builtins(self.counts),
            **{audience: dict(self.fields.get(audience, {})) for audience in get_args(Audience)},
            "dataset_errors": [_dataset_error(issue) for issue in self.dataset_errors],
            "record_errors": [_record_error(issue) for issue in self.record_errors],
            "warnings": [_record_error(issue) for issue in self.warnings],
        }
        return shown | ({"omitted_issues": sum(self.unlisted.values())} if self.unlisted else {})


def issue_members(issue: Issue) -> dict[str, Any]:
    """An issue as the report writes it."""
    return _dataset_error(issue) if issue.severity == "error" and issue.index is None else _record_error(issue)


def _dataset_error(issue: Issue) -> dict[str, Any]:
    shown = _place({"code": issue.code, "message": issue.message, "path": issue.path}, issue)
    return _contract_fields(shown, issue)


def _record_error(issue: Issue) -> dict[str, Any]:
    shown = {
        "index": issue.index,
        "record_id": issue.record_id,
        "code": issue.code,
        "message": issue.message,
        "path": issue.path,
        "severity": issue.severity,
    }
    return _contract_fields(_place(shown, issue), issue)


def _place(shown: dict[str, Any], issue: Issue) -> dict[str, Any]:
    return {**shown, "line": issue.line, "column": issue.column, "hint": issue.hint or None}


def _contract_fields(shown: dict[str, Any], issue: Issue) -> dict[str, Any]:
    if issue.error_type is not None:
        shown |= {"error_type": issue.error_type, "name": issue.name, "turn_id": issue.turn_id}
    if issue.conversation is not None:
        shown["conversation"] = issue.conversation
    return {**shown, **(issue.details or {})}
