"""Validation reports in words: findings by kind with what to do, and which issues are shown."""

import pytest

from assay.core.issue import CODES
from assay.core.report import ValidationReport
from assay.presentation.validation import SUGGESTIONS, FileIssue, accepted_counts, file_row, finding_sections, in_order, limited
from tests.surfaces import conftest

broken = conftest.broken

ERROR_TYPES = (
    "structure_error",
    "required_field_missing",
    "invalid_field_type",
    "invalid_field_value",
    "sequence_error",
    "content_error",
    "tool_error",
)


@pytest.mark.parametrize("name", [*CODES, *ERROR_TYPES])
def test_every_code_and_error_type_has_a_suggestion(name: str) -> None:
    assert SUGGESTIONS[name].endswith(".")


def test_a_file_has_a_row_with_its_outcome_and_its_counts(broken: ValidationReport) -> None:
    row = file_row(broken)
    assert [cell.text for cell in row[:3]] == [broken.path, broken.contract, "rejected"]
    assert accepted_counts(broken) == row[3].text
    assert row[4].text == f"{broken.count('error'):,}"


def test_findings_are_grouped_by_kind_the_most_frequent_first(broken: ValidationReport) -> None:
    found = [FileIssue(broken.path, issue) for issue in limited(broken, None)]
    sections = list(finding_sections(found, "error"))
    sizes = [len(section.tables[0].rows) for section in sections]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == broken.count("error")
    assert all(section.facts[0].text == SUGGESTIONS[section.title] for section in sections)


def test_errors_come_before_warnings(broken: ValidationReport) -> None:
    severities = [issue.severity for issue in in_order(broken)]
    assert severities == sorted(severities)
