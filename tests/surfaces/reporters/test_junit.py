"""Reports as JUnit XML."""

import xml.etree.ElementTree as ElementTree

from assay.core.report import ValidationReport
from assay.surfaces.reporters.formats import ReportSettings
from tests.surfaces.reporters.test_formats import shown


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
