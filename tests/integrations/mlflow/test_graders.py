"""Scorers of MLflow as graders of a run, and graders of assay as scorers of mlflow.genai.evaluate."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.integrations.mlflow import assay_scorer, mlflow_scorer
from assay.testing import StubProvider, StubReply, example_dataset
from tests.integrations.mlflow.serving import MlflowServer

# Pydantic and SQLAlchemy warn inside MLflow of what it still uses.
pytestmark = [pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def evaluating(mlflow: Any, server: MlflowServer) -> Iterator[Any]:
    """MLflow with the server as its store, and nothing in the background."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(server.uri)
    yield mlflow
    mlflow.set_tracking_uri(before)


def graded_by(folder: Path, grader: Any, **options: Any) -> list[dict[str, Any]]:
    """The predictions of a run over five sums whose answer is always 4."""
    (folder / "sums.json").write_bytes(example_dataset("batch_v1"))
    api.run(folder / "sums.json", model="scripted/say-4", grader=grader, run_id="r", runs_dir=str(folder / "runs"), **options)
    return list(map(msgspec.to_builtins, api.open_run("r", runs_dir=folder / "runs").predictions()))


def saying(mlflow: Any, what: Any) -> Any:
    """A scorer that says the same of every answer."""

    @mlflow.genai.scorers.scorer
    def parrot(outputs: str) -> Any:  # noqa: ARG001  # MLflow passes what the names say
        return what

    return parrot


def test_a_function_that_is_a_scorer_of_mlflow_grades_a_run(mlflow: Any, tmp_path: Path) -> None:
    @mlflow.genai.scorers.scorer
    def is_expected(outputs: str, expectations: dict[str, Any]) -> bool:
        return outputs == expectations["expected_response"]

    lines = graded_by(tmp_path, mlflow_scorer(is_expected))
    assert [line["passed"] for line in lines] == [True, False, False, False, True]
    assert {line["scale"] for line in lines} == {"0/1"}


def test_numbers_are_read_on_their_scale_and_keep_their_reason(mlflow: Any, tmp_path: Path) -> None:
    @mlflow.genai.scorers.scorer
    def points(inputs: dict[str, Any]) -> Any:
        return mlflow.entities.Feedback(value=4 if "2 + 2" in inputs["prompt"] else 2, rationale="Counted.")

    first, second, *_ = graded_by(tmp_path, mlflow_scorer(points, scale=(1, 5), pass_at=4))
    assert (first["score"], first["passed"], first["justification"]) == (0.75, True, "Counted.")
    assert (second["score"], second["passed"]) == (0.25, False)


def test_an_error_in_a_scorer_is_a_failed_record_and_never_a_score(mlflow: Any, tmp_path: Path) -> None:
    @mlflow.genai.scorers.scorer
    def broken(outputs: str) -> Any:
        raise ValueError(f"no opinion on {outputs}")

    line = graded_by(tmp_path, mlflow_scorer(broken))[0]
    assert (line["status"], line["score"], line["passed"]) == ("evaluation_error", None, None)
    assert "no opinion on 4" in line["error_message"]


@pytest.mark.parametrize("said", ["an error", "unknown", 7.5])
def test_what_is_no_score_fails_the_record(mlflow: Any, tmp_path: Path, said: Any) -> None:
    error = mlflow.entities.AssessmentError(error_code="OVERLOADED", error_message="try later")
    feedback = mlflow.entities.Feedback(name="judge", error=error) if said == "an error" else said
    line = graded_by(tmp_path, mlflow_scorer(saying(mlflow, feedback)))[0]
    assert (line["status"], line["score"]) == ("evaluation_error", None)


def test_several_feedbacks_are_criteria_and_pass_together(mlflow: Any, tmp_path: Path) -> None:
    both = [mlflow.entities.Feedback(name="brief", value=True), mlflow.entities.Feedback(name="kind", value=False)]
    line = graded_by(tmp_path, mlflow_scorer(saying(mlflow, both)))[0]
    assert (line["score"], line["passed"]) == (0.5, False)
    assert {score["criterion"]: score["score"] for score in line["evaluator_scores"]} == {"brief": 1.0, "kind": 0.0}


def test_feedbacks_of_one_name_are_all_shown(mlflow: Any, tmp_path: Path) -> None:
    both = [mlflow.entities.Feedback(name="kind", value=value) for value in (True, False)]
    line = graded_by(tmp_path, mlflow_scorer(saying(mlflow, both)))[0]
    scores = {score["criterion"]: score["score"] for score in line["evaluator_scores"]}
    assert (line["score"], scores) == (0.5, {"kind": 1.0, "kind 2": 0.0})


