"""Code of others in a run: how it is named, found and told apart."""

from pathlib import Path

import pytest

import assay
from assay import api
from assay.engine.planning.request import PlanProblems
from tests.plugins.datasets import predictions, run_words, words
from tests.plugins.functions import is_reference, last_word
from tests.plugins.test_functions import _run_file


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
