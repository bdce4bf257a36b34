"""Records of a run as traces of a real MLflow server, read back through its own client."""

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.testing import example_dataset
from tests.engine.graded_runs import graded, passing, question
from tests.integrations.mlflow.pushing import golden_run, marks, pushed, traces_of
from tests.integrations.mlflow.serving import MlflowServer

PANEL = ("scripted/judge-5", "scripted/judge-4", "scripted/judge-2")


def test_every_record_is_a_trace_with_a_span_for_each_call(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    found = traces_of(client, pushed(golden_run(tmp_path), server.uri, "spans"))
    assert sorted(found) == ["sum-1", "sum-2", "sum-3", "sum-4", "sum-5"]
    root, candidate, judge = found["sum-1"].data.spans
    assert (root.name, root.inputs, root.outputs) == ("record", {"prompt": "What is 2 + 2?"}, "4")
    assert (candidate.name, candidate.span_type, candidate.parent_id) == ("candidate", "CHAT_MODEL", root.span_id)
    assert (judge.name, judge.span_type, judge.attributes["assay.model"]) == ("judge:rubric", "EVALUATOR", "scripted/judge-5")
    assert candidate.attributes["mlflow.chat.tokenUsage"]["total_tokens"] > 0


def test_every_failed_attempt_is_a_span_of_its_own(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    (tmp_path / "sums.json").write_bytes(example_dataset("golden_v1"))
    (tmp_path / "run.yaml").write_text(
        "datasets: [sums.json]\ncandidates: [scripted/flaky-1]\njudges: [scripted/judge-5]\nretry: {base_delay: 0}\n",
        encoding="utf-8",
    )
    api.run(tmp_path / "run.yaml", run_id="flaky", runs_dir=str(tmp_path / "runs"))
    trace = traces_of(client, pushed(api.open_run("flaky", runs_dir=tmp_path / "runs"), server.uri, "flaky"))["sum-1"]
    first, second = (span for span in trace.data.spans if span.name.startswith("candidate"))
    assert (first.status.status_code, second.status.status_code) == ("ERROR", "OK")
    assert first.events[0].attributes["exception.type"] == "service_unavailable"
    assert (second.name, trace.info.state) == ("candidate (round 2)", "OK")


def test_every_grade_and_every_vote_is_a_feedback_of_its_judge(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path, judges=PANEL)
    trace = traces_of(client, pushed(run, server.uri, "votes"))["sum-1"]
    (passed,), (score,) = marks(trace, "passed"), marks(trace, "score")
    assert (passed.value, score.value, score.metadata["scale"]) == (True, 4.0, "1-5")
    assert passed.rationale == run.record("sum-1").prediction.justification
    votes = {vote.source.source_id: vote.value for vote in marks(trace, "rubric")}
    assert votes == {"scripted/judge-5": 5.0, "scripted/judge-4": 4.0, "scripted/judge-2": 2.0}
    assert {vote.source.source_type for vote in marks(trace, "rubric")} == {"LLM_JUDGE"}


def test_what_a_good_answer_is_measured_by_is_an_expectation(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_bytes(example_dataset("batch_v1"))
    api.run(tmp_path / "batch.json", model="scripted/say-4", judge="scripted/judge-5", run_id="b", runs_dir=str(tmp_path / "runs"))
    trace = traces_of(client, pushed(api.open_run("b", runs_dir=tmp_path / "runs"), server.uri, "expected"))["sum-2"]
    assert [mark.value for mark in marks(trace, "expected_response")] == ["7"]


def test_a_record_without_a_grade_is_an_error_without_a_score(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    trace = traces_of(client, pushed(golden_run(tmp_path, judges=("scripted/say-hm",)), server.uri, "ungraded"))["sum-1"]
    assert (trace.info.state, marks(trace, "score"), marks(trace, "rubric")) == ("ERROR", [], [])
    (passed,) = marks(trace, "passed")
    assert (passed.value, passed.error.error_code) == (None, "judge_parse_error")


def test_a_record_without_an_answer_has_no_feedback_at_all(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    trace = traces_of(client, pushed(golden_run(tmp_path, model="scripted/fail-bad_request"), server.uri, "silent"))["sum-1"]
    assert (trace.info.state, [mark.name for mark in trace.info.assessments]) == ("ERROR", ["guidelines"])


def test_labels_of_people_stand_beside_the_judge_and_go_when_they_are_taken_back(
    client: Any, server: MlflowServer, tmp_path: Path
) -> None:
    run = golden_run(tmp_path)
    api.keep_label(run, 0, api.LabelInput(rater="ada", passed=False, note="Too short."))
    trace = traces_of(client, pushed(run, server.uri, "labels"))["sum-1"]
    human = [mark for mark in marks(trace, "passed") if mark.source.source_type == "HUMAN"]
    assert [(mark.value, mark.source.source_id, mark.rationale) for mark in human] == [(False, "ada", "Too short.")]
    api.keep_label(run, 0, api.LabelInput(rater="ada"))
    again = pushed(run, server.uri, "labels")
    assert (again.traces_sent, len(marks(traces_of(client, again)["sum-1"], "passed"))) == (1, 1)


def test_labels_of_a_file_are_feedback_of_people(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path)
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"record_id": "sum-2", "rater": "bo", "passed": "fail", "score": 2}\n', encoding="utf-8")
    trace = traces_of(client, pushed(run, server.uri, "labelled", labels=str(labels)))["sum-2"]
    human = {mark.name: mark.value for mark in trace.info.assessments if mark.source.source_id == "bo"}
    assert human == {"passed": False, "score": 2.0}


def test_labels_of_a_file_stay_when_it_is_not_named_again_and_go_when_their_rater_has_a_newer_one(
    client: Any, server: MlflowServer, tmp_path: Path
) -> None:
    run, raters = golden_run(tmp_path), []
    labels = tmp_path / "labels.jsonl"
    for record, rater in (("sum-2", "bo"), ("", ""), ("sum-3", "cy"), ("sum-1", "bo")):
        labels.write_text(json.dumps({"record_id": record, "rater": rater, "passed": "fail"}) + "\n", encoding="utf-8")
        found = traces_of(client, pushed(run, server.uri, "kept-labels", labels=str(labels) if record else ""))["sum-2"]
        raters.append([mark.source.source_id for mark in marks(found, "passed") if mark.source.source_type == "HUMAN"])
    assert raters == [["bo"], ["bo"], ["bo"], []]


def test_a_criterion_with_the_name_of_a_verdict_is_not_averaged_with_it(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    grader = assay.Judgement(score=1.0, scores={"passed": 0.0, "tone": 0.5})
    run = golden_run(tmp_path, judges=(), grader=lambda *_: grader)
    trace = traces_of(client, pushed(run, server.uri, "named"))["sum-1"]
    assert [mark.value for name in ("passed", "criterion/passed", "tone") for mark in marks(trace, name)] == [True, 0.0, 0.5]


def test_a_label_of_another_run_is_refused(server: MlflowServer, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"record_id": "sum-9", "rater": "bo", "passed": "fail"}\n', encoding="utf-8")
    with pytest.raises(UsageProblem, match="the run has no such answer to 'sum-9'"):
        pushed(golden_run(tmp_path), server.uri, "mislabelled", labels=str(labels))


@pytest.mark.parametrize(("choice", "sent"), [("failed", ["q1"]), ("none", []), ("all", ["q0", "q1", "q2"])])
def test_traces_are_chosen(client: Any, server: MlflowServer, tmp_path: Path, choice: Any, sent: list[str]) -> None:
    rows = [question(f"q{number}") for number in range(3)]
    graded(tmp_path, "few", rows, passing(rows, 1))
    found = pushed(api.open_run("few", runs_dir=tmp_path / "runs"), server.uri, f"chosen-{choice}", traces=choice)
    assert sorted(traces_of(client, found)) == sent


def test_what_is_left_out_is_said_here_and_there(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    found = pushed(golden_run(tmp_path), server.uri, "part", traces=2)
    assert (found.traces, found.notes[0].split(";")[0]) == (2, "3 of 5 records have no trace")
    assert "3 of 5 records have no trace" in client.get_run(found.mlflow_run_id).data.tags["mlflow.note.content"]
