"""Hints of wrong types: what is expected, as it would be written there."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from assay import validate
from assay.core.issue import Issue
from assay.testing import example_dataset

CASE = '{"id": "case-001", "user_prompt": "...", "rubric": "..."}'
RECORD = '{"record_id": "q-1", "input": {"prompt": "..."}}'
RUBRIC = {"schema_version": "legal_eval_v1", "id": "r1", "dataset": "law", "task_type": "rubric_qa", "prompt": "Advise."}
TURNS = [{"turn_id": 1, "speaker": "user", "message": "Hello there"}]
QUOTES = 'put it in quotes: "7"'
LISTED = "put it into a list, also where it is the only one"
ABSENT = "leave the field out instead of writing null"


def issue_of(folder: Path, contract: str, value: Any, *, code: str = "invalid_field_type") -> Issue:
    """The one issue of a code, that of a wrong type, in a document of a contract."""
    source = folder / ("data.jsonl" if contract == "legal_eval_v1" else "data.json")
    source.write_text(json.dumps(value), encoding="utf-8")
    (issue,) = [issue for issue in validate(source, contract=contract).issues if issue.code == code]
    return issue


def changed(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of the document with another value at the path."""
    if not path:
        return value
    document = copy.deepcopy(document)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ((), [], 'write it like {"version": "1.0.0", "cases": [...]}'),
        (("version",), 1.0, 'write it like "1.0.0"'),
        (("version",), None, 'write it like "1.0.0"'),
        (("cases",), {}, f"write it like [{CASE}, ...]"),
        (("cases", 0), "What is 2+2?", f"write it like {CASE}"),
        (("cases", 0, "id"), 7, QUOTES),
        (("cases", 0, "id"), None, ""),
        (("cases", 0, "rubric"), ["Says 4 and nothing else."], "write the text itself, not a list with it"),
        (("cases", 0, "tags"), "maths", LISTED),
    ],
)
def test_a_wrong_type_in_golden_v1(tmp_path: Path, path: tuple[str | int, ...], value: Any, hint: str) -> None:
    document = changed(json.loads(example_dataset("golden_v1")), path, value)
    assert issue_of(tmp_path, "golden_v1", document).hint == hint


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        (("schema_version",), 1.0, 'write it like "1.0"'),
        (("records",), None, f"write it like [{RECORD}, ...]"),
        (("records", 0), "What is 2+2?", f"write it like {RECORD}"),
        (("records", 0, "record_id"), 7, QUOTES),
        (("records", 0, "record_id"), True, 'put it in quotes: "true"'),
        (("records", 0, "input"), "What is 2+2?", 'write it like {"prompt": "..."}'),
        (("records", 0, "input"), '{"prompt": "What is 2+2?"}', "write the value itself, not a text that holds it"),
        (("records", 0, "reference"), "4", 'write it like {"answer": "..."}'),
        (("records", 0, "reference"), None, ABSENT),
        (("records", 0, "tags"), [None], "leave it out instead of writing null"),
        (("records", 0, "expected"), {"max_latency_ms": "2000"}, "leave the quotes out"),
        (("records", 0, "expected"), {"max_latency_ms": 2000.0}, "leave the fraction out"),
        (("records", 0, "expected"), {"required_criteria": "accuracy"}, LISTED),
    ],
)
def test_a_wrong_type_in_batch_v1(tmp_path: Path, path: tuple[str | int, ...], value: Any, hint: str) -> None:
    document = changed(json.loads(example_dataset("batch_v1")), path, value)
    assert issue_of(tmp_path, "batch_v1", document).hint == hint


