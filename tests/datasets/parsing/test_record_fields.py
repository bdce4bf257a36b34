"""Nulls that a table writes where a record has no value: read as absent where that is asked for, and removed by a fix."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import ValidationConfig, validate
from assay.api import fix, validate_with_hashes
from assay.conversation import AgentDataValidator

ROW: dict[str, Any] = {"schema_version": "legal_eval_v1", "id": "a", "dataset": "d", "prompt": "p"}
NULLS = dict.fromkeys(("context", "messages", "attachments", "metadata"))
TASKS = dict.fromkeys(("rubric", "reference_answers", "choices", "correct_choice_ids"))
ROWS = [
    {**ROW, **NULLS, **TASKS, "task_type": "reference_qa", "reference_answers": ["x"]},
    {**ROW, **NULLS, **TASKS, "id": "b", "task_type": "mcq", "choices": [{"id": "A", "text": "t"}, {"id": "B", "text": "u"}]}
    | {"correct_choice_ids": ["A"], "metadata": {"policy_id": None, "kept": None}},
    {**ROW, **NULLS, **TASKS, "id": "c", "task_type": "rubric_qa", "attachments": [{"path": "a.pdf", "kind": None, "title": None}]}
    | {"rubric": [{"id": "c1", "title": "Names the rule", "description": None, "weight": None}]},
]
BATCH = {
    "dataset_id": "d",
    "created_at": None,
    "dataset_version": "1",
    "schema_version": "1.0",
    "records": [
        {
            "record_id": "r1",
            "input": {"prompt": "p", "note": None},
            "reference": None,
            "tags": None,
            "expected": None,
            "metadata": None,
        },
        {"record_id": "r2", "input": {"prompt": "p"}, "reference": {"answer": None}}
        | {"expected": {"max_latency_ms": None, "required_criteria": None}, "metadata": {"kept": None}},
    ],
    "metadata": None,
}
CASES = [{"id": f"c{n}", "user_prompt": "Is it?", "rubric": "It says that it is.", "context": None, "tags": None} for n in range(5)]
GOLDEN = {"version": "1.0.0", "description": None, "cases": CASES}
TOOLS = dict.fromkeys(("tool_used", "tool_input", "tool_output", "confidence_score", "metadata"))
TURNS = [
    {"turn_id": 1, "speaker": "user", "message": "Hi", "assistant_reply": None, **TOOLS},
    {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Yes", "message": None, **TOOLS},
    {"turn_id": 3, "speaker": "assistant", "assistant_reply": "Yes", "message": None, **TOOLS}
    | {"tool_used": "look", "tool_input": {}, "tool_output": None},
]
LENIENT = ValidationConfig(null_as_absent=True)


def written(contract: str) -> bytes:
    if contract == "legal_eval_v1":
        return "\n".join(map(json.dumps, ROWS)).encode()
    return json.dumps({"batch_v1": BATCH, "golden_v1": GOLDEN, "conversation_v1": TURNS}[contract], indent=1).encode()


@pytest.mark.parametrize("contract", ["legal_eval_v1", "batch_v1", "golden_v1", "conversation_v1"])
def test_nulls_of_optional_fields_count_as_absent(contract: str) -> None:
    report = validate(written(contract), contract, null_as_absent=True)
    assert (report.outcome, report.issues) == ("accepted", ())
    assert validate(written(contract), contract, config=LENIENT).outcome == "accepted"


@pytest.mark.parametrize("contract", ["legal_eval_v1", "batch_v1"])
def test_without_the_setting_nulls_are_errors(contract: str) -> None:
    assert validate(written(contract), contract).outcome == "rejected"


@pytest.mark.parametrize("contract", ["legal_eval_v1", "batch_v1", "golden_v1", "conversation_v1"])
def test_the_same_records_without_nulls_have_the_same_cases_and_hashes(contract: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_bytes(written(contract))
    fixed = fix(source, target, contract)
    assert fixed.report.is_valid
    lenient = validate(source.read_bytes(), contract, null_as_absent=True)
    if contract == "golden_v1":
        assert [case.id for case in lenient.cases] == [case.id for case in validate(target.read_bytes(), contract).cases]
        return
    assert list(lenient.cases) == list(validate(target.read_bytes(), contract).cases)
    assert list(validate_with_hashes(source.read_bytes(), contract, config=LENIENT).hashes) == list(lenient.hashes)


@pytest.mark.parametrize("contract", ["legal_eval_v1", "batch_v1", "golden_v1", "conversation_v1"])
def test_a_fix_removes_nulls_of_optional_fields_and_no_others(contract: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_bytes(written(contract))
    changes = fix(source, target, contract).changes
    left = {"legal_eval_v1": 1, "batch_v1": 2, "golden_v1": 0, "conversation_v1": 1}[contract]
    assert target.read_bytes().count(b"null") == left
    assert len(changes) == written(contract).count(b"null") - left
    assert {change.message for change in changes} == {"removed the null of an optional field"}


def test_a_required_field_that_is_null_is_missing_or_of_a_wrong_type() -> None:
    row = {**ROWS[0], "reference_answers": None, "prompt": None}
    report = validate(json.dumps(row).encode(), "legal_eval_v1", null_as_absent=True)
    assert {(issue.code, issue.path) for issue in report.issues} == {
        ("missing_required_field", "reference_answers"),
        ("invalid_field_type", "prompt"),
    }


def test_the_validator_of_conversations_reads_nulls_as_absent_and_leaves_the_turns_alone() -> None:
    turns = json.loads(json.dumps(TURNS))
    result = AgentDataValidator(LENIENT).validate_data(turns)
    assert (result.is_valid, result.warnings, turns) == (True, [], TURNS)
