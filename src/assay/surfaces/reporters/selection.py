"""Which issues of a report are shown: the first ones, with look-alikes collapsed."""

import re
from collections import Counter

import msgspec

from assay.core.issue import Issue
from assay.core.report import ValidationReport

SHOWN_OF_A_KIND = 3
"""Look-alikes shown before the rest of them is collapsed into a count."""

_INDEX = re.compile(r"\[\d+\]")


class SimilarIssues(msgspec.Struct, frozen=True):
    """So many more issues of the kind that was just shown."""

    count: int


class IssueSelection(msgspec.Struct, frozen=True):
    """What to show in order, and what was left out beyond it."""

    shown: tuple[Issue | SimilarIssues, ...]
    omitted_errors: int
    omitted_warnings: int


def in_order(report: ValidationReport) -> list[Issue]:
    """Errors before warnings, each by their place in the source."""
    return sorted(report.issues, key=lambda issue: (issue.severity == "warning", issue.line or 0, issue.column or 0))


def limited(report: ValidationReport, max_issues: int | None) -> tuple[Issue, ...]:
    """The first issues in the order of the JSON form; all of them without a limit."""
    issues = (*report.dataset_errors, *report.record_errors, *report.warnings)
    return issues[:max_issues] if max_issues else issues


def select(report: ValidationReport, *, max_issues: int, is_collapsed: bool) -> IssueSelection:
    """The first `max_issues` (0: all) issues, look-alikes beyond a few replaced by their count."""
    issues = in_order(report)
    totals = Counter(_kind(issue) for issue in issues) if is_collapsed else Counter()
    seen: Counter[tuple[str, str, str]] = Counter()
    left = {"error": report.count("error"), "warning": report.count("warning")}
    room = max_issues or len(issues)
    shown: list[Issue | SimilarIssues] = []
    for issue in issues:
        if not room:
            break
        kind = _kind(issue)
        seen[kind] += 1
        hidden = _hidden(totals[kind])
        if hidden and seen[kind] > SHOWN_OF_A_KIND:
            continue
        shown.append(issue)
        room -= 1
        left[issue.severity] -= 1
        if hidden and seen[kind] == SHOWN_OF_A_KIND:
            shown.append(SimilarIssues(hidden))
            left[issue.severity] -= hidden
    return IssueSelection(tuple(shown), left["error"], left["warning"])


def _kind(issue: Issue) -> tuple[str, str, str]:
    return (issue.severity, issue.code, _INDEX.sub("[]", issue.path))


def _hidden(total: int) -> int:
    # A single look-alike is shorter shown than announced.
    return total - SHOWN_OF_A_KIND if total > SHOWN_OF_A_KIND + 1 else 0
