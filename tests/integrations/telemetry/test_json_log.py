"""Lines of JSON and figures for Prometheus, from real runs."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay import api
from assay.integrations.telemetry.json_log import RunLog, log_to, stop_logging
from assay.surfaces.cli.program import program
from assay.testing import example_dataset

pytestmark = pytest.mark.usefixtures("folder")

MEMBERS = {"time", "level", "logger", "message", "event", "run_id"}


def run(*options: str, model: str = "scripted/say-canary", **variables: str) -> Result:
    arguments = ["run", "golden.json", "--model", model, "--judge", "scripted/judge-4", "--run-id", "told", *options]
    return CliRunner(env=variables).invoke(program, arguments, prog_name="assay")


def events(text: str, name: str) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, text.splitlines()) if event["event"] == name]


def test_every_line_is_one_event_with_time_level_and_run() -> None:
    result = run("--log-format", "json")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["run_started", *["record"] * 5, "run_ended"]
    assert all(line.keys() >= MEMBERS for line in lines)
    assert {line["run_id"] for line in lines} == {"told"}
    assert (lines[-1]["state"], lines[-1]["evaluated"], lines[-1]["gate_passed"]) == ("completed", 5, True)


def test_the_environment_asks_for_lines_too_and_a_file_takes_them() -> None:
    result = run("--log-file", "run.log", "--quiet", ASSAY_LOG="json")
    assert result.stderr == ""
    assert len(events(Path("run.log").read_text(encoding="utf-8"), "record")) == 5


def test_without_it_nothing_is_logged() -> None:
    run("--quiet", "--log-format", "json")
    assert run("--quiet").stderr == ""
    assert (logging.getLogger("assay").handlers, logging.getLogger("assay").propagate) == ([], True)


def test_a_failed_call_has_a_line_with_its_code_and_wait() -> None:
    result = run("--log-format", "json", model="scripted/flaky-1")
    first = events(result.stderr, "call_failed")[0]
    assert (first["level"], first["code"], first["round"]) == ("warning", "service_unavailable", 1)
    assert (first["record_id"].startswith("sum-"), first["wait_s"] > 0) == (True, True)


def test_a_record_without_a_score_is_a_warning_with_its_code() -> None:
    record = events(run("--log-format", "json", model="scripted/fail-content_filter").stderr, "record")[0]
    assert (record["level"], record["status"], record["code"]) == ("warning", "evaluation_error", "content_filter")
    assert "score" not in record


def test_neither_prompts_nor_answers_nor_explanations_are_logged() -> None:
    lines = run("--log-format", "json").stderr.replace("scripted/say-canary", "")
    assert not any(text in lines for text in ("canary", "2 + 2", "The script gives"))


def test_no_name_can_break_a_line_or_move_a_cursor() -> None:
    destination = log_to("run.log")
    RunLog()(seen(model="x", record_id="\u001b[31mred\u2028\r\n{}\ud800"))
    stop_logging(destination)
    text = Path("run.log").read_text(encoding="utf-8")
    assert (text.isascii(), text.isprintable() or text.rstrip("\n").isprintable(), text.count("\n")) == (True, True, 1)


def test_a_run_that_cannot_go_on_is_logged_with_its_code(folder: Path) -> None:
    run("--quiet")
    (folder / "golden.json").write_bytes(example_dataset("golden_v1").replace(b"sum-1", b"sum-9"))
    result = run("--log-format", "json")
    assert (result.exit_code, json.loads(result.stderr.splitlines()[-3])["event"]) == (2, "run_failed")


def seen(*, model: str, record_id: str = "q") -> api.RecordEvent:
    call = api.CallEvent(
        stage="candidate",
        call_id="candidate",
        round=1,
        started_at=0,
        seconds=1,
        model=model,
        provider="x",
        provider_kind="openai",
        base_url="",
        request_model=model,
        parameters={},
    )
    return api.RecordEvent(
        run_id="r",
        record_id=record_id,
        sample=0,
        dataset="d",
        contract="batch_v1",
        status="evaluated",
        started_at=0,
        ended_at=1,
        calls=(call,),
    )


def test_given_answers_without_a_judge_are_told_of_too(folder: Path) -> None:
    (folder / "mcq.jsonl").write_bytes(example_dataset("legal_eval_v1"))
    first = api.run("mcq.jsonl", model="scripted/mcq-first", judge="scripted/judge-5", run_id="asked")
    told: list[api.RecordEvent] = []
    api.run("mcq.jsonl", responses=first[0].run_dir, judge="scripted/judge-5", observe=told.append)
    assert len(told) == first[0].counts.total_records
    assert {call.stage for record in told for call in record.calls} <= {"judge"}
