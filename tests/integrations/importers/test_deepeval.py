"""Goldens and test runs of DeepEval: written by the real tool, into datasets and runs."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integrations.importers.bringing import FIXTURES, brought, predictions_of, rows_of, run_of

PYTHON = os.environ.get("ASSAY_DEEPEVAL_PYTHON", "")
MEASURED = {entry["metric"]: entry for entry in json.loads((FIXTURES / "deepeval_test_run.json").read_text())["metricsScores"]}


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_goldens_become_questions_with_their_reference_and_context(form: str) -> None:
    rows = rows_of(f"deepeval_goldens.{form}")
    assert list(rows) == ["refund", "hours", "broken"]
    assert rows["refund"]["reference_answers"] == ["30 days"]
    assert rows["refund"]["context"] == "Returns: 30 days for all shoes."


@pytest.mark.parametrize("metric", ["Contains", "Brevity"])
def test_scores_passes_and_errors_are_those_that_deepeval_counted(metric: str) -> None:
    result = run_of("deepeval_test_run.json", options=("--scorer", metric)).result
    measured = MEASURED[metric]
    assert result.metrics["score_mean"] == pytest.approx(sum(measured["scores"]) / len(measured["scores"]))
    assert (result.metrics["pass_count"], result.metrics["fail_count"]) == (measured["passes"], measured["fails"])
    assert result.counts.failed_records == measured["errors"]


def test_a_metric_that_failed_is_no_score() -> None:
    line = predictions_of(run_of("deepeval_test_run.json"))["broken", 0]
    assert (line["score"], line["error_code"]) == (None, "not_scored")
    assert line["error_message"] == "RuntimeError: the metric is broken"
    assert line["model_response"] == "Yes."


def test_what_was_retrieved_for_an_answer_is_not_part_of_the_question() -> None:
    report = brought("deepeval_test_run.json")["report"]
    assert report["left_out"]["case.retrieval_context"] == 1


def test_test_cases_without_metrics_give_answers_to_be_graded_here() -> None:
    cases = [{"input": "Is it?", "actual_output": "It is.", "expected_output": "Yes"}]
    Path("cases.json").write_text(json.dumps(cases))
    report = brought(Path("cases.json").absolute(), options=("--responses", "answers.jsonl", "-o", "rows.jsonl"))["report"]
    answer = json.loads(Path("answers.jsonl").read_text())
    assert report["candidates"] == {"cases": 1}
    assert (answer["candidate_name"], answer["response_text"]) == ("cases", "It is.")


def test_two_questions_of_one_name_stay_apart() -> None:
    cases = [{"name": "same", "input": "One?", "expected_output": "1"}, {"name": "same", "input": "Two?", "expected_output": "2"}]
    Path("cases.json").write_text(json.dumps(cases))
    rows = rows_of(Path("cases.json").absolute())
    assert [row["prompt"] for row in rows.values()] == ["One?", "Two?"]


def test_a_conversation_is_refused_with_the_reason() -> None:
    Path("turns.json").write_text(json.dumps([{"turns": [{"role": "user", "content": "Hello"}], "scenario": "greeting"}]))
    report = brought(Path("turns.json").absolute())["report"]
    assert report["totals"]["invalid"] == 1
    assert "conversational" in report["remarks"][0]["reason"]


@pytest.mark.skipif(not PYTHON, reason="ASSAY_DEEPEVAL_PYTHON names no interpreter that has deepeval")
def test_runs_that_deepeval_writes_now_are_read_like_those_of_the_fixtures(tmp_path: Path) -> None:
    subprocess.run([PYTHON, Path(__file__).parent / "make_deepeval.py", tmp_path], check=True, capture_output=True)
    assert run_of(tmp_path / "deepeval_test_run.json").result.metrics["pass_rate"] == 0.5
    assert len(rows_of(tmp_path / "deepeval_goldens.csv")) == 3
