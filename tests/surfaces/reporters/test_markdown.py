"""Reports as Markdown that is no more than text."""

import re

from assay.core.report import ValidationReport
from assay.presentation.validation import SUGGESTIONS
from tests.surfaces.reporters.test_formats import shown


def test_markdown_has_no_html_of_the_data(hostile: ValidationReport) -> None:
    without_code = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", shown("markdown", hostile))
    assert "<script>" not in without_code


def test_markdown_rows_have_as_many_cells_as_their_header(hostile: ValidationReport, broken: ValidationReport) -> None:
    rows = [line for line in shown("markdown", hostile, broken).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5, 7}


def test_markdown_groups_conversations_by_error_type_with_a_suggested_fix(conversation: ValidationReport) -> None:
    text = shown("markdown", conversation)
    assert "## `sequence_error`: 1 error\n" in text
    assert f"**Suggested fix:** {SUGGESTIONS['sequence_error']}" in text
