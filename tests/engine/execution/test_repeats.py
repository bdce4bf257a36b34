"""Runs that ask every record several times: each answer is its own evaluation, through every command on runs."""

import json
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.case import Message
from assay.core.errors import RunNotFound, RunSealed
from assay.core.model_call import ModelRequest
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.run_result import RunResult
from assay.engine.planning.request import RunRequest
from assay.golden import EvalRun
from assay.models.replay import read_recording
from assay.models.requests import request_sha256
from assay.testing import StubProvider, StubReply
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import VERDICT, steady, write_job
from tests.crash.provider import CountingProvider
from tests.engine.run_settings import JUDGE, mcq_row, planned, write_golden, write_rows
from tests.engine.run_settings import problems_of as plan_problems

Lines = list[dict[str, Any]]


def run(folder: Path, run_id: str, **options: Any) -> RunResult:
    source = options.pop("source", None) or write_golden(folder / "golden.json")
    given = {"model": "scripted/echo", "judge": JUDGE, **options}
    (result,) = api.run(source, run_id=run_id, runs_dir=str(folder / "runs"), **given)
    return result


def lines(result: RunResult, name: str) -> Lines:
    return [json.loads(line) for line in (Path(result.run_dir) / name).read_text().splitlines()]


def test_every_record_is_evaluated_as_often_as_it_is_asked(tmp_path: Path) -> None:
    result = run(tmp_path, "x", repeat=3)
    found = [(line["record_id"], line["sample"], line["index"]) for line in lines(result, "predictions.jsonl")]
    assert found == [(f"case-{place // 3}", place % 3, place) for place in range(15)]
    assert (result.counts.total_records, result.counts.evaluated_records) == (15, 15)
    assert result.metrics["repeats"]["n_records"] == 5


@pytest.mark.parametrize("name", ["predictions", "attempt_logs", "responses", "record_validation"])
def test_lines_name_a_sample_only_where_records_are_asked_several_times(tmp_path: Path, name: str) -> None:
    once, twice = run(tmp_path, "once"), run(tmp_path, "twice", repeat=2)
    assert {"sample" in line for line in lines(once, f"{name}.jsonl")} == {False}
    assert {line["sample"] for line in lines(twice, f"{name}.jsonl")} == {0, 1}


def test_a_repeated_run_verifies_and_replays(tmp_path: Path) -> None:
    run(tmp_path, "x", repeat=3)
    assert api.verify("x", runs_dir=tmp_path / "runs") == []
    assert api.replay("x", runs_dir=tmp_path / "runs") == []


