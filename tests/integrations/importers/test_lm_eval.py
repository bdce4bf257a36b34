"""Samples of lm-eval: written by the real tool with its dummy model, into datasets and runs."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integrations.importers.bringing import FIXTURES, brought, predictions_of, rows_of, run_of

PYTHON = os.environ.get("ASSAY_LM_EVAL_PYTHON", "")
RESULTS = json.loads((FIXTURES / "lm_eval_results.json").read_text())
GENERATED, CHOSEN, AGGREGATED = "samples_tiny_generated.jsonl", "samples_tiny_chosen.jsonl", "lm_eval_results.json"


def sample(**members: object) -> str:
    first = json.loads((FIXTURES / GENERATED).read_text().splitlines()[0])
    return json.dumps({**first, **members}) + "\n"


def test_generated_samples_become_questions_with_a_reference() -> None:
    row = rows_of(GENERATED)["tiny_generated:2"]
    assert (row["prompt"], row["reference_answers"]) == ("Q: What is the capital of Peru?\nA:", ["Lima"])
    assert row["metadata"]["doc"]["answer"] == "Lima"


def test_likelihoods_become_multiple_choice() -> None:
    row = rows_of(CHOSEN)["tiny_chosen:1"]
    assert row["choices"] == [{"id": "A", "text": "green"}, {"id": "B", "text": "seven"}]
    assert row["correct_choice_ids"] == ["B"]


@pytest.mark.parametrize(
    ("samples", "task", "metric"), [(GENERATED, "tiny_generated", "exact_match"), (CHOSEN, "tiny_chosen", "acc")]
)
def test_the_mean_of_a_run_is_the_metric_that_lm_eval_computed(samples: str, task: str, metric: str) -> None:
    run = run_of(samples, AGGREGATED, options=("--scorer", metric))
    assert run.result.metrics["score_mean"] == pytest.approx(RESULTS["results"][task][f"{metric},none"])
    assert run.result.candidate == RESULTS["model_name"] == "tiny-dummy"
    assert run.plan.imported.version == RESULTS["lm_eval_version"]


def test_the_answer_to_multiple_choice_is_the_likeliest_choice() -> None:
    lines = predictions_of(run_of(CHOSEN, AGGREGATED)).values()
    right = [line["selected_choice_ids"] for line in lines if line["passed"]]
    assert [line["score"] for line in lines].count(1.0) == len(right) == 1
    assert {line["model_response"] for line in lines} <= {"green", "seven", "Rhine", "Monday"}


def test_a_sample_without_the_metric_has_no_score() -> None:
    Path("samples_tiny.jsonl").write_text(sample() + sample(doc_id=1, exact_match=None) + sample(doc_id=2, exact_match=[1, 2]))
    lines = predictions_of(run_of(Path("samples_tiny.jsonl").absolute()))
    assert [lines[f"tiny:{number}", 0]["score"] for number in range(3)] == [0.0, None, None]


def test_filters_of_one_answer_are_scorers_beside_each_other() -> None:
    Path("samples_tiny.jsonl").write_text(sample(filter="strict") + sample(filter="flexible", exact_match=1.0))
    path = Path("samples_tiny.jsonl").absolute()
    strict, flexible = (run_of(path, options=("--scorer", f"exact_match,{name}")).result for name in ("strict", "flexible"))
    assert (strict.metrics["score_mean"], flexible.metrics["score_mean"]) == (0.0, 1.0)
    assert strict.counts.total_records == 1


def test_samples_of_older_versions_are_read() -> None:
    Path("samples_tiny.jsonl").write_text(sample(arguments=[["Q: older?", {"until": ["\n"]}]]))
    assert rows_of(Path("samples_tiny.jsonl").absolute())["tiny:0"]["prompt"] == "Q: older?"


def test_broken_samples_are_refused_one_by_one() -> None:
    Path("samples_tiny.jsonl").write_text(sample() + "{\n" + sample(doc_id="x") + sample(doc_id=3, arguments={}))
    report = brought(Path("samples_tiny.jsonl").absolute())["report"]
    assert report["totals"] == {"read": 4, "emitted": 1, "invalid": 3, "skipped": 0}
    assert [remark["line"] for remark in report["remarks"]] == [2, 3, 4]


@pytest.mark.skipif(not PYTHON, reason="ASSAY_LM_EVAL_PYTHON names no interpreter that has lm_eval")
def test_samples_that_lm_eval_writes_now_are_read_like_those_of_the_fixtures(tmp_path: Path) -> None:
    subprocess.run([PYTHON, Path(__file__).parent / "make_lm_eval.py", tmp_path], check=True, capture_output=True)
    computed = json.loads((tmp_path / AGGREGATED).read_text())["results"]["tiny_chosen"]["acc,none"]
    assert run_of(tmp_path / CHOSEN, tmp_path / AGGREGATED).result.metrics["score_mean"] == pytest.approx(computed)
