"""Hints of wrong types: what is expected, as it would be written there."""

import json
from typing import Any

import pytest

from assay import validate
from assay.core.issue import Finding, Guess
from assay.datasets.parsing.checks import MAX_FILE_GUESSES, FindingList, HintWriter
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


def test_a_file_has_a_limited_number_of_guesses_at_names() -> None:
    """A guess costs as much as the checks of a whole record, and a small file may hold a million names."""
    hints = HintWriter()
    given = [
        hints.hint(Finding("unsupported_field", ("x",), "", "move it", guess=Guess(f"promt{number}", ("prompt",))))
        for number in range(MAX_FILE_GUESSES + 5)
    ]
    assert given == ["did you mean 'prompt'?"] * MAX_FILE_GUESSES + ["move it"] * 5
    # A name that was compared before costs nothing.
    assert hints.hint(Finding("unsupported_field", ("x",), "", guess=Guess("promt7", ("prompt",)))) == "did you mean 'prompt'?"


def test_a_file_with_many_misspelt_names_names_the_first_ones() -> None:
    rows = "".join(f'{{"promt{number}": 1}}\n' for number in range(MAX_FILE_GUESSES + 500))
    issues = [issue for issue in validate(rows.encode(), "legal_eval_v1").warnings if issue.code == "unsupported_field"]
    guessed = [issue.hint == "did you mean 'prompt'?" for issue in issues]
    assert all(guessed[:100])
    assert not any(guessed[MAX_FILE_GUESSES:])


def test_errors_that_are_only_counted_are_errors() -> None:
    found = FindingList(lists_errors=False)
    found.warn("unsupported_field", ("x",), "")
    assert not found.has_errors
    found.missing(("id",), members=("idd",), known=("id",))
    found.wrong_type(("prompt",), "a string", 1)
    assert found.has_errors
    assert len(found) == 1
    assert found.unlisted == {("missing_required_field", "error"): 1, ("invalid_field_type", "error"): 1}
