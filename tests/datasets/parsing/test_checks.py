"""Hints of wrong types: what is expected, as it would be written there."""

import json
from typing import Any

import pytest

from assay import validate
from assay.testing import example_dataset
from tests.datasets.findings import RECORD_TEXT

CASE = '{"id": "case-001", "user_prompt": "...", "rubric": "..."}'


@pytest.mark.parametrize(
    ("contract", "row", "member", "unknown"),
    [
        ("golden_v1", json.loads(CASE), "cases", "rubric"),
        ("batch_v1", json.loads(RECORD_TEXT), "records", "record_id"),
    ],
)
def test_one_record_as_a_file_is_told_where_it_belongs(contract: str, row: Any, member: str, unknown: str) -> None:
    word = member.removesuffix("s")
    hints = {issue.path: issue.hint for issue in validate(row, contract=contract).issues}
    assert hints[member].startswith(f"this is one {word}; a file has them in {member}: {{")
    assert hints[unknown] == f"it is a field of a {word}"


@pytest.mark.parametrize("filler", [0, 5 << 20])
@pytest.mark.parametrize(
    ("contract", "row", "member"), [("golden_v1", json.loads(CASE), "cases"), ("batch_v1", json.loads(RECORD_TEXT), "records")]
)
def test_lines_of_records_are_told_that_the_contract_is_one_document(contract: str, row: Any, member: str, filler: int) -> None:
    lines = "".join(f"{json.dumps({**row, 'filler': 'x' * filler})}\n" for _ in range(2))
    (issue,) = validate(lines.encode(), contract=contract).issues
    assert (issue.code, issue.line) == ("invalid_json", 2)
    assert issue.hint.startswith(f"{contract} is one JSON document: {{")
    assert f'"{member}": [...]' in issue.hint


@pytest.mark.parametrize(("contract", "member"), [("golden_v1", "version"), ("batch_v1", "dataset_id")])
def test_a_misspelt_member_of_the_document_is_named(contract: str, member: str) -> None:
    document = json.loads(example_dataset(contract))
    document[f"{member}x"] = document.pop(member)
    hints = {issue.path: issue.hint for issue in validate(document, contract=contract).issues}
    assert hints[member] == f"is it written as '{member}x'?"