def test_an_invalid_record_stands_once_and_the_counts_add_up(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", mcq_row("a"), mcq_row("b"), mcq_row("c", correct_choice_ids=["Z"]))
    counts = run(tmp_path, "x", source=source, model="scripted/mcq-first", repeat=4, on_invalid="skip").counts
    assert (counts.total_records, counts.valid_records, counts.invalid_records) == (9, 8, 1)
    assert counts.total_records == counts.evaluated_records + counts.failed_records + counts.skipped_records


def test_every_answer_is_asked_for_and_judged_anew_beside_a_cache(tmp_path: Path) -> None:
    numbers = count()
    with StubProvider(lambda request: VERDICT if request.body["model"] == "judge" else f"answer {next(numbers)}") as provider:
        models = {"models": ("stub/m",), "judges": ("stub/judge",)}
        file = tmp_path / "run.json"
        providers = [{"name": "stub", "base_url": provider.base_url}]
        golden = str(write_golden(tmp_path / "golden.json"))
        file.write_text(json.dumps({"datasets": [golden], "providers": providers, "cache": {"folder": "cache"}, "repeat": 3}))
        (first,) = api.run(file, run_id="first", runs_dir=str(tmp_path / "runs"), **models)
        asked = len(provider.requests)
        (again,) = api.run(file, run_id="again", runs_dir=str(tmp_path / "runs"), **models)
    assert asked == 30
    assert len(provider.requests) == asked
    assert len({line["model_response"] for line in lines(first, "predictions.jsonl")}) == 15
    assert [line["model_response"] for line in lines(again, "predictions.jsonl")] == [
        line["model_response"] for line in lines(first, "predictions.jsonl")
    ]


def test_the_first_sample_has_the_address_of_a_single_answer_and_the_others_their_own() -> None:
    provider, model = ProviderPlan(name="p", kind="openai"), ModelPlan(name="m", provider="p", model="m")
    message = (Message("user", "Hi"),)
    asks = [ModelRequest(stage="candidate", call_id="candidate", model="m", messages=message, sample=sample) for sample in range(3)]
    single = ModelRequest(stage="candidate", call_id="candidate", model="m", messages=message)
    addresses = [request_sha256(provider, model, ask) for ask in asks]
    assert addresses[0] == request_sha256(provider, model, single)
    assert len(set(addresses)) == 3


def test_a_recording_holds_each_sample_of_a_reply(tmp_path: Path) -> None:
    rows = [{"messages_sha256": "ab", "sample": sample, "reply": {"text": f"answer {sample}"}} for sample in range(2)]
    recording = read_recording(write_rows(tmp_path / "replies.jsonl", *rows))
    assert [recording.replies["ab", "", sample].text for sample in range(2)] == ["answer 0", "answer 1"]


def test_a_recorded_reply_is_not_the_answer_of_every_sample(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", mcq_row("a"))
    asked = run(tmp_path, "asked", source=source, model="scripted/mcq-first")
    hashed = lines(asked, "attempt_logs.jsonl")[0]["request_sha256"]
    recording = write_rows(tmp_path / "replies.jsonl", {"request_sha256": hashed, "reply": {"text": "A"}})
    result = run(tmp_path, "x", source=source, model=f"replay/{recording}", repeat=2)
    assert {line["error_code"] for line in lines(result, "predictions.jsonl")} == {"no_recorded_reply"}


def test_the_answers_of_a_repeated_run_can_be_graded_again(tmp_path: Path) -> None:
    first = run(tmp_path, "first", repeat=2)
    strict = run(tmp_path, "strict", model="scripted/echo", judge="scripted/judge-2", responses=first.run_dir, repeat=2)
    assert [line["sample"] for line in lines(strict, "predictions.jsonl")] == [0, 1] * 5
    assert strict.metrics["repeats"]["pass_hat_k"][1]["value"] == 0.0


def test_answers_that_are_missing_for_some_samples_are_listed_before_any_call(tmp_path: Path) -> None:
    answers = write_rows(
        tmp_path / "answers.jsonl", {"example_id": "a", "candidate_name": "human", "response_text": "A", "sample": 1}
    )
    rows = write_rows(tmp_path / "rows.jsonl", mcq_row("a"))
    (problem,) = plan_problems(RunRequest(datasets=(str(rows),), responses=str(answers), repeat=3))
    assert "(human, a), (human, a, sample 2)" in problem


def test_a_sample_that_is_no_number_from_0_on_is_a_problem_of_its_line(tmp_path: Path) -> None:
    row = {"example_id": "a", "candidate_name": "human", "response_text": "A", "sample": -1}
    answers = write_rows(tmp_path / "answers.jsonl", row)
    rows = write_rows(tmp_path / "rows.jsonl", mcq_row("a"))
    found = plan_problems(RunRequest(datasets=(str(rows),), responses=str(answers)))
    assert any("answers.jsonl:1: sample must be a whole number from 0 on" in problem for problem in found)


def test_a_retry_asks_for_the_failed_samples_alone(tmp_path: Path) -> None:
    times = count()
    # The first answer to each record fails for good, the others come.
    said = StubReply(status=400, body={"error": {"message": "no"}})
    with StubProvider(lambda _: said if next(times) == 0 else '{"answer": "A", "reasoning": "-"}') as provider:
        file = tmp_path / "run.json"
        providers = [{"name": "stub", "base_url": provider.base_url}]
        write_rows(tmp_path / "rows.jsonl", mcq_row("a"), mcq_row("b"))
        settings = {"datasets": ["rows.jsonl"], "providers": providers, "repeat": 3, "run": {"concurrency": 1}}
        file.write_text(json.dumps(settings))
        (first,) = api.run(file, run_id="first", runs_dir=str(tmp_path / "runs"), model="stub/m")
        again = api.retry("first", runs_dir=tmp_path / "runs", run_id="again")
    lost = [(line["record_id"], line["sample"]) for line in lines(first, "failures.jsonl")]
    assert len(lost) == 1
    assert [(line["record_id"], line["sample"]) for line in lines(again, "predictions.jsonl")] == lost
    assert first.metrics["repeats"]["n_left_out"] == 1
    assert again.metrics["repeats"]["left_out"] == {"not_in_run": 1}


def test_a_killed_run_with_repeats_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    with CountingProvider(steady, latency=0.01) as provider:
        job = write_job(tmp_path, provider.base_url, records=20, repeat=3)
        api.run(job.folder / "run.json", run_id="peaceful", runs_dir=str(job.runs))
        expected = stable_artifacts(job.runs / "peaceful")
        calls = provider.calls.total()
        for _ in range(3):
            begun = provider.calls.total()
            provider.hold(after=15)
            killed = job.start("x")
            provider.wait_for(begun + 16, while_alive=killed)
            os.killpg(killed.pid, signal.SIGKILL)
            killed.communicate()
            provider.let_go()
        api.run(job.folder / "run.json", run_id="x", runs_dir=str(job.runs))
    assert problems_of(job, "x", expected) == []
    assert provider.calls.total() - 2 * calls <= 3 * job.concurrency


def test_show_has_one_answer_whole_and_what_came_of_the_others(tmp_path: Path) -> None:
    run(tmp_path, "x", repeat=3)
    opened = api.open_run("x", runs_dir=tmp_path / "runs")
    found = opened.record("case-2", sample=1)
    assert (found.prediction.sample, found.prediction.index) == (1, 7)
    assert {line.index for line in found.attempts} == {7}
    assert [(sample.sample, sample.passed) for sample in found.samples] == [(0, True), (1, True), (2, True)]
    with pytest.raises(RunNotFound, match="'case-2' with a sample 3"):
        opened.record("case-2", sample=3)


def test_golden_results_name_the_sample_and_stay_valid(tmp_path: Path) -> None:
    text = (Path(run(tmp_path, "x", repeat=2).run_dir) / "eval_results.json").read_text()
    assert [result["sample"] for result in json.loads(text)["results"]] == [0, 1] * 5
    assert EvalRun.model_validate_json(text).metrics.total_cases == 10


def test_a_model_that_does_not_sample_is_warned_of(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "rows.jsonl", mcq_row("a")))
    twice = planned(RunRequest(datasets=(source,), models=("scripted/echo",), repeat=2))
    once = planned(RunRequest(datasets=(source,), models=("scripted/echo",)))
    assert twice.notes == ("'scripted/echo' is asked 2 times with temperature 0: its answers may all be equal",)
    assert once.notes == ()


def test_recorded_replies_cannot_be_repeated(tmp_path: Path) -> None:
    turns = [{"turn_id": 1, "speaker": "user", "message": "Hi"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Yo"}]
    source = tmp_path / "conversation.json"
    source.write_text(json.dumps(turns))
    (problem,) = plan_problems(RunRequest(datasets=(str(source),), judges=(JUDGE,), repeat=2))
    assert problem == "--repeat: recorded replies were given once; name a candidate to ask it several times"


def test_how_often_records_are_asked_changes_the_plan(tmp_path: Path) -> None:
    run(tmp_path, "x", repeat=2)
    with pytest.raises(RunSealed, match=r"other settings \(repeat\)"):
        run(tmp_path, "x", repeat=3)
