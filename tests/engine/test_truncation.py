"""Answers that end at the output limit: counted, labelled and gated, in the words of each provider."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.run_result import RunResult
from assay.core.settings import Gates
from assay.metrics.facts import RecordFacts
from assay.metrics.gates import check_gates
from assay.metrics.summary import summarize
from assay.presentation.run import run_sections
from assay.presentation.run_report import view_of
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text
from assay.testing import StubProvider, StubReply, StubRequest
from tests.engine.run_settings import mcq_row, write_rows


def facts(position: int, *, score: float, passed: bool, flags: tuple[str, ...] = ()) -> RecordFacts:
    return RecordFacts(position=position, status="evaluated", score=score, raw_score=score, scale="0-1", passed=passed, flags=flags)


def chat_reply(text: str | None, reason: str) -> StubReply:
    return StubReply(body={"choices": [{"message": {"content": text}, "finish_reason": reason}], "usage": {}})


def message_reply(text: str, reason: str) -> StubReply:
    content = [{"type": "text", "text": text}] if text else [{"type": "thinking", "thinking": "hm"}]
    return StubReply(body={"content": content, "stop_reason": reason})


def response_reply(text: str, details: dict[str, Any] | None) -> StubReply:
    output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    return StubReply(body={"output": output, "status": "incomplete", "incomplete_details": details})


def run_with(tmp_path: Path, replies: dict[str, StubReply], kind: str = "openai", **options: Any) -> RunResult:
    """A run whose records get the replies by their prompts."""

    def script(request: StubRequest) -> StubReply:
        said = json.dumps(request.body.get("messages") or request.body["input"])
        return next(reply for prompt, reply in replies.items() if prompt in said)

    rows = write_rows(tmp_path / "rows.jsonl", *[mcq_row(f"r-{prompt}", prompt=f"Is it {prompt}?") for prompt in replies])
    with StubProvider(script) as stub:
        members = {
            "datasets": [str(rows)],
            "candidates": ["mine/new"],
            "providers": [{"name": "mine", "kind": kind, "base_url": stub.base_url}],
        }
        (tmp_path / "run.yaml").write_text(json.dumps(members), encoding="utf-8")
        (result,) = api.run(tmp_path / "run.yaml", runs_dir=str(tmp_path / "runs"), run_id="r", **options)
    return result


def test_truncated_answers_are_counted_and_left_out_of_a_second_set_of_figures() -> None:
    records = [
        facts(0, score=1.0, passed=True),
        facts(1, score=0.5, passed=False),
        facts(2, score=0.0, passed=False, flags=("truncated",)),
        facts(3, score=0.9, passed=True, flags=("cached", "truncated")),
        RecordFacts(position=4, status="evaluation_error", error_code="answer_truncated"),
        RecordFacts(position=5, status="evaluation_error", error_code="rate_limited"),
    ]
    summary = summarize(records)
    found = summary.truncated
    assert found is not None
    assert (found.n, found.n_answers, found.share) == (3, 5, 0.6)
    assert (found.n_without, found.pass_rate_without, found.score_mean_without) == (2, 0.5, 0.75)
    assert (summary.pass_rate, summary.n_scored) == (0.5, 4)


def test_a_run_without_whole_answers_has_no_figures_without_truncated_ones() -> None:
    found = summarize([facts(0, score=0.0, passed=False, flags=("truncated",))]).truncated
    assert found is not None
    assert (found.share, found.n_without, found.pass_rate_without, found.score_mean_without) == (1.0, 0, None, None)


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("openai", chat_reply("perhaps", "length")),
        ("openai", chat_reply("perhaps", "max_tokens")),
        ("openai", chat_reply("perhaps", "MAX_TOKENS")),
        ("openai", chat_reply("perhaps", "model_length")),
        ("anthropic", message_reply("perhaps", "max_tokens")),
        ("anthropic", message_reply("perhaps", "model_context_window_exceeded")),
        ("openai_responses", response_reply("perhaps", {"reason": "max_output_tokens"})),
        ("openai_responses", response_reply("perhaps", None)),
    ],
)
def test_an_answer_that_ends_at_the_limit_is_truncated_in_the_words_of_each_provider(
    kind: str, reply: StubReply, tmp_path: Path
) -> None:
    result = run_with(tmp_path, {"first": reply}, kind)
    summary = result.summary
    assert summary is not None
    assert summary.truncated is not None
    assert (summary.truncated.n, summary.labels) == (1, {"answer_truncated": 1})
    (failure,) = api.open_run("r", runs_dir=tmp_path / "runs").failures()
    assert (failure.code, failure.taxonomy_label) == ("answer_truncated", "answer_truncated")
    assert failure.message.startswith("the answer ended at the output limit")


def test_a_model_that_only_thinks_up_to_its_limit_gives_an_error_of_its_own(tmp_path: Path) -> None:
    result = run_with(tmp_path, {"first": message_reply("", "max_tokens")}, "anthropic")
    summary = result.summary
    assert summary is not None
    assert summary.truncated is not None
    assert (summary.errors, summary.truncated.n, summary.truncated.share) == ({"answer_truncated": 1}, 1, 1.0)


def test_a_right_answer_that_was_cut_off_passes_and_counts_as_truncated(tmp_path: Path) -> None:
    result = run_with(tmp_path, {"first": chat_reply("A", "length"), "second": chat_reply("A", "stop")})
    summary = result.summary
    assert summary is not None
    assert summary.truncated is not None
    assert (summary.pass_rate, summary.truncated.n, summary.truncated.n_without, summary.labels) == (1.0, 1, 1, {})


@pytest.mark.parametrize(("limit", "missed"), [(0.5, ()), (0.49, ("share of truncated answers 0.50 is above 0.49",))])
def test_a_gate_on_truncated_answers_is_decided(limit: float, missed: tuple[str, ...], tmp_path: Path) -> None:
    replies = {"first": chat_reply("A", "length"), "second": chat_reply("A", "stop")}
    result = run_with(tmp_path, replies, max_truncated=limit)
    assert (result.gate.passed, result.gate.reasons) == (not missed, missed)


def test_a_gate_on_truncated_answers_is_undefined_without_answers() -> None:
    assert check_gates(Gates(max_truncated=0.1), summarize(())).reasons == (
        "share of truncated answers is undefined: no record was answered",
    )


def test_the_report_says_how_many_answers_were_cut_off(tmp_path: Path) -> None:
    run_with(tmp_path, {"first": chat_reply("perhaps", "length"), "second": chat_reply("A", "stop")})
    view = view_of(api.open_run("r", runs_dir=tmp_path / "runs"))
    text = "".join(report_text(run_sections(view), ReportSettings(version="1")))
    shown = " ".join(text.split())
    assert "1 of 2 answers (50.0 %) ended at the output limit · without them: pass rate 100.0 % · mean score 1.00" in shown
    assert "max output the model's own maximum" in shown
