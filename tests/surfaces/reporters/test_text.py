"""Reports in a terminal: the source line, the marks below it, and issues that look alike."""

import re
from typing import Any

import pytest
from rich.cells import cell_len

from assay.core.issue import Issue
from assay.core.report import RecordCounts, ValidationReport
from assay.surfaces.reporters.formats import ReportSettings
from tests.surfaces.conftest import Snapshot
from tests.surfaces.reporters.test_formats import shown


def issues_like(count: int, **fields: Any) -> ValidationReport:
    issues = [
        Issue(**{"code": "string_too_long", "message": "too long", "path": f"records[{n}].x", "index": n, "line": n + 1, **fields})
        for n in range(count)
    ]
    return ValidationReport(
        path="many.json", contract="batch_v1", outcome="rejected", counts=RecordCounts(count, 0, count), issues=issues
    )


def test_a_narrow_coloured_terminal_matches_its_snapshot(snapshot: Snapshot, broken: ValidationReport) -> None:
    snapshot("narrow-colour.txt", shown("text", broken, settings=ReportSettings(version="9.9.9", width=60, is_coloured=True)))


def test_markup_in_data_is_shown_as_it_is_written(hostile: ValidationReport) -> None:
    coloured = ReportSettings(version="9.9.9", is_coloured=True)
    assert "[red]x[/red]" in shown("text", hostile, settings=coloured)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int, broken: ValidationReport) -> None:
    lines = shown("text", broken, settings=ReportSettings(version="9.9.9", width=width)).splitlines()
    assert [line for line in lines[1:] if cell_len(line) > width] == []


def test_the_marks_stand_below_the_value_after_wide_characters(broken: ValidationReport) -> None:
    lines = shown("text", broken).splitlines()
    at = next(number for number, line in enumerate(lines) if "^" * len('"priority"') in line)
    before = lines[at - 1].split('"priority"')[0]
    assert lines[at].index("^") == cell_len(before)


def test_look_alikes_are_collapsed_after_three() -> None:
    text = shown("text", issues_like(1207))
    assert text.count("error[string_too_long]") == 3
    assert "… and 1,204 more like this" in text


def test_a_fourth_look_alike_is_shown_rather_than_announced() -> None:
    assert shown("text", issues_like(4)).count("error[string_too_long]") == 4


@pytest.mark.parametrize(
    "settings", [ReportSettings(version="9", max_issues=0), ReportSettings(version="9", is_verbose=True, max_issues=50)]
)
def test_all_issues_are_shown_on_request(settings: ReportSettings) -> None:
    text = shown("text", issues_like(45), settings=settings)
    assert text.count("error[string_too_long]") == 45
    assert "… and" not in text


def test_text_shows_twenty_issues_of_a_file_and_counts_the_rest() -> None:
    report = issues_like(1)
    issues = [Issue(code="invalid_json", message="bad", path=f"field{n}", severity="error") for n in range(30)]
    many = ValidationReport(
        path="m",
        contract=None,
        outcome="rejected",
        counts=report.counts,
        issues=[*issues, *issues_like(2, severity="warning").issues],
    )
    text = shown("text", many)
    assert text.count("error[invalid_json]") == 20
    assert "… and 10 more errors and 2 more warnings (--max-issues 0 shows all)" in text


def test_errors_come_before_warnings(broken: ValidationReport) -> None:
    labels = re.findall(r"(error|warning)\[", shown("text", broken))
    assert labels == sorted(labels)


def test_the_summary_counts_files_by_outcome(
    clean: ValidationReport, broken: ValidationReport, conversation: ValidationReport
) -> None:
    last = shown("text", clean, broken, conversation).splitlines()[-1]
    assert last == "3 files: 1 accepted, 1 accepted with record errors, 1 rejected · 16 errors, 1 warning"
