"""Plain functions as models and graders of a run."""

import json
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.engine.planning.request import PlanProblems
from tests.engine.run_settings import mcq_row, write_golden, write_rows
from tests.plugins import functions
from tests.plugins.datasets import attempts, predictions, question, run_words, words
from tests.plugins.functions import is_reference, last_word


def test_a_function_answers_and_a_function_grades(tmp_path: Path) -> None:
    result = run_words(tmp_path, model=last_word, grader=is_reference)
    assert result.state == "completed"
    assert result.metrics["pass_rate"] == 1
    assert result.candidate == "function/tests.plugins.functions:last_word"


def test_a_plain_function_runs_beside_the_event_loop(tmp_path: Path) -> None:
    functions.THREADS.clear()
    run_words(tmp_path, model=last_word, grader=is_reference)
    assert {"assay-function"} == functions.THREADS
    assert threading.main_thread().name not in functions.THREADS


def test_functions_that_block_run_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(5, timeout=60)
    result = run_words(tmp_path, 5, model=lambda _: str(together.wait()), grader=lambda *_: True)
    assert sorted(line["model_response"] for line in predictions(result)) == ["0", "1", "2", "3", "4"]


def test_an_async_function_and_one_that_takes_the_ask_answer_too(tmp_path: Path) -> None:
    slow = run_words(tmp_path, model=functions.slow_echo, grader=lambda record, answer: answer == record.prompt)
    asked = run_words(tmp_path, model=lambda ask: ask.call_id, grader=lambda _, answer: answer == "candidate")
    assert (slow.metrics["pass_rate"], asked.metrics["pass_rate"]) == (1, 1)


def test_a_reply_keeps_what_the_function_says_of_it(tmp_path: Path) -> None:
    told = assay.Reply(text="word0", finish_reason="length", model="tiny-1", flags=("truncated",))
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: told, grader=is_reference))
    assert (line["passed"], line["flags"], line["finish_reason"]) == (True, ["truncated"], "length")


def test_a_model_that_raises_is_a_failed_attempt_and_no_score(tmp_path: Path) -> None:
    def broken(_: Any) -> str:
        raise ValueError("no idea")

    result = run_words(tmp_path, 1, model=broken, grader=is_reference)
    (line,), (attempt,) = predictions(result), attempts(result)
    assert (line["status"], line["error_code"], line["score"]) == ("evaluation_error", "model_error", None)
    assert "ValueError: no idea (test_functions.py:" in line["error_message"]
    assert attempt["error_code"] == "model_error"


def test_a_model_that_cannot_connect_is_asked_again(tmp_path: Path) -> None:
    refused = iter([ConnectionRefusedError("nobody there")])

    def at_last(_: Any) -> str:
        for problem in refused:
            raise problem
        return "word0"

    result = run_words(tmp_path, 1, model=at_last, grader=is_reference, run_file=_impatient(tmp_path))
    assert [attempt["error_code"] for attempt in attempts(result)] == ["service_unavailable", None, None]
    assert result.metrics["pass_rate"] == 1


def test_a_model_that_says_how_it_fails_is_believed(tmp_path: Path) -> None:
    def filtered(_: Any) -> str:
        raise assay.ModelFailure("content_filtered", "we do not talk about that")

    (line,) = predictions(run_words(tmp_path, 1, model=filtered, grader=is_reference))
    assert (line["error_code"], line["error_message"]) == ("content_filtered", "we do not talk about that")


@pytest.mark.parametrize(("said", "code"), [(None, "invalid_reply"), (7, "invalid_reply"), (b"word0", "invalid_reply")])
def test_a_model_that_returns_no_text_has_failed(tmp_path: Path, said: Any, code: str) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: said, grader=is_reference))
    assert (line["error_code"], line["score"]) == (code, None)


def test_half_characters_and_nuls_of_a_model_are_replaced_and_flagged(tmp_path: Path) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: "a\ud800b\x00c", grader=lambda *_: True))
    assert (line["model_response"], line["flags"]) == ("a?b\ufffdc", ["replaced_characters"])


def test_a_model_that_wants_to_end_the_process_ends_only_its_attempt(tmp_path: Path) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: sys.exit("bye"), grader=is_reference))
    assert (line["error_code"], line["status"]) == ("model_error", "evaluation_error")


