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


def rows(folder: Path, count: int) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({**ROW, "id": f"r{number}"}) + "\n" for number in range(count)))
    return path


def test_several_loops_over_the_cases_do_not_disturb_each_other(tmp_path: Path) -> None:
    report = validate(rows(tmp_path, 40))
    assert [(one.id, other.id) for one, other in zip(report.cases, report.cases, strict=True)] == [
        (f"r{n}", f"r{n}") for n in range(40)
    ]


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


def test_a_rejected_batch_has_no_cases() -> None:
    report = validate({**DOCUMENT, "dataset_id": 5}, "batch_v1")
    assert (report.outcome, list(report.cases)) == ("rejected", [])


def test_a_report_knows_what_the_document_says_of_itself() -> None:
    assert validate(DOCUMENT, "batch_v1").head == {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0"}


def test_nul_in_an_unknown_member_rejects_the_document() -> None:
    report = validate({**DOCUMENT, "note": "a\x00"}, "batch_v1")
    assert [(issue.code, issue.path) for issue in report.dataset_errors] == [("invalid_encoding", "note")]


def test_the_length_of_a_version_counts_after_normalisation() -> None:
    assert validate({**DOCUMENT, "dataset_version": "e\u0301" * 64}, "batch_v1").is_valid


@pytest.mark.parametrize("name", ["Prompt", "prompts", "promt"])
def test_a_misspelt_prompt_is_pointed_out(name: str) -> None:
    (issue,) = validate({**DOCUMENT, "records": [{**RECORD, "input": {name: "p"}}]}, "batch_v1").record_errors
    assert issue.hint == f"is it written as {name!r}?"


def test_an_unknown_field_has_a_hint_for_where_it_stands() -> None:
    record = {**RECORD, "note": 1, "tag": [], "expected": {"length": 5}}
    issues = validate({**DOCUMENT, "records": [record]}, "batch_v1").record_errors
    assert {issue.path: issue.hint for issue in issues} == {
        "records[0].note": "remove it, or move it into metadata",
        "records[0].tag": "did you mean 'tags'?",
        "records[0].expected.length": "remove it; known are max_latency_ms and required_criteria",
    }


def test_the_number_of_golden_cases_has_a_hint_for_either_side() -> None:
    cases = [{"id": f"c-{number}", "user_prompt": "p", "rubric": "Says what it is."} for number in range(21)]
    few, many = (validate({"version": "1.0.0", "cases": some}, "golden_v1").issues for some in (cases[:4], cases))
    assert (few[0].hint.split(",")[0], many[0].hint.split(",")[0]) == ("add cases", "split the file")


@pytest.mark.parametrize("version", ["release 7\tfinal", "spring\nsummer", "ação", " "])
def test_a_version_may_be_any_text(version: str) -> None:
    assert validate({**DOCUMENT, "dataset_version": version}, "batch_v1").is_valid


@pytest.mark.parametrize(
    ("member", "value", "codes"),
    [
        ("dataset_id", "é" * 129, ["string_too_long", "value_out_of_range"]),
        ("dataset_version", "\x07" * 65, ["string_too_long", "invalid_encoding"]),
    ],
)
def test_everything_that_is_wrong_with_a_member_of_the_document_is_told(member: str, value: str, codes: list[str]) -> None:
    report = validate({**DOCUMENT, member: value}, "batch_v1")
    assert [(issue.code, issue.path) for issue in report.dataset_errors] == [(code, member) for code in codes]


@pytest.mark.parametrize(
    "moment",
    [
        "2016-12-31T23:59:60Z",
        "2016-12-31T23:59:60.5+00:00",
        "2026-01-15T10:05:12.123456789Z",
        "2026-01-15t10:05:12z",
        "2026-01-15t10:05:12.5+00:00",
        "2016-12-31t23:59:60z",
    ],
)
def test_created_at_is_any_utc_time_of_rfc_3339(moment: str) -> None:
    assert validate({**DOCUMENT, "created_at": moment}, "batch_v1").is_valid


@pytest.mark.parametrize(
    "moment",
    ["2016-12-31T22:59:60Z", "2016-12-31T23:59:61Z", "2026-01-15T24:00:00Z", "2026-02-29T23:59:60Z", "2026-01-15t10:05:12+01:00"],
)
def test_created_at_is_no_time_that_does_not_exist(moment: str) -> None:
    report = validate({**DOCUMENT, "created_at": moment}, "batch_v1")
    assert [(issue.code, issue.path) for issue in report.dataset_errors] == [("value_out_of_range", "created_at")]


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


def test_null_is_no_list_of_turns() -> None:
    assert [issue.name for issue in validate(b"null", "conversation_v1").issues] == ["Invalid root type"]


def test_an_empty_message_needs_the_setting_that_allows_it() -> None:
    report = validate(
        [{"turn_id": 1, "speaker": "user", "message": ""}], "conversation_v1", config=ValidationConfig(min_message_length=0)
    )
    assert [issue.name for issue in report.issues] == ["Empty message"]


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


def test_a_case_keeps_the_fields_that_a_turn_has_beside_the_known_ones() -> None:
    turn = {"turn_id": 1, "speaker": "user", "message": "x", "timestamp": "t", "tool_output": None}
    [case] = validate([turn], "conversation_v1").cases
    assert (case.turns[0].extra, case.turns[0].has_tool_output) == ({"timestamp": "t"}, True)
