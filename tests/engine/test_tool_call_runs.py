"""Runs over records that expect tool calls: rules of the run file, given answers, judges, and what is wrong before a call."""

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.api import PlanProblems
from assay.grading.candidate import candidate_ask
from assay.grading.methods import assign
from tests.engine.run_settings import write_rows
from tests.grading.driving import SETTINGS, reference_case

TOOL = {"name": "book", "description": "Books.", "parameters": {"type": "object", "properties": {"train": {"type": "string"}}}}
CALL = {"name": "book", "arguments": {"train": "9:15", "city": "Wien"}}


def dataset(folder: Path, *references: dict[str, Any], **given: Any) -> Path:
    path = folder / "calls.json"
    records = [
        {"record_id": f"r{number}", "input": {"prompt": "Book it.", "tools": [TOOL], **given}, "reference": reference}
        for number, reference in enumerate(references)
    ]
    document = {"dataset_id": "calls", "dataset_version": "1", "schema_version": "1.0", "records": records}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def given_answers(folder: Path, *answers: list[dict[str, Any]]) -> str:
    rows = [
        {
            "example_id": f"r{number}",
            "candidate_name": "mine",
            "response_text": "",
            "tool_calls": [{"function": call} for call in calls],
        }
        for number, calls in enumerate(answers)
    ]
    return str(write_rows(folder / "answers.jsonl", *rows))


def run(folder: Path, path: Path, **options: Any) -> assay.Run:
    (result,) = assay.run(path, runs_dir=str(folder / "runs"), **options)
    return assay.open_run(result.run_dir)


def run_file(folder: Path, path: Path, **settings: Any) -> Path:
    file = folder / "run.json"
    file.write_text(json.dumps({"datasets": [path.name], "run": {"runs_dir": "runs"}, **settings}), encoding="utf-8")
    return file