@pytest.mark.parametrize(
    ("members", "hint"),
    [
        ({"task_type": 1}, 'write it like "rubric_qa", "reference_qa" or "mcq"'),
        ({"rubric": "Says no."}, 'write it like [{"id": "c1", "title": "...", "weight": 1}, ...]'),
        ({"rubric": ["Says no."]}, 'write it like {"id": "c1", "title": "...", "weight": 1}'),
        ({"rubric": [{"id": "c1", "title": "Says no.", "weight": "2"}]}, "leave the quotes out"),
        ({"messages": "Advise."}, 'write it like [{"role": "user", "content": "..."}, ...]'),
        ({"attachments": ["a/b.pdf"]}, 'write it like {"path": "a/b.pdf"}'),
        ({"metadata": None}, ABSENT),
        (
            {"task_type": "mcq", "choices": {"A": "yes"}, "correct_choice_ids": ["A"]},
            'write it like [{"id": "A", "text": "..."}, ...]',
        ),
    ],
)
def test_a_wrong_type_in_legal_eval_v1(tmp_path: Path, members: dict[str, Any], hint: str) -> None:
    rubric = {} if "choices" in members else {"rubric": [{"id": "c1", "title": "Says no."}]}
    assert issue_of(tmp_path, "legal_eval_v1", {**RUBRIC, **rubric, **members}).hint == hint


def test_a_line_of_legal_eval_v1_that_is_no_object(tmp_path: Path) -> None:
    hint = 'write it like {"schema_version": "legal_eval_v1", ...}, one object on each line'
    assert issue_of(tmp_path, "legal_eval_v1", [RUBRIC]).hint == hint


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ((), {"turns": TURNS}, "write the turns as a list at the top of the file"),
        ((0,), "Hello there", 'write it like {"turn_id": 1, "speaker": "user", "message": "..."}'),
        ((0, "turn_id"), "1", "leave the quotes out"),
        ((0, "speaker"), None, 'write it like "user" or "assistant"'),
        ((0, "message"), None, ""),
        ((0, "assistant_reply"), None, ABSENT),
        ((0, "confidence_score"), "high", "write it like 0.9"),
        ((0, "tool_input"), '{"city": "Berlin"}', "write the value itself, not a text that holds it"),
        ((0, "tool_input"), None, 'write it like {"city": "Berlin"}, or {} for a tool without arguments'),
    ],
)
def test_a_wrong_type_in_conversation_v1(tmp_path: Path, path: tuple[str | int, ...], value: Any, hint: str) -> None:
    assert issue_of(tmp_path, "conversation_v1", changed(TURNS, path, value)).hint == hint


@pytest.mark.parametrize(
    ("contract", "row", "member", "unknown"),
    [
        ("golden_v1", json.loads(CASE), "cases", "rubric"),
        ("batch_v1", json.loads(RECORD), "records", "record_id"),
    ],
)
def test_one_record_as_a_file_is_told_where_it_belongs(contract: str, row: Any, member: str, unknown: str) -> None:
    word = member.removesuffix("s")
    hints = {issue.path: issue.hint for issue in validate(row, contract=contract).issues}
    assert hints[member].startswith(f"this is one {word}; a file has them in {member}: {{")
    assert hints[unknown] == f"it is a field of a {word}"


@pytest.mark.parametrize("filler", [0, 5 << 20])
@pytest.mark.parametrize(
    ("contract", "row", "member"), [("golden_v1", json.loads(CASE), "cases"), ("batch_v1", json.loads(RECORD), "records")]
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


@pytest.mark.parametrize(("member", "hint"), [("reviewer", "move it into metadata"), ("contxt", "did you mean 'context'?")])
def test_an_unknown_field_of_legal_eval_v1(tmp_path: Path, member: str, hint: str) -> None:
    row = {**RUBRIC, "rubric": [{"id": "c1", "title": "Says no."}], member: "x"}
    assert issue_of(tmp_path, "legal_eval_v1", row, code="unsupported_field").hint == hint


@pytest.mark.parametrize(
    ("value", "hint"), [(None, "set null_as_absent: true if an export wrote nulls"), ([], "remove it or change task_type")]
)
def test_a_field_of_another_task_type_says_how_it_goes(tmp_path: Path, value: Any, hint: str) -> None:
    row = {**RUBRIC, "rubric": [{"id": "a", "title": "A"}], "choices": value}
    assert issue_of(tmp_path, "legal_eval_v1", row, code="unsupported_field").hint == hint
