"""Reports as SARIF, for code scanning."""

import json
import re
from typing import Any

from assay.core.issue import CODES
from assay.core.report import ValidationReport
from tests.surfaces.reporters.test_formats import shown
from tests.surfaces.reporters.test_text import issues_like


def sarif_results(text: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads(text)["runs"][0]["results"]
    return results


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