def test_a_function_that_never_returns_ends_in_a_timeout(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("retry: {max_attempts: 1}\nproviders: [{name: function, timeout: 0.05}]\n", encoding="utf-8")
    forever = threading.Event()
    (result,) = _run_file(run_file, words(tmp_path, 1), model=lambda _: forever.wait(), grader=is_reference)
    forever.set()
    assert [line["status"] for line in predictions(result)] == ["timeout"]


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
    assert "ZeroDivisionError: division by zero (test_functions.py:" in first["error_message"]


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


def test_given_answers_are_graded_by_a_function_without_any_model(tmp_path: Path) -> None:
    answers = write_rows(
        tmp_path / "a.jsonl", *({"example_id": f"q:{n}", "candidate_name": "c", "response_text": "word1"} for n in range(3))
    )
    result = run_words(tmp_path, responses=str(answers), grader=is_reference)
    assert [line["passed"] for line in predictions(result)] == [False, True, False]


def test_the_plan_names_the_code_and_the_hash_of_its_source(tmp_path: Path) -> None:
    result = run_words(tmp_path, model=last_word, grader=is_reference)
    plan = assay.open_run(result.run_dir).manifest["plan"]
    assert {plugin["kind"]: plugin["reference"] for plugin in plan["plugins"]} == {
        "grader": "tests.plugins.functions:is_reference",
        "model": "tests.plugins.functions:last_word",
    }
    assert all(len(plugin["source_sha256"]) == 64 for plugin in plan["plugins"])
    assert predictions(result)[0]["evaluator"].startswith("tests.plugins.functions:is_reference/")


def test_two_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    plan = api.plan_runs(api.RunRequest(datasets=(str(words(tmp_path)),), models=(lambda _: "a",), judges=(lambda _: "b",))).plans[
        0
    ]
    assert plan.candidate.name != plan.judges[0].name


def test_a_function_in_a_module_may_be_named(tmp_path: Path) -> None:
    named = run_words(tmp_path, model="function/tests.plugins.functions:last_word", grader="tests.plugins.functions:is_reference")
    assert named.metrics["pass_rate"] == 1


def test_a_function_in_a_file_may_be_named_from_the_run_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def grade(record, answer):\n    return 0.5\n", encoding="utf-8")
    run_file = tmp_path / "run.yaml"
    words(tmp_path, 1)
    run_file.write_text("datasets: [words.jsonl]\ncandidates: [scripted/echo]\ngrader: mine.py:grade\n", encoding="utf-8")
    (result,) = _run_file(run_file)
    assert [line["score"] for line in predictions(result)] == [0.5]


BAD_REFERENCES = {
    "no module": ("nowhere_at_all:grade", "there is no module 'nowhere_at_all'"),
    "no function": (
        "tests.plugins.functions:is_referenc",
        "there is no 'is_referenc' in 'tests.plugins.functions' (did you mean 'is_reference'?)",
    ),
    "no file": ("missing.py:grade", "there is no file 'missing.py'"),
    "no code": ("plain-name", "unknown grader 'plain-name'"),
}


@pytest.mark.parametrize(("reference", "why"), BAD_REFERENCES.values(), ids=BAD_REFERENCES)
def test_a_bad_reference_is_told_before_any_call(tmp_path: Path, reference: str, why: str) -> None:
    with pytest.raises(PlanProblems) as caught:
        run_words(tmp_path, model=last_word, grader=reference)
    assert why in caught.value.message


def test_a_grader_and_a_profile_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(PlanProblems, match="scores by its own rules"):
        run_words(tmp_path, model=last_word, grader=is_reference, profile="lexam_open")
    graded = run_words(tmp_path, model=last_word, grader=is_reference)
    with pytest.raises(UsageProblem, match="graded by a grader of its own"):
        api.rescore(graded.run_id, profile="lexam_open", runs_dir=str(tmp_path / "runs"))


def test_functions_are_no_matter_of_the_cache(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("cache: {enabled: true}\n", encoding="utf-8")
    dataset = words(tmp_path, 1)
    (before,) = _run_file(run_file, dataset, model=lambda _: "first", grader=is_reference)
    (after,) = _run_file(run_file, dataset, model=lambda _: "second", grader=is_reference)
    assert [predictions(run)[0]["model_response"] for run in (before, after)] == ["first", "second"]


def test_answers_of_functions_may_be_asked_for_several_times(tmp_path: Path) -> None:
    numbers = iter(range(10))
    result = run_words(tmp_path, 1, model=lambda _: str(next(numbers)), grader=lambda _, answer: answer == "1", repeat=3)
    assert sorted(line["model_response"] for line in predictions(result)) == ["0", "1", "2"]


def test_a_function_of_the_main_module_runs_from_a_script(tmp_path: Path) -> None:
    script = tmp_path / "evaluate.py"
    script.write_text(
        "import assay\n"
        "def answer(prompt):\n    return prompt.split()[-1]\n"
        "def grade(record, answer):\n    return answer in record.references\n"
        f"print(assay.run({str(words(tmp_path))!r}, model=answer, grader=grade)[0].metrics['pass_rate'])\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "1.0\n"


def test_records_name_the_question_of_a_function_that_is_asked_with_a_system_prompt(tmp_path: Path) -> None:
    heard: list[Any] = []
    dataset = write_rows(
        tmp_path / "one.jsonl",
        question(1, messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]),
    )
    assay.run(dataset, model=lambda messages: heard.extend(messages) or "Hi", grader=is_reference, runs_dir=str(tmp_path / "runs"))
    assert heard == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def _impatient(folder: Path) -> str:
    path = folder / "quick.yaml"
    path.write_text("retry: {base_delay: 0.0}\n", encoding="utf-8")
    return str(path)


def _run_file(run_file: Path, *datasets: Path, **options: Any) -> tuple[assay.RunResult, ...]:
    named = {"models": (options.pop("model"),)} if "model" in options else {}
    request = api.RunRequest(
        run_file=str(run_file), datasets=tuple(map(str, datasets)), runs_dir=str(run_file.parent / "runs"), **named, **options
    )
    return api.run(request)


def test_parameters_for_a_function_are_refused_rather_than_dropped(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    candidate = "{model: 'function/tests.plugins.functions:last_word', temperature: 0.7}"
    run_file.write_text(f"candidates: [{candidate}]\ngrader: tests.plugins.functions:is_reference\n", encoding="utf-8")
    with pytest.raises(PlanProblems, match="is a function, which gets no parameters"):
        _run_file(run_file, words(tmp_path))


def test_no_parameters_are_stated_that_a_function_never_got(tmp_path: Path) -> None:
    result = run_words(tmp_path, 1, model=last_word, grader=is_reference)
    manifest = assay.open_run(result.run_dir).manifest
    assert manifest["plan"]["candidate"]["parameters"] == {"temperature": None}
    assert (manifest["temperature"], manifest["max_new_tokens"]) == (None, None)


def test_a_golden_run_over_a_function_states_the_limit_of_its_contract_in_its_own_document_alone(tmp_path: Path) -> None:
    golden = write_golden(tmp_path / "golden.json")
    (result,) = assay.run(golden, model=last_word, judge="scripted/judge-5", runs_dir=str(tmp_path / "runs"))
    folder = Path(result.run_dir)
    parameters = json.loads((folder / "eval_results.json").read_bytes())["parameters"]
    assert (parameters["temperature"], parameters["max_tokens"]) == (None, 1_000_000)
    assert json.loads((folder / "run_manifest.json").read_bytes())["max_new_tokens"] is None


def test_usage_of_a_function_is_counted(tmp_path: Path) -> None:
    told = assay.Reply(text="word0", usage=assay.Usage(input_tokens=40, output_tokens=12))
    (attempt, *_) = attempts(run_words(tmp_path, 1, model=lambda _: told, grader=is_reference))
    assert (attempt["input_tokens"], attempt["output_tokens"]) == (40, 12)


def test_a_budget_over_functions_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanProblems, match=r"max_cost cannot be kept: the price of 'function/.*last_word' is not known"):
        run_words(tmp_path, model=last_word, grader=is_reference, max_cost=0.01)


def function_with_key(folder: Path) -> Path:
    """A run file whose function is said to use a key."""
    (folder / "mine.py").write_text(
        "import os\n\ndef answer(prompt):\n    raise ValueError('bad key ' + os.environ['MINE_KEY'])\n", encoding="utf-8"
    )
    run_file = folder / "run.yaml"
    run_file.write_text(
        "candidates: ['function/mine.py:answer']\ngrader: tests.plugins.functions:is_reference\n"
        "providers: [{name: function, key_variable: MINE_KEY}]\n",
        encoding="utf-8",
    )
    return run_file


def test_the_key_of_a_function_is_looked_for_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(PlanProblems, match="MINE_KEY with the key of provider 'function' is not set"):
        _run_file(function_with_key(tmp_path), words(tmp_path))


def test_the_key_of_a_function_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE_KEY", "plain-words-of-a-key")
    (result,) = _run_file(function_with_key(tmp_path), words(tmp_path))
    kept = [path for path in Path(result.run_dir).rglob("*") if path.is_file()]
    assert [path.name for path in kept if b"plain-words-of" in path.read_bytes()] == []
    assert b"mine.py:answer' raised ValueError: bad key" in (Path(result.run_dir) / "attempt_logs.jsonl").read_bytes()
