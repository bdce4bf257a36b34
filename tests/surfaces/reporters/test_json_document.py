"""Reports as JSON, for strict readers."""

import json

from assay.core.report import ValidationReport
from assay.surfaces.reporters.formats import ReportSettings
from tests.surfaces.reporters.test_formats import shown
from tests.surfaces.reporters.test_text import issues_like


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
