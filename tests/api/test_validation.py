"""The door: what `assay.validate`, `assay.stream` and `assay.api` take, give and refuse."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import Case, Issue, UsageProblem, ValidationConfig, stream, validate
from assay.api import fix
from tests.conftest import Put

RECORD: dict[str, Any] = {"record_id": "r", "input": {"prompt": "p"}}
BATCH: dict[str, Any] = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [RECORD]}
ROW: dict[str, Any] = {
    "schema_version": "legal_eval_v1",
    "id": "a",
    "dataset": "d",
    "task_type": "reference_qa",
    "prompt": "p",
    "reference_answers": ["x"],
}
GOLDEN: dict[str, Any] = {
    "version": "1.0.0",
    "cases": [{"id": f"c-{number}", "user_prompt": "p", "rubric": "Names the city."} for number in range(5)],
}
TURNS: list[dict[str, Any]] = [{"turn_id": 1, "speaker": "user", "message": "hi"}]


@pytest.mark.parametrize(
    ("value", "contract"),
    [
        (BATCH, "batch_v1"),
        (ROW, "legal_eval_v1"),
        ([ROW, {**ROW, "id": "b"}], "legal_eval_v1"),
        (GOLDEN, "golden_v1"),
        (TURNS, "conversation_v1"),
    ],
    ids=["document", "row", "rows", "golden", "turns"],
)
def test_a_python_object_is_validated_like_its_file(value: Any, contract: str) -> None:
    for name in ("auto", contract):
        report = validate(value, name)
        assert (report.path, report.contract, report.outcome, report.issues) == ("<object>", contract, "accepted", ())


def test_issues_of_an_object_have_paths_but_no_lines() -> None:
    report = validate({**BATCH, "records": [RECORD, {"record_id": "x", "input": {}}]})
    [issue] = report.issues
    assert (issue.path, issue.index, issue.line, issue.column, issue.excerpt) == ("records[1].input.prompt", 1, None, None, "")


def test_an_object_gives_the_cases_of_its_file(put: Put) -> None:
    from_object, from_file = validate(BATCH), validate(put("a.json", BATCH))
    assert list(from_object.cases) == list(from_file.cases)


@pytest.mark.parametrize("value", [{"a": {1, 2}}, [object()], {(1, 2): 3}, {"a": b"bytes"}], ids=["set", "object", "key", "bytes"])
def test_an_object_that_is_no_json_is_a_usage_problem(value: Any) -> None:
    with pytest.raises(UsageProblem, match="not JSON"):
        validate(value)


def test_an_object_that_contains_itself_is_a_usage_problem() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UsageProblem, match="not JSON"):
        validate(loop)


def test_nan_in_an_object_is_an_issue() -> None:
    report = validate([{**TURNS[0], "confidence_score": float("nan")}], "conversation_v1")
    assert not report.is_valid


def test_a_path_may_be_text_or_a_path(put: Put) -> None:
    path = put("a.json", GOLDEN)
    assert validate(path).to_dict() == validate(str(path)).to_dict()


@pytest.mark.parametrize("content", [b"", b" \n\n\t", b"\xef\xbb\xbf\n"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.jsonl").write_bytes(content)
    (issue,) = assay.validate(tmp_path / "data.jsonl").issues
    assert (issue.code, issue.message, issue.hint) == ("unknown_contract", "the file is empty", "a dataset has at least one record")


def test_an_unknown_contract_names_the_nearest_one() -> None:
    with pytest.raises(UsageProblem, match="unknown contract 'batch_v2'") as caught:
        validate(b"{}", "batch_v2")
    assert caught.value.hint == "did you mean 'batch_v1'?"


def test_content_of_no_contract_is_rejected_with_what_was_tried() -> None:
    report = validate(b'{"hello": "world"}')
    [issue] = report.issues
    assert (report.contract, report.outcome, issue.code) == (None, "rejected", "unknown_contract")
    assert all(contract in issue.message for contract in ("batch_v1", "golden_v1", "legal_eval_v1", "conversation_v1"))
    assert list(report.cases) == []


def test_a_forced_contract_says_what_is_missing() -> None:
    report = validate(b'{"hello": "world"}', "golden_v1")
    assert {issue.path for issue in report.dataset_errors} == {"version", "cases"}


def test_strict_turns_odd_habits_into_errors() -> None:
    turns = [{**TURNS[0], "mood": "calm"}]
    assert validate(turns).is_valid
    assert not validate(turns, strict=True).is_valid


def test_progress_is_told_and_ends_at_the_whole(put: Put) -> None:
    seen: list[tuple[int, int]] = []
    rows = b"\n".join(json.dumps({**ROW, "id": str(number), "context": "x" * 2000}).encode() for number in range(1000))
    validate(put("rows.jsonl", rows), progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1] == (len(rows), len(rows))


def test_a_file_over_several_lines_that_is_no_jsonl_has_no_cases() -> None:
    report = validate(b'[\n{"task_type": "mcq"},\n{"task_type": "mcq"}\n]\n', "legal_eval_v1")
    assert (report.outcome, list(report.cases)) == ("rejected", [])


def test_a_byte_order_mark_in_the_middle_of_a_file_is_reported_or_read() -> None:
    """Two files with marks, one after the other."""
    line = b"\xef\xbb\xbf" + json.dumps(ROW).encode()
    report = validate(line + b"\n" + line.replace(b'"a"', b'"b"') + b"\n", "legal_eval_v1")
    assert len(list(report.cases)) == report.counts.accepted_records


@pytest.mark.parametrize("weight", [10**400, -(10**4000)], ids=["large", "negative"])
def test_a_weight_that_no_float_holds_is_out_of_range(weight: int) -> None:
    row = {**ROW, "task_type": "rubric_qa", "rubric": [{"id": "c", "title": "t", "weight": weight}]}
    report = validate(json.dumps(row).encode(), "legal_eval_v1")
    assert [(issue.code, issue.path) for issue in report.record_errors] == [("value_out_of_range", "rubric[0].weight")]


# Streaming


def test_a_stream_gives_cases_and_issues_in_the_order_of_a_legal_file() -> None:
    rows = [ROW, {**ROW, "id": "b", "prompt": 1}, {**ROW, "id": "c"}]
    found = list(stream(b"\n".join(json.dumps(row).encode() for row in rows)))
    assert [case.id for case in found if isinstance(case, Case)] == ["a", "c"]
    assert [issue.path for issue in found if isinstance(issue, Issue)] == ["prompt"]


@pytest.mark.parametrize(
    "content",
    [
        b"\n".join(json.dumps(row).encode() for row in (ROW, ROW, {**ROW, "id": "b", "x": 1}, {"id": 5})),
        b"{broken\n" + json.dumps(ROW).encode(),
        b"[\n" + json.dumps(ROW).encode() + b"\n]",
        b"",
        b"\xff\n",
        json.dumps(BATCH).encode(),
        json.dumps({**BATCH, "records": [{}, RECORD, RECORD]}).encode(),
        json.dumps(GOLDEN).encode(),
        json.dumps(TURNS * 2).encode(),
        b"{}",
    ],
    ids=range(10),
)
def test_a_stream_finds_what_a_report_finds(content: bytes) -> None:
    contract = "legal_eval_v1" if validate(content).contract is None else "auto"
    report, found = validate(content, contract), list(stream(content, contract))
    issues = [issue for issue in found if isinstance(issue, Issue)]
    assert sorted(map(repr, issues)) == sorted(map(repr, report.issues))
    assert [case for case in found if isinstance(case, Case)] == list(report.cases)


def test_a_stream_begins_before_the_end_of_its_source(put: Put) -> None:
    rows = b"\n".join(json.dumps({**ROW, "id": str(number), "context": "x" * 5000}).encode() for number in range(2000))
    first = next(stream(put("rows.jsonl", rows)))
    assert isinstance(first, Case)
    assert first.id == "0"


def test_a_stream_takes_objects_and_settings() -> None:
    config = ValidationConfig(null_as_absent=True)
    assert [type(found) for found in stream([{**ROW, "choices": None}], config=config)] == [Case]


# Finding sources


# Settings


# Fixing


def test_fix_never_touches_its_source(put: Put) -> None:
    path = put("a.json", b"\xef\xbb\xbf" + json.dumps(TURNS).encode())
    before = path.read_bytes()
    with pytest.raises(UsageProblem, match="overwrite"):
        fix(path, path)
    assert path.read_bytes() == before


def test_fix_needs_a_contract(put: Put, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no contract"):
        fix(put("a.json", {"x": 1}), tmp_path / "b.json")


def test_fix_says_where_it_cannot_write(put: Put, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot write"):
        fix(put("a.json", TURNS), tmp_path / "no" / "folder" / "b.json")


# The package


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in assay.__all__ if getattr(assay, name, None) is None] == []


@pytest.mark.parametrize(("before", "now"), [("Ask", "ModelRequest"), ("Report", "ValidationReport")])
def test_a_public_name_from_before_still_works_and_warns(before: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"assay.{now}"):
        assert getattr(assay, before) is getattr(assay, now)


@pytest.mark.parametrize(
    ("before", "name", "now"),
    [
        ("assay.core.ask", "Ask", "assay.core.model_call.ModelRequest"),
        ("assay.core.ask", "Reply", "assay.core.model_call.Reply"),
        ("assay.core.ask", "Usage", "assay.core.model_call.Usage"),
        ("assay.metrics.power", "detectable_effect", "assay.metrics.paired.detectable_effect"),
        ("assay.metrics.power", "required_records", "assay.metrics.paired.required_records"),
        ("assay.metrics.ranking", "Comparisons", "assay.metrics.ranking.ComparisonCounts"),
    ],
)
def test_a_name_that_pages_showed_before_still_works_and_warns(before: str, name: str, now: str) -> None:
    module, _, current = now.rpartition(".")
    with pytest.warns(DeprecationWarning, match=f"{name} is now"):
        assert getattr(import_module(before), name) is getattr(import_module(module), current)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = import_module(before).no_such_name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = assay.no_such_name