def run_with(folder: Path, path: Path, tool_calls: dict[str, Any], *calls: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    answers = given_answers(folder, list(calls))
    file = run_file(folder, path, tool_calls=tool_calls, **settings)
    (result,) = assay.run(file, responses=answers)
    return list(assay.open_run(result.run_dir).predictions())


def test_given_calls_are_compared_without_a_judge(tmp_path: Path) -> None:
    path = dataset(tmp_path, {"tool_calls": [CALL]}, {"tool_calls": [CALL]}, {"tool_calls": []}, {"tool_calls": []})
    answers = given_answers(tmp_path, [CALL], [CALL | {"arguments": {"train": "9:15"}}], [], [CALL])
    done = run(tmp_path, path, responses=answers)
    assert [line["passed"] for line in done.predictions()] == [True, False, True, False]
    assert [line["tool_calls"]["verdicts"][0]["verdict"] for line in done.predictions() if line["tool_calls"]["verdicts"]] == [
        "correct",
        "wrong_arguments",
        "extra",
    ]
    counts = {"expected": 2, "scored": 2, "name_correct": 2, "arguments_correct": 1, "missing": 0, "extra": 1, "not_json": 0}
    assert counts.items() <= done.metrics["tool_calls"].items()


@pytest.mark.parametrize(
    ("tool_calls", "arguments", "passed"),
    [
        ({}, {"train": "9:15", "city": "wien"}, False),
        ({"rules": {"book": {"city": "case"}}}, {"train": "9:15", "city": "wien"}, True),
        ({"rules": {"*": {"*": "ignore"}}}, {}, True),
        ({"rules": {"book": {"city": {"any_of": ["Vienna"]}}}}, {"train": "9:15", "city": "Vienna"}, True),
    ],
)
def test_the_run_file_sets_rules(tmp_path: Path, tool_calls: dict[str, Any], arguments: dict[str, Any], *, passed: bool) -> None:
    (line,) = run_with(tmp_path, dataset(tmp_path, {"tool_calls": [CALL]}), tool_calls, CALL | {"arguments": arguments})
    assert line["passed"] is passed


def test_the_run_file_sets_how_calls_match_unless_the_record_does(tmp_path: Path) -> None:
    path = dataset(tmp_path, {"tool_calls": [CALL]}, {"tool_calls": [CALL], "tool_matching": "in_order"})
    answers = given_answers(tmp_path, [CALL, CALL], [CALL, CALL])
    (result,) = assay.run(run_file(tmp_path, path, tool_calls={"matching": "superset"}), responses=answers)
    assert [line["passed"] for line in assay.open_run(result.run_dir).predictions()] == [True, False]


def test_a_judge_is_asked_only_where_the_rest_of_the_call_is_right(tmp_path: Path) -> None:
    path = dataset(tmp_path, *[{"tool_calls": [CALL]}] * 3)
    calls = [
        CALL | {"arguments": {"train": train, "city": city}}
        for train, city in (("9:15", "Vienna"), ("9:45", "Vienna"), ("9:15", "Wien"))
    ]
    answers = given_answers(tmp_path, *([call] for call in calls))
    file = run_file(tmp_path, path, tool_calls={"rules": {"book": {"city": "judge"}}}, judges=["scripted/judge-any"])
    (result,) = assay.run(file, responses=answers)
    done = assay.open_run(result.run_dir)
    asked = [record for record in ("r0", "r1", "r2") if any(line["stage"] == "judge" for line in done.attempts(record))]
    assert asked == ["r0"]
    votes = [[score["criterion"] for score in line["evaluator_scores"] if score.get("judge")] for line in done.predictions()]
    assert votes == [["book.city of call 1"], [], []]


def test_a_rule_that_asks_a_judge_needs_one(tmp_path: Path) -> None:
    path = dataset(tmp_path, {"tool_calls": [CALL]})
    with pytest.raises(PlanProblems, match="cannot be graded without a judge"):
        run_with(tmp_path, path, {"rules": {"book": {"city": "judge"}}}, CALL)


@pytest.mark.parametrize(
    ("tool_calls", "problem"),
    [
        ({"matching": "sorted"}, "tool_calls.matching"),
        ({"rules": {"book": {"city": "loose"}}}, "tool_calls.rules.book.city"),
        ({"rules": {"book": {"city": {"within": -1}}}}, "tool_calls.rules.book.city"),
        ({"rules": {"book": {"city": {"wihtin": 1}}}}, "within"),
        ({"rules": {"book": {"city": {}}}}, "a rule is a word, or has one of"),
        ({"rules": {"book": {"city": {"bfcl": {}}}}}, "bfcl"),
    ],
)
def test_a_bad_rule_is_refused_with_its_place(tmp_path: Path, tool_calls: dict[str, Any], problem: str) -> None:
    path = dataset(tmp_path, {"tool_calls": [CALL]})
    with pytest.raises(PlanProblems) as refused:
        run_with(tmp_path, path, tool_calls, CALL)
    assert any(problem in one for one in refused.value.problems), refused.value.problems


def test_what_is_wrong_with_the_tools_of_records_is_reported_before_the_run(tmp_path: Path) -> None:
    path = dataset(tmp_path, {"tool_calls": [{"name": "cook"}]}, {"tool_calls": [CALL], "tool_matching": "x"})
    with pytest.raises(PlanProblems) as refused:
        run(tmp_path, path, responses=given_answers(tmp_path, [], []))
    problems = "\n".join(refused.value.problems)
    assert "records[0]: record 'r0': reference.tool_calls[0]: the tool 'cook' is not one of input.tools: book" in problems
    assert "records[1]: record 'r1': reference.tool_matching must be one of" in problems


def test_the_candidate_gets_the_tools_and_not_the_expected_calls(tmp_path: Path) -> None:
    legal = {
        "schema_version": "legal_eval_v1", "id": "legal:1", "dataset": "law", "task_type": "reference_qa", "prompt": "Book it.",
        "reference_answers": ["Done."],
        "metadata": {"tools": [TOOL], "expected_tool_calls": [CALL | {"arguments": {"train": "SECRET"}}]},
    }  # fmt: skip
    batch = dataset(tmp_path, {"tool_calls": [CALL | {"arguments": {"train": "SECRET"}}]})
    for path in (batch, write_rows(tmp_path / "legal.jsonl", legal)):
        (line,) = run(tmp_path, path, model="scripted/echo").predictions()
        assert "- book: train (Books.)" in line["model_response"]
        assert "SECRET" not in line["model_response"]
        assert line["evaluator"] == "tool_calls/1"


@pytest.mark.parametrize("text", ["{", "[]", "x" * 1_000_000, json.dumps({"train": "x" * 1_000_000})])
def test_arguments_of_any_size_and_form_have_a_verdict(tmp_path: Path, text: str) -> None:
    path = dataset(tmp_path, {"tool_calls": [CALL]})
    done = run(tmp_path, path, responses=given_answers(tmp_path, [{"name": "book", "arguments": text}]))
    (line,) = done.predictions()
    assert (line["status"], line["passed"]) == ("evaluated", False)
    assert line["tool_calls"]["verdicts"][0]["verdict"] in ("not_json", "wrong_arguments")


def test_a_gate_and_slices_are_about_tool_calls(tmp_path: Path) -> None:
    path = dataset(tmp_path, {"tool_calls": [CALL]}, {"tool_calls": [CALL]})
    answers = given_answers(tmp_path, [CALL], [{"name": "cook", "arguments": {}}])
    done = run(tmp_path, path, responses=answers, min_tool_calls=0.9)
    (check,) = done.metrics["gate"]["gates"]
    assert check == {"name": "min_tool_calls", "threshold": 0.9, "value": 0.5, "met": False}
    by_slice = json.loads((Path(done.run_dir) / "metrics_by_slice.json").read_text(encoding="utf-8"))
    (sliced,) = by_slice["slices"]["dataset"]["values"]
    assert (sliced["tool_calls"]["expected"], sliced["tool_calls"]["arguments_correct"]) == (2, 1)


def test_tools_are_inferred_from_expected_calls_where_no_record_has_any(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    record = {"record_id": "r", "input": {"prompt": "Book it."}, "reference": {"tool_calls": [CALL]}}
    document = {"dataset_id": "calls", "dataset_version": "1", "schema_version": "1.0", "records": [record]}
    path.write_text(json.dumps(document), encoding="utf-8")
    (line,) = run(tmp_path, path, model="scripted/echo").predictions()
    assert "- book: city, train" in line["model_response"]
    assert "9:15" not in line["model_response"]


def test_an_endpoint_that_is_sent_all_metadata_gets_no_expected_calls() -> None:
    metadata = {"court": "OGH", "tools": [TOOL], "expected_tool_calls": [CALL], "tool_matching": "subset"}
    case = reference_case(metadata=metadata, expected_calls=())
    sent = candidate_ask(assign(case, SETTINGS)).record
    assert sent is not None
    assert sent.metadata == {"court": "OGH", "tools": [TOOL]}
