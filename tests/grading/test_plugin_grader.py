"""Functions as graders: what they may return, what they may ask, and how they fail."""

import math
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.engine.planning.request import PlanProblems
from tests.engine.run_settings import mcq_row, write_golden, write_rows
from tests.plugins import functions
from tests.plugins.datasets import attempts, predictions, run_words
from tests.plugins.functions import last_word

GRADES = {
    "true": (True, 1.0, True, "0/1"),
    "false": (False, 0.0, False, "0/1"),
    "number": (0.75, 0.75, True, "0-1"),
    "whole number": (0, 0.0, False, "0-1"),
    "judgement": (assay.Judgement(score=0.4, passed=True, justification="close"), 0.4, True, "0-1"),
    "mapping": ({"score": 0.9, "passed": False, "label": "hallucinated_fact"}, 0.9, False, "0-1"),
}


@pytest.mark.parametrize(("said", "score", "passed", "scale"), GRADES.values(), ids=GRADES)
def test_a_grader_may_return(tmp_path: Path, said: Any, score: float, *, passed: bool, scale: str) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=last_word, grader=lambda *_: said))
    assert (line["score"], line["passed"], line["scale"]) == (score, passed, scale)


NO_GRADES = {
    "none": (None, "grader_no_result", "returned None"),
    "nan": (math.nan, "grader_invalid_result", "nan"),
    "infinity": (math.inf, "grader_invalid_result", "inf"),
    "above": (1.01, "grader_invalid_result", "1.01"),
    "below": (-0.1, "grader_invalid_result", "-0.1"),
    "text": ("0.5", "grader_invalid_result", "str"),
    "no score": ({"passed": True}, "grader_invalid_result", "score"),
    "unknown member": ({"score": 1, "grade": "A"}, "grader_invalid_result", "grade"),
    "bad criterion": (assay.Judgement(score=1, scores={"tone": 7}), "grader_invalid_result", "tone is 7"),
    "unknown label": ({"score": 0, "label": "meh"}, "grader_invalid_result", "meh"),
}


@pytest.mark.parametrize(("said", "code", "words_of_it"), NO_GRADES.values(), ids=NO_GRADES)
def test_a_grader_that_returns_no_grade_has_failed_without_a_score(tmp_path: Path, said: Any, code: str, words_of_it: str) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=last_word, grader=lambda *_: said))
    assert (line["status"], line["error_code"], line["score"]) == ("evaluation_error", code, None)
    assert words_of_it in line["error_message"]
    assert line["model_response"] == "word0"


def test_a_grader_that_raises_fails_the_record_with_its_place(tmp_path: Path) -> None:
    result = run_words(tmp_path, 2, model=last_word, grader=lambda record, _: 1 / int(record.id[-1]))
    first, second = predictions(result)
    assert (first["error_code"], first["score"], second["score"]) == ("grader_error", None, 1)
    assert "ZeroDivisionError: division by zero (test_plugin_grader.py:" in first["error_message"]


def test_a_grader_may_say_itself_why_it_cannot_grade(tmp_path: Path) -> None:
    def unsure(*_: Any) -> bool:
        raise assay.GradingFailure("no_reference", "nothing to compare with")

    (line,) = predictions(run_words(tmp_path, 1, model=last_word, grader=unsure))
    assert (line["error_code"], line["error_message"]) == ("no_reference", "nothing to compare with")


def test_criteria_justification_and_flags_of_a_judgement_are_kept(tmp_path: Path) -> None:
    said = assay.Judgement(score=0.2, justification="too short", scores={"tone": 0.1, "facts": 0.3}, flags=("draft",))
    (line,) = predictions(run_words(tmp_path, 1, model=last_word, grader=lambda *_: said))
    assert [(score["criterion"], score["score"]) for score in line["evaluator_scores"]] == [("tone", 0.1), ("facts", 0.3)]
    assert (line["justification"], line["flags"], line["label"]) == ("too short", ["draft"], "incorrect_answer")


def test_a_generator_asks_the_judge_and_returns_a_grade(tmp_path: Path) -> None:
    scores = iter(["0.25", "0.5"])
    result = run_words(tmp_path, 1, model=last_word, judge=lambda _: next(scores), grader=functions.by_judge)
    (line,) = predictions(result)
    assert (line["score"], line["justification"]) == (0.5, "0.25 and 0.5")
    assert [attempt["call_id"] for attempt in attempts(result)] == ["candidate", "judge:grader:1", "judge:grader:2"]


def test_a_generator_may_ask_side_by_side(tmp_path: Path) -> None:
    judged = run_words(
        tmp_path, 1, model=last_word, judge=lambda prompt: "0.2" if prompt == "low?" else "1", grader=functions.asks_side_by_side
    )
    assert predictions(judged)[0]["score"] == 0.6


def test_a_generator_without_a_judge_is_told_before_any_call(tmp_path: Path) -> None:
    with pytest.raises(PlanProblems, match="without a judge"):
        run_words(tmp_path, model=last_word, grader=functions.by_judge)


def test_a_generator_that_raises_or_asks_a_stranger_fails_the_record(tmp_path: Path) -> None:
    def stranger(*_: Any) -> Any:
        yield assay.ModelRequest(stage="judge", call_id="x", model="nobody", messages=(assay.Message("user", "hello"),))

    def raising(*_: Any) -> Any:
        yield "hello"
        raise KeyError("gone")

    lines = [
        predictions(run_words(tmp_path, 1, model=last_word, judge=last_word, grader=grader))[0] for grader in (stranger, raising)
    ]
    assert [line["error_code"] for line in lines] == ["grader_error", "grader_error"]
    assert "nobody" in lines[0]["error_message"]
    assert "KeyError: 'gone'" in lines[1]["error_message"]


def test_a_grader_replaces_the_way_of_any_contract(tmp_path: Path) -> None:
    golden, mcq = write_golden(tmp_path / "golden.json"), write_rows(tmp_path / "mcq.jsonl", mcq_row("q:1"))
    for dataset in (golden, mcq):
        (result,) = assay.run(dataset, model=last_word, grader=lambda *_: True, runs_dir=str(tmp_path / "runs"))
        assert (result.metrics["pass_rate"], result.gate.passed) == (1, True)