def test_a_scorer_of_what_a_run_does_not_have_is_refused(mlflow: Any) -> None:
    @mlflow.genai.scorers.scorer
    def spans(trace: Any) -> bool:  # noqa: ARG001  # MLflow passes what the names say
        return True

    with pytest.raises(UsageProblem, match="'spans' grades traces, which a run does not have"):
        mlflow_scorer(spans)


def test_a_judge_made_with_mlflow_grades_a_run(mlflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"role": "assistant", "content": json.dumps({"result": "yes", "rationale": "It is right."})}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini", "choices": [choice], "usage": usage}
    with StubProvider([StubReply(body=body)]) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_BASE", provider.base_url)
        # Where MLflow would look for prices.
        monkeypatch.setenv("MLFLOW_MODEL_CATALOG_URI", "")
        instructions = "Is {{ outputs }} the answer to {{ inputs }}?"
        judge = mlflow.genai.make_judge(name="right", instructions=instructions, model="openai:/gpt-4o-mini")
        line = graded_by(tmp_path, mlflow_scorer(judge), limit=1)[0]
    assert (line["passed"], line["justification"], len(provider.requests)) == (True, "It is right.", 1)


def test_what_is_no_scorer_is_refused() -> None:
    with pytest.raises(UsageProblem, match="is not a scorer of MLflow"):
        mlflow_scorer(len)


def test_an_assay_judge_grades_in_mlflow(evaluating: Any) -> None:
    rows = [
        {"inputs": {"question": "What is 2 + 2?"}, "outputs": "4", "expectations": {"expected_response": "4"}},
        {"inputs": {"question": "What is 3 + 4?"}, "outputs": "8", "expectations": {"guidelines": ["Says 7.", "Is brief."]}},
    ]
    evaluating.set_experiment("assay-scorer")
    result = evaluating.genai.evaluate(data=rows, scorers=[assay_scorer(judge="scripted/judge-5")])
    assert (result.metrics["assay/passed/mean"], result.metrics["assay/score/mean"]) == (1.0, 1.0)
    marks = [mark for assessments in result.result_df["assessments"] for mark in assessments]
    sources = {mark["source"]["source_id"] for mark in marks if mark["assessment_name"] == "assay/passed"}
    assert sources == {"scripted/judge-5"}


def test_an_answer_that_assay_cannot_grade_has_an_error_and_no_value_in_mlflow(mlflow: Any) -> None:  # noqa: ARG001  # skips without it
    scorer = assay_scorer(judge="scripted/say-hm", name="strict")
    (feedback,) = scorer(inputs={"prompt": "What is 2 + 2?"}, outputs="4", expectations={"expected_response": "4"})
    assert (feedback.value, feedback.error.error_code) == (None, "judge_parse_error")


@pytest.mark.parametrize("outputs", [None, float("nan"), {"choices": []}, {"choices": [{"message": {"content": None}}]}])
def test_an_answer_that_was_never_given_has_an_error_and_no_value_in_mlflow(mlflow: Any, outputs: Any) -> None:  # noqa: ARG001  # skips without it
    scorer = assay_scorer(judge="scripted/judge-5")
    (feedback,) = scorer(inputs={"prompt": "What is 2 + 2?"}, outputs=outputs, expectations={"expected_response": "4"})
    assert (feedback.name, feedback.value, feedback.error.error_code) == ("assay/passed", None, "no_answer")


def test_a_function_that_fails_in_mlflow_counts_as_no_score(evaluating: Any) -> None:
    def ask(question: str) -> str:
        return {"What is 2 + 2?": "4"}[question]

    rows = [
        {"inputs": {"question": f"What is 2 + {number}?"}, "expectations": {"expected_response": str(2 + number)}}
        for number in (2, 5)
    ]
    evaluating.set_experiment("assay-scorer-failures")
    result = evaluating.genai.evaluate(data=rows, predict_fn=ask, scorers=[assay_scorer(judge="scripted/judge-5")])
    found = [mark for assessments in result.result_df["assessments"] for mark in assessments]
    verdicts = [mark["feedback"].get("value") for mark in found if mark["assessment_name"] == "assay/passed"]
    assert sorted(map(str, verdicts)) == ["None", "True"]


def test_a_plain_function_grades_in_mlflow_as_it_grades_a_run(mlflow: Any) -> None:  # noqa: ARG001  # skips without it
    scorer = assay_scorer(grader=lambda record, answer: answer in record.references, name="exact")
    passed, score = scorer(inputs={"prompt": "What is 2 + 2?"}, outputs="4", expectations={"expected_response": "4"})
    assert (passed.name, passed.value, score.value) == ("exact/passed", True, 1.0)


def test_an_option_that_a_run_does_not_have_is_refused() -> None:
    with pytest.raises(UsageProblem, match="unknown option 'juge'"):
        assay_scorer(juge="openai/gpt-5")
