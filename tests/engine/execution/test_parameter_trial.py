"""The first calls to a model, which go one by one until its provider has accepted their parameters."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from assay import api
from assay.engine.execution import parameter_trial
from assay.engine.execution.parameter_trial import ParameterTrial
from assay.testing import StubAnswer, StubProvider, StubReply, StubRequest
from tests.engine.execution.test_negotiated_parameters import openai_error, provider_of, run_questions, unsupported
from tests.engine.run_settings import mcq_row, write_rows


async def call(trial: ParameterTrial, log: list[str], name: str, *, seconds: float, is_rejected: bool = False) -> None:
    """One call of so many seconds."""
    if not trial.is_settled:
        await trial.wait()
    log.append(f"{name} starts")
    await asyncio.sleep(seconds)
    log.append(f"{name} ends")
    if is_rejected:
        trial.reopen()
    trial.end(is_rejected=is_rejected)


def logged(*calls: tuple[str, float, bool]) -> list[str]:
    async def run() -> list[str]:
        trial, log = ParameterTrial(), list[str]()
        await asyncio.gather(*(call(trial, log, name, seconds=seconds, is_rejected=rejected) for name, seconds, rejected in calls))
        return log

    return asyncio.run(run())


def test_calls_wait_for_the_first_and_then_go_together() -> None:
    log = logged(("a", 0.02, False), ("b", 0.02, False), ("c", 0.02, False))
    assert log[:4] == ["a starts", "a ends", "b starts", "c starts"]


def test_after_a_rejection_the_next_call_is_alone_again() -> None:
    log = logged(("a", 0.02, True), ("b", 0.02, True), ("c", 0.02, False), ("d", 0.02, False))
    assert log[:6] == ["a starts", "a ends", "b starts", "b ends", "c starts", "c ends"]


def test_nobody_waits_longer_than_a_moment_for_a_slow_answer() -> None:
    start = time.monotonic()
    log = logged(("slow", 3 * parameter_trial.PATIENCE, False), ("b", 0.0, False), ("c", 0.0, False))
    assert log[-1] == "slow ends"
    assert log[1:3] == ["b starts", "c starts"]
    assert time.monotonic() - start < 4 * parameter_trial.PATIENCE


def test_a_call_that_is_cancelled_gives_its_turn_back() -> None:
    async def run() -> bool:
        trial = ParameterTrial()
        await trial.wait()
        waiting = asyncio.ensure_future(trial.wait())
        await asyncio.sleep(0)
        trial.end(is_rejected=False)
        await asyncio.wait_for(waiting, 1)
        return trial.is_settled

    assert asyncio.run(run())


@pytest.mark.parametrize("concurrency", [1, 32])
def test_waiting_for_the_first_call_is_no_latency_of_the_others(concurrency: int, tmp_path: Path) -> None:
    calls: list[int] = []

    def answer(_: StubRequest) -> StubAnswer:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.3)
            message = "Unsupported parameter: 'temperature' is not supported with this model."
            return StubReply(status=400, body={"error": {"message": message, "param": "temperature"}})
        return "A"

    rows = write_rows(tmp_path / "rows.jsonl", *[mcq_row(f"r-{number}") for number in range(8)])
    with StubProvider(answer) as stub:
        api.run(
            rows, model="server/a", base_url=stub.base_url, concurrency=concurrency, runs_dir=str(tmp_path / "runs"), run_id="r"
        )
    latencies = [line.latency_ms for line in api.open_run("r", runs_dir=tmp_path / "runs").predictions()]
    assert len(calls) == 9
    assert all(latency is not None and latency < 250 for latency in latencies)


def test_many_rejected_parameters_are_met_once_each_whatever_the_concurrency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"model": "openai/new", "top_p": 0.9, "seed": 1, "presence_penalty": 0.5, "max_tokens": 50, "reasoning_effort": "low"}
    rules = [unsupported(name) for name in ("temperature", "top_p", "seed", "presence_penalty", "reasoning_effort")]
    run_file = tmp_path / "run.yaml"
    write_rows(tmp_path / "rows.jsonl", *[mcq_row(f"r-{number}") for number in range(100)])
    run_file.write_text(json.dumps({"datasets": ["rows.jsonl"], "candidates": [entry]}), encoding="utf-8")
    with provider_of("openai", monkeypatch, unsupported("max_tokens", instead="max_completion_tokens"), *rules) as provider:
        (result,) = api.run(run_file, runs_dir=str(tmp_path / "runs"), concurrency=64)
    assert (result.counts.evaluated_records, provider.rejections) == (100, 6)
    assert provider.requests[-1].body.keys() == {"model", "messages", "max_completion_tokens"}  # type: ignore[attr-defined]


def test_rejections_without_end_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_of("openai", monkeypatch, lambda _: openai_error("Unsupported parameter: 'temperature'")) as provider:
        result = run_questions(tmp_path, "openai/new", records=3)
    assert result.counts.failed_records == 3
    assert provider.rejections == 4
