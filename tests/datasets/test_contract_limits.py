"""Limits that take large inputs: they are made here, at the edge and one step beyond."""

import pytest

from assay import validate
from assay.core.contract import CONTRACTS
from assay.core.issue import MAX_LISTED
from tests.datasets.findings import batch


@pytest.mark.parametrize(("literal", "codes"), [("9" * 4300, []), ("9" * 4301, ["value_out_of_range"])])
def test_an_integer_has_up_to_4300_digits(literal: str, codes: list[str]) -> None:
    report = batch('{"record_id":"r","input":{"prompt":"p","n":' + literal + "}}")
    assert [issue.code for issue in report.record_errors] == codes


@pytest.mark.parametrize("contract", CONTRACTS)
def test_ten_thousand_unknown_fields_are_listed_and_the_others_counted(contract: str) -> None:
    fields = {f"field{number:05}": number for number in range(MAX_LISTED + 500)}
    report = validate([{**fields, "turn_id": 1}] if contract == "conversation_v1" else fields, contract)
    counts = report.issue_counts
    assert counts["unsupported_field", "error"] + counts["unsupported_field", "warning"] == MAX_LISTED + 500
    assert sum(issue.code == "unsupported_field" for issue in report.issues) <= MAX_LISTED
    assert report.to_dict()["omitted_issues"] == sum(report.unlisted.values()) >= 500
