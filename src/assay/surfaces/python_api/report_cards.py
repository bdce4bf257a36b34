"""What validation says of a source, as a notebook shows it."""

import msgspec

from assay.core.issue import Issue
from assay.core.report import ValidationReport
from assay.presentation.sections import Badge, Tone
from assay.presentation.validation import OUTCOME_WORDS, contract_name, in_order, record_counts
from assay.presentation.words import counted
from assay.surfaces.python_api.cards import rendered
from assay.surfaces.reporters.excerpts import PointedLine, pointed

ISSUES = 20
"""Issues that are shown; the report has them all."""
TEXT = 600
"""Characters of a message."""
_KINDS: dict[str, Tone] = {"accepted": "good", "accepted_with_record_errors": "warn", "rejected": "bad"}


class IssueRow(msgspec.Struct, frozen=True, kw_only=True):
    """One issue."""

    place: str
    """Line and column; empty where the source is no file."""
    mark: Badge
    path: str
    message: str
    hint: str
    excerpt: PointedLine | None
    """The line, and what of it is meant."""


class ReportCard(msgspec.Struct, frozen=True, kw_only=True):
    """One report."""

    name: str
    contract: str
    outcome: Badge
    counts: str
    issues: tuple[IssueRow, ...]
    more: str
    """How many issues are not shown; empty for none."""


def report_card(report: ValidationReport) -> str:
    """The outcome, and every issue with its place and what to do, the first ones of many."""
    more = report.issue_counts.total() - ISSUES
    card = ReportCard(
        name=report.path,
        contract=contract_name(report),
        outcome=Badge(OUTCOME_WORDS[report.outcome], _KINDS[report.outcome]),
        counts=record_counts(report),
        issues=tuple(_row(issue) for issue in in_order(report)[:ISSUES]),
        more=counted(more, "more issue") if more > 0 else "",
    )
    return rendered("notebook_report.html", card)


def _row(issue: Issue) -> IssueRow:
    numbers = (str(number) for number in (issue.line, issue.column) if number is not None)
    return IssueRow(
        place=":".join(numbers),
        mark=Badge(issue.code, "bad" if issue.severity == "error" else "warn"),
        path=issue.path,
        message=_cut(issue.message),
        hint=_cut(issue.hint),
        excerpt=pointed(issue) if issue.excerpt else None,
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"
