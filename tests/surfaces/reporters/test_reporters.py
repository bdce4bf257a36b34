"""Reports of every format, compared with golden files and read back by strict readers."""

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len

from assay.core.issue import CODES, Issue
from assay.core.report import RecordCounts, ValidationReport
from assay.presentation.validation import SUGGESTIONS
from assay.surfaces.reporters.formats import FORMATS
from assay.surfaces.reporters.settings import ReportSettings
from tests.surfaces.conftest import Snapshot

PLAIN = ReportSettings(version="9.9.9")
SUFFIXES = {"text": "txt", "json": "json", "jsonl": "jsonl", "sarif": "sarif", "junit": "xml", "github": "log", "markdown": "md"}


class Fix(NamedTuple):
    line: int | None
    path: str
    message: str


CHANGES = (Fix(1, "", "byte order mark removed"), Fix(7, "records[0].id", "trimmed"))
FIXED = ReportSettings(version="9.9.9", fixed_source="odd.json", fixed_copy="fixed.json", changes=CHANGES)


def shown(name: str, *reports: ValidationReport, settings: ReportSettings = PLAIN) -> str:
    return "".join(FORMATS[name](reports, settings))


def sarif_results(text: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads(text)["runs"][0]["results"]
    return results


def issues_like(count: int, **fields: Any) -> ValidationReport:
    issues = [
        Issue(**{"code": "string_too_long", "message": "too long", "path": f"records[{n}].x", "index": n, "line": n + 1, **fields})
        for n in range(count)
    ]
    return ValidationReport(
        path="many.json", contract="batch_v1", outcome="rejected", counts=RecordCounts(count, 0, count), issues=issues
    )


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_matches_its_snapshot(
    name: str, snapshot: Snapshot, clean: ValidationReport, broken: ValidationReport, conversation: ValidationReport
) -> None:
    snapshot(f"reports.{SUFFIXES[name]}", shown(name, clean, broken, conversation))


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_matches_its_snapshot(name: str, snapshot: Snapshot, hostile: ValidationReport) -> None:
    snapshot(f"hostile.{SUFFIXES[name]}", shown(name, hostile))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_lists_the_fixes(name: str, snapshot: Snapshot, clean: ValidationReport) -> None:
    snapshot(f"fixes.{SUFFIXES[name]}", shown(name, clean, settings=FIXED))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_utf8_form_whatever_the_text(name: str, hostile: ValidationReport) -> None:
    assert shown(name, hostile).encode("utf-8", "strict")


@pytest.mark.parametrize("name", ["text", "github", "markdown", "junit"])
def test_no_control_or_override_character_reaches_a_terminal_or_log(name: str, hostile: ValidationReport) -> None:
    assert re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown(name, hostile)) == []


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


def test_json_has_the_documented_shape(clean: ValidationReport, broken: ValidationReport) -> None:
    document = json.loads(shown("json", clean, broken))
    assert list(document) == ["assay_version", "files"]
    assert document["files"] == [clean.to_dict(), broken.to_dict()]


def test_json_is_one_document_even_without_files() -> None:
    assert json.loads(shown("json")) == {"assay_version": "9.9.9", "files": []}


def test_json_carries_http_status_and_error_code_of_a_rejected_batch(broken: ValidationReport) -> None:
    first = json.loads(shown("json", broken))["files"][0]["dataset_errors"][0]
    assert (first["http_status"], first["error_code"]) == (400, "invalid_request")


def test_json_replaces_lone_surrogates(hostile: ValidationReport) -> None:
    error = json.loads(shown("json", hostile))["files"][0]["record_errors"][0]
    assert "`tick` \ufffd %0A" in error["record_id"]


def test_a_limit_on_json_says_how_much_is_left_out() -> None:
    part = json.loads(shown("json", issues_like(5), settings=ReportSettings(version="9", max_issues=2)))["files"][0]
    assert (len(part["record_errors"]), part["omitted_issues"]) == (2, 3)


def test_json_lines_hold_one_issue_each_with_its_file(broken: ValidationReport, conversation: ValidationReport) -> None:
    lines = [json.loads(line) for line in shown("jsonl", broken, conversation).splitlines()]
    assert [line["file"] for line in lines] == ["data/broken.json"] * 15 + ["talk.yaml"] * 2
    assert {line["severity"] for line in lines} == {"error", "warning"}


def test_every_sarif_result_names_a_listed_rule_and_a_known_level(broken: ValidationReport, conversation: ValidationReport) -> None:
    run = json.loads(shown("sarif", broken, conversation))["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules)) == len(CODES) + 1
    assert {result["level"] for result in run["results"]} <= {"none", "note", "warning", "error"}
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [result["ruleId"] for result in run["results"]]


def test_sarif_regions_count_from_one_and_artifacts_are_relative(broken: ValidationReport) -> None:
    places = [result["locations"][0]["physicalLocation"] for result in sarif_results(shown("sarif", broken))]
    regions = [place["region"] for place in places if "region" in place]
    assert all(region["startLine"] >= 1 and region["startColumn"] >= 1 for region in regions)
    assert {place["artifactLocation"]["uri"] for place in places} == {"data/broken.json"}


def test_sarif_properties_hold_the_record_index(broken: ValidationReport) -> None:
    assert sarif_results(shown("sarif", broken))[1]["properties"]["index"] == 0


def test_sarif_quotes_unusual_file_names(hostile: ValidationReport) -> None:
    uri = sarif_results(shown("sarif", hostile))[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9%/._~-]+", uri)


def test_dataset_text_makes_no_link_in_sarif() -> None:
    report = issues_like(1, message="see [here](1)")
    assert sarif_results(shown("sarif", report))[0]["message"]["text"] == r"see \[here\](1)"


def test_junit_has_a_suite_per_file_and_a_case_per_failing_record(clean: ValidationReport, broken: ValidationReport) -> None:
    suites = ElementTree.fromstring(shown("junit", clean, broken)).findall("testsuite")
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in suites] == [
        ("data/clean.json", "1", "0"),
        ("data/broken.json", "14", "14"),
    ]
    assert len(suites[1].findall("testcase/failure")) == 14


def test_junit_keeps_hostile_text_as_text(hostile: ValidationReport) -> None:
    failure = ElementTree.fromstring(shown("junit", hostile)).findall("testsuite/testcase/failure")
    assert len(failure) == 1
    assert "<script>alert(1)</script> ]]> ::error::x" in (failure[0].text or "")


def test_junit_counts_warnings_as_failures_in_strict_runs(broken: ValidationReport) -> None:
    strict = ReportSettings(version="9", is_strict=True)
    warned = ValidationReport(path="w", contract="batch_v1", outcome="accepted", counts=broken.counts, issues=broken.warnings)
    suite = ElementTree.fromstring(shown("junit", warned, settings=strict))[0]
    assert suite.get("failures") == "1"


def test_github_commands_stay_on_one_line_each(hostile: ValidationReport) -> None:
    lines = shown("github", hostile).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("::error file=")


def test_github_properties_escape_commas_and_colons() -> None:
    report = issues_like(1)
    odd = ValidationReport(path="a,b:c%.json", contract="batch_v1", outcome="rejected", counts=report.counts, issues=report.issues)
    assert shown("github", odd).startswith("::error file=a%2Cb%3Ac%25.json,line=1,title=string_too_long::too long%0A")


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
