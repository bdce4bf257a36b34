"""Files of BFCL into records with expected calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.tools import tool_call
from assay.datasets import read
from assay.datasets.converters import convert_files
from assay.datasets.converters.bfcl import convert_bfcl_rows
from assay.datasets.converters.report import ConversionResult, RowSource
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.source import open_source
from assay.datasets.parsing.tool_members import batch_tools
from assay.grading.call_matching import TOLERATED, compare_calls

AREA: dict[str, Any] = {
    "name": "geometry.area",
    "description": "Area of a shape.",
    "parameters": {
        "type": "dict",
        "properties": {
            "sides": {"type": "array", "items": {"type": "float"}, "description": "Lengths."},
            "unit": {"type": "string", "default": "m", "enum": ["m", "cm"]},
        },
        "required": ["sides"],
    },
}
TIME: dict[str, Any] = {"name": "now", "description": "", "parameters": {"type": "dict", "properties": {}, "required": []}}


def question(row_id: str, *functions: dict[str, Any], text: object = "How large?") -> dict[str, Any]:
    return {"id": row_id, "question": [[{"role": "user", "content": text}]], "function": list(functions)}


def answer(row_id: str, *calls: object) -> dict[str, Any]:
    return {"id": row_id, "ground_truth": list(calls)}


def converted(questions: list[Any], answers: list[Any] | None = None) -> ConversionResult:
    sources = [RowSource("BFCL_v4_test.json", enumerate(questions, 1))]
    return convert_bfcl_rows([*sources, *([RowSource("answers.json", enumerate(answers, 1))] if answers is not None else [])])


def records(result: ConversionResult) -> list[Any]:
    assert result.document is not None
    found: list[Any] = result.document["records"]
    return found


def passes(record: dict[str, Any], *calls: tuple[str, dict[str, Any]]) -> bool:
    found = batch_tools(record)
    assert found.problems == ()
    assert isinstance(found.calls, tuple)
    made = [tool_call(name, given) for name, given in calls]
    matching = found.matching or "in_order"
    results = compare_calls(made, found.calls, matching=matching)
    return all(one.verdict in ("correct", *TOLERATED.get(matching, ())) for one in results.verdicts)


def reasons(result: ConversionResult) -> list[str]:
    return [remark.reason for remark in result.report.remarks]


def test_a_record_keeps_the_id_and_the_name_and_offers_json_schema() -> None:
    (record,) = records(
        converted([question("simple_python_0", AREA)], [answer("simple_python_0", {"geometry.area": {"sides": [[3, 4]]}})])
    )
    assert (record["record_id"], record["input"]["prompt"], record["tags"]) == ("simple_python_0", "How large?", ["simple_python"])
    (tool,) = record["input"]["tools"]
    assert tool["name"] == "geometry.area"
    assert tool["parameters"] == {
        "type": "object",
        "properties": {
            "sides": {"type": "array", "items": {"type": "number"}, "description": "Lengths."},
            "unit": {"type": "string", "default": "m", "enum": ["m", "cm"]},
        },
        "required": ["sides"],
    }


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        ({"sides": [3.0, 4.0]}, True),
        ({"sides": [3.0, 4.0], "unit": "M"}, True),
        ({"sides": [3.0, 4.0], "unit": "cm"}, False),
        ({"unit": "m"}, False),
        ({"sides": [3.0, 4.0], "color": "red"}, False),
    ],
)
def test_calls_are_compared_by_the_rules_of_the_benchmark(given: dict[str, Any], *, is_right: bool) -> None:
    possible = {"geometry.area": {"sides": [[3.0, 4.0]], "unit": ["m", ""]}}
    (record,) = records(converted([question("multiple_0", TIME, AREA)], [answer("multiple_0", possible)]))
    assert passes(record, ("geometry.area", given)) is is_right


def test_parallel_calls_come_in_any_order() -> None:
    calls = [{"geometry.area": {"sides": [[1.0]]}}, {"now": {}}]
    (record,) = records(converted([question("parallel_multiple_0", AREA, TIME)], [answer("parallel_multiple_0", *calls)]))
    assert passes(record, ("now", {}), ("geometry.area", {"sides": [1.0]}))
    assert not passes(record, ("now", {}))


def test_questions_without_a_fitting_tool_expect_no_call_and_need_no_answers() -> None:
    none, some = records(converted([question("irrelevance_0"), question("live_relevance_3-1-0", TIME)]))
    assert (none["input"]["tools"], none["reference"]) == ([], {"tool_calls": [], "tool_matching": "bfcl"})
    assert some["reference"] == {"tool_calls": [], "tool_matching": "any_call"}


def test_source_code_of_other_languages_is_a_text() -> None:
    function = {
        "name": "Set.add",
        "parameters": {"properties": {"n": {"type": "long", "description": "Number."}}, "required": ["n"]},
    }
    (record,) = records(converted([question("simple_java_0", function)], [answer("simple_java_0", {"Set.add": {"n": [5]}})]))
    schema = record["input"]["tools"][0]["parameters"]["properties"]["n"]
    assert schema == {"type": "string", "description": "Number. A value of the Java type long, as source code."}
    assert passes(record, ("Set.add", {"n": "5L"}))
    assert not passes(record, ("Set.add", {"n": "5"}))


def test_several_messages_are_a_conversation() -> None:
    row = question("irrelevance_1", TIME) | {
        "question": [
            [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "\bWhen?"}, {"role": "user", "content": " "}]
        ]
    }
    result = converted([row])
    (record,) = records(result)
    assert record["input"]["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " When?"}]
    assert reasons(result) == ["control characters become spaces, since the contract has none"] * 2


def test_several_turns_expect_all_their_calls() -> None:
    row = {"id": "multi_turn_base_0", "question": [[{"role": "user", "content": "One."}], [{"role": "user", "content": "Two."}]]}
    result = converted([row], [answer("multi_turn_base_0", ["cd(folder='a')", "sort('x')"], ["sort(file='y', desc=True)"])])
    (record,) = records(result)
    assert record["input"]["prompt"] == "(1) One.\n\n(2) Two."
    assert record["reference"]["tool_calls"][1] == {"name": "sort", "arguments": {"file": "x"}, "step": 1}
    done = ("cd", {"folder": "a"}), ("ls", {}), ("sort", {"file": "x"}), ("sort", {"file": "y", "desc": True})
    assert passes(record, *done)
    assert not passes(record, *done[:3])


@pytest.mark.parametrize(
    ("row", "answers", "reason"),
    [
        ({"question": "x"}, [], "the row has no id"),
        ({"id": "simple_0", "question": 5}, [], "question is not a list of turns but a number"),
        ({"id": "simple_0", "question": []}, [answer("simple_0", {"f": {}})], "the possible answer calls 'f'"),
        (question("simple_0", TIME), None, "it needs the file of possible answers"),
        (
            question("simple_0", TIME),
            [answer("simple_1", {"now": {}}), answer("simple_2", {"now": {}})],
            "there is no possible answer with its id",
        ),
        (question("simple_0", TIME), [answer("simple_0")], "ground_truth is not a list of calls"),
        (question("simple_0", TIME), [answer("simple_0", {"now": {"n": 5}})], "the possible values of 'n' are not a list"),
        (question("simple_0", TIME), [answer("simple_0", "import os")], "is not a call that can be read: import os"),
        (question("simple_0", {"description": "x"}), [answer("simple_0", {"f": {}})], "function is not a list of definitions"),
        (question("memory_0", TIME), [answer("memory_0", "x")], "the category 'memory' is not checked by comparing calls"),
        (question("irrelevance_0", TIME, text=None), None, "a message has the role 'user' and null"),
        (question("irrelevance_0", TIME, text=" "), None, "question has no message of a user"),
    ],
)
def test_a_row_that_cannot_be_converted_says_why(row: dict[str, Any], answers: list[Any] | None, reason: str) -> None:
    result = converted([row], answers)
    assert any(reason in one for one in reasons(result)), reasons(result)
    assert result.report.sources[0].invalid == 1


def test_older_files_pair_answers_by_position() -> None:
    result = converted([question("simple_7", TIME)], [answer("exec_0", {"now": {}})])
    assert len(records(result)) == 1


def test_an_answer_without_its_question_is_reported() -> None:
    rows = [question("simple_0", TIME), question("simple_0", TIME)]
    result = converted(rows, [answer("simple_0", {"now": {}}), answer("simple_9", {"now": {}}), answer("simple_0", {})])
    assert len(records(result)) == 1
    assert "1 possible answers have no question, such as that of 'simple_9'" in reasons(result)
    assert "the id 'simple_0' is used before" in reasons(result)


def test_the_document_is_a_valid_dataset(tmp_path: Path) -> None:
    questions, answers = tmp_path / "BFCL_v4_multiple.json", tmp_path / "answers.json"
    questions.write_text(json.dumps(question("multiple_0", AREA)), encoding="utf-8")
    answers.write_text(json.dumps(answer("multiple_0", {"geometry.area": {"sides": [[1.0]]}})), encoding="utf-8")
    result = convert_files("bfcl", [questions, answers])
    target = tmp_path / "out.json"
    target.write_bytes(b"".join(result.lines()))
    report = read(open_source(target), "batch_v1", config=ValidationConfig())
    assert (report.outcome, report.head["dataset_id"], report.head["dataset_version"]) == ("accepted", "BFCL_v4_multiple", "v4")
    assert next(iter(report.cases)).call_matching == "bfcl"
