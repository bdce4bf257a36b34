"""What the first users of validation ran into, each as a claim that stays true."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import UsageProblem, ValidationConfig, api, validate
from assay.api.validation import PARALLEL_BYTES
from assay.conversation import AgentDataValidator

ROW = {
    "schema_version": "legal_eval_v1",
    "id": "r",
    "dataset": "d",
    "task_type": "reference_qa",
    "prompt": "p",
    "reference_answers": ["a"],
}
RECORD = {"record_id": "a", "input": {"prompt": "p"}}
DOCUMENT = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [RECORD]}
LONG = "x" * 70_000


@pytest.mark.parametrize(
    ("contract", "value"),
    [
        ("legal_eval_v1", {"context": LONG, **ROW}),
        ("legal_eval_v1", {**ROW, "cases": ["C-1/20"]}),
        ("legal_eval_v1", {"metadata": {"records": [1]}, "context": LONG, **ROW}),
        ("golden_v1", {"description": LONG, "version": "1.0.0", "cases": []}),
        ("golden_v1", {"version": "1.0.0", "dataset_id": "d", "cases": []}),
        ("batch_v1", {"licence": LONG, **DOCUMENT}),
        ("batch_v1", {"metadata": {"task_type": "qa"}, **DOCUMENT}),
        ("conversation_v1", [{"message": LONG, "turn_id": 1, "speaker": "user"}]),
        ("conversation_v1", [{"turn_id": 1, "speaker": "user", "message": "m", "records": []}]),
    ],
)
def test_a_contract_is_recognised_by_the_members_of_its_first_object(contract: str, value: Any) -> None:
    assert validate(json.dumps(value).encode()).contract == contract


def test_a_large_document_without_records_is_judged_by_two_workers_too() -> None:
    report = validate(b'{"records": []}' + b" " * PARALLEL_BYTES, "batch_v1", workers=2)
    assert report.outcome == "rejected"


def test_an_unknown_field_has_a_hint_for_where_it_stands() -> None:
    record = {**RECORD, "note": 1, "tag": [], "expected": {"length": 5}}
    issues = validate({**DOCUMENT, "records": [record]}, "batch_v1").record_errors
    assert {issue.path: issue.hint for issue in issues} == {
        "records[0].note": "remove it, or move it into metadata",
        "records[0].tag": "did you mean 'tags'?",
        "records[0].expected.length": "remove it; known are max_latency_ms and required_criteria",
    }


@pytest.mark.parametrize(
    ("member", "code"), [("record_id", "invalid_field_type"), ("tags", "invalid_field_type"), ("score", "unsupported_field")]
)
@pytest.mark.parametrize("number", ["1e400", "9" * 4301], ids=["float", "digits"])
def test_a_number_that_does_not_fit_hides_no_other_error(member: str, code: str, number: str) -> None:
    text = json.dumps({**DOCUMENT, "records": [{**RECORD, member: "@"}]}).replace('"@"', number)
    found = {(issue.code, issue.path) for issue in validate(text.encode(), "batch_v1").record_errors}
    assert found == {("value_out_of_range", f"records[0].{member}"), (code, f"records[0].{member}")}


def test_every_text_that_is_not_in_nfc_is_named_where_that_is_refused() -> None:
    record = {**RECORD, "input": {"prompt": "e\u0301"}, "tags": ["ok", "A\u030a"], "metadata": {"e\u0301": 1}}
    document = {**DOCUMENT, "dataset_version": "e\u0301", "records": [record]}
    refused = validate(document, "batch_v1", config=ValidationConfig(nfc="reject"))
    paths = ["input.prompt", "tags[1]", "metadata.e\u0301"]
    assert [(issue.code, issue.path) for issue in refused.record_errors] == [
        ("invalid_encoding", f"records[0].{path}") for path in paths
    ]
    normalised = [issue.path for issue in validate(document, "batch_v1").warnings]
    assert normalised == ["dataset_version", "records[0].input.prompt"]


def test_a_number_that_does_not_fit_is_one_error() -> None:
    text = json.dumps(DOCUMENT).replace('"prompt": "p"}', '"prompt": "p"}, "expected": {"max_latency_ms": 1e400}')
    report = validate(text.encode(), "batch_v1")
    assert [issue.path for issue in report.record_errors] == ["records[0].expected.max_latency_ms"]


@pytest.mark.parametrize("record", [{"metadata": {"é": "keep", "e\u0301": "other"}}, {"reference_": {"answer": "x"}}])
def test_a_fix_leaves_what_only_a_person_can_decide(tmp_path: Path, record: dict[str, Any]) -> None:
    source = tmp_path / "batch.json"
    source.write_text(json.dumps({**DOCUMENT, "records": [RECORD, {**RECORD, "record_id": "b", **record}]}))
    fixed = api.fix(source, tmp_path / "fixed.json")
    assert (fixed.changes, (tmp_path / "fixed.json").read_bytes()) == ((), source.read_bytes())


def nested() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, {"a": nested()}, {"a": "\ud800"}])
def test_python_data_that_is_no_json_is_a_structure_error(value: dict[Any, Any]) -> None:
    result = AgentDataValidator().validate_data([{"turn_id": 1, "speaker": "user", "message": "x", "metadata": value}])
    assert {error.error_type.name for error in result.errors} == {"STRUCTURE_ERROR"}


@pytest.mark.parametrize("settings", [{"confidence_score_max": float("inf")}, {"max_message_length": 10**20}])
def test_a_bound_that_is_no_limit_is_a_usage_problem(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageProblem, match="out of range"):
        validate([], "conversation_v1", config=ValidationConfig(**settings))
