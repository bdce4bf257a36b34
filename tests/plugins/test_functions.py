"""Plain functions as models and graders of a run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.engine.planning.request import PlanProblems
from tests.engine.run_settings import write_golden, write_rows
from tests.plugins.datasets import attempts, predictions, question, run_words, words
from tests.plugins.functions import is_reference, last_word


def test_given_answers_are_graded_by_a_function_without_any_model(tmp_path: Path) -> None:
    answers = write_rows(
        tmp_path / "a.jsonl", *({"example_id": f"q:{n}", "candidate_name": "c", "response_text": "word1"} for n in range(3))
    )
    result = run_words(tmp_path, responses=str(answers), grader=is_reference)
    assert [line["passed"] for line in predictions(result)] == [False, True, False]


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
