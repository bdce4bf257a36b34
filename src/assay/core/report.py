"""Reports: what validation says of one source, with its cases read on demand."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from assay.core.case import Case
from assay.core.issue import Issue

DIGEST_BYTES = 32
Outcome = Literal["accepted", "accepted_with_record_errors", "rejected"]


class Counts(msgspec.Struct, frozen=True):
    """Records of one source; for conversation_v1 a record is a turn."""

    total_records: int = 0
    accepted_records: int = 0
    rejected_records: int = 0


class Report:
    """The verdict on one source: outcome, counts, every issue, and the accepted cases."""

    def __init__(
        self,
        *,
        path: str,
        contract: str | None,
        outcome: Outcome,
        counts: Counts,
        issues: Iterable[Issue],
        open_records: Callable[[], Iterator[tuple[Case, Any]]] = lambda: iter(()),
        open_rejected: Callable[[], Iterator[tuple[int, bytes]]] = lambda: iter(()),
    ) -> None:
        self.path = path
        self.contract = contract
        self.outcome = outcome
        self.counts = counts
        self.issues = tuple(issues)
        self.head: Mapping[str, Any] = {}
        """What the document says of itself outside its records: id, version, time, metadata."""
        self.digests: bytes | None = None
        """The hashes of the accepted cases, 32 bytes each, if the reader was asked for them."""
        self._open_records = open_records
        self._open_rejected = open_rejected

    def __repr__(self) -> str:
        counts, errors = self.counts, sum(issue.severity == "error" for issue in self.issues)
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
        return not any(issue.severity == "error" for issue in self.issues)

    @property
    def dataset_errors(self) -> tuple[Issue, ...]:
        """Errors of the source as a whole."""
        return tuple(issue for issue in self.issues if issue.severity == "error" and issue.index is None)

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
        return {
            "path": self.path,
            "contract": self.contract,
            "outcome": self.outcome,
            "summary": msgspec.to_builtins(self.counts),
            "dataset_errors": [_dataset_error(issue) for issue in self.dataset_errors],
            "record_errors": [_record_error(issue) for issue in self.record_errors],
            "warnings": [_record_error(issue) for issue in self.warnings],
        }


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
