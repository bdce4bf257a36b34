"""Recorded conversations as cases, and runs in which a candidate continues them over HTTP."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay import open_run, run
from assay.core.case import Case, Turn
from assay.engine.planning.trajectories import recorded_answers, replayed, unanswered_turns
from assay.testing import StubProvider, StubReply, StubRequest

TAU = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent")) / "conversations" / "tau_bench"


def user(turn_id: int, text: str) -> Turn:
    return Turn(turn_id, "user", message=text)


def said(turn_id: int, text: str, tool: str | None = None, given: dict[str, Any] | None = None, output: object = None) -> Turn:
    return Turn(
        turn_id, "assistant", assistant_reply=text, tool_used=tool, tool_input=given, tool_output=output, has_tool_output=True
    )


def conversation(*turns: Turn) -> Case:
    return Case(id="c", index=0, contract="conversation_v1", task="conversation", dataset="d", prompt="", turns=turns)


def cases(*turns: Turn) -> list[Case]:
    return [case for case, _ in replayed([(conversation(*turns), None)], is_recorded=False)]


AGENT = (
    user(1, "Book it."),
    said(2, "I look.", "find", {"name": "Ada"}, {"id": 7}),
    said(3, "", "book", {"id": 7}, "ok"),
    said(4, "Booked."),
    user(5, "Thanks!"),
    said(6, "Welcome."),
)


def test_all_calls_before_the_next_turn_of_the_user_are_expected() -> None:
    first, second = cases(*AGENT)
    assert [(call.name, call.output) for call in first.expected_calls or ()] == [("find", {"id": 7}), ("book", "ok")]
    assert (first.references, second.references, second.expected_calls) == (("Booked.",), ("Welcome.",), ())


def test_the_history_holds_calls_outputs_and_words_in_their_order() -> None:
    roles = [(message.role, message.content, len(message.tool_calls)) for message in cases(*AGENT)[1].messages]
    assert roles == [
        ("user", "Book it.", 0),
        ("assistant", "I look.", 1),
        ("tool", '{"id":7}', 0),
        ("assistant", "", 1),
        ("tool", "ok", 0),
        ("assistant", "Booked.", 0),
        ("user", "Thanks!", 0),
    ]


def test_words_of_a_last_turn_that_calls_a_tool_come_after_its_output() -> None:
    turns = (user(1, "When?"), said(2, "At nine.", "find", {}, "9:00"), user(3, "Thanks"), said(4, "Welcome."))
    first, second = cases(*turns)
    assert first.references == ("At nine.",)
    assert [message.role for message in second.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert second.messages[3].content == "At nine."


def test_a_turn_that_only_calls_follow_is_a_case_and_one_that_nothing_follows_is_not() -> None:
    turns = (user(1, "Book."), said(2, "", "book", {}, "ok"), user(3, "And?"))
    (case,) = cases(*turns)
    assert (case.references, len(case.expected_calls or ())) == ((), 1)
    assert unanswered_turns([conversation(*turns)]) == 1


def test_recorded_answers_hold_their_calls_and_outputs() -> None:
    answer = next(iter(recorded_answers([(conversation(*AGENT), None)]).values()))
    assert (answer.text, [call.name for call in answer.tool_calls]) == ("Booked.", ["find", "book"])
    assert [step["role"] for step in answer.steps] == ["assistant", "tool", "assistant", "tool"]


def turns_file(folder: Path) -> Path:
    rows: list[dict[str, Any]] = []
    for turn in AGENT:
        if turn.speaker == "user":
            rows.append({"turn_id": turn.turn_id, "speaker": "user", "message": turn.message})
            continue
        row = {"turn_id": turn.turn_id, "speaker": "assistant", "assistant_reply": turn.assistant_reply or "…"}
        tool = {"tool_used": turn.tool_used, "tool_input": turn.tool_input, "tool_output": turn.tool_output}
        rows.append(row | (tool if turn.tool_used else {}))
    path = folder / "talk.json"
    path.write_text(json.dumps(rows))
    return path


def agent(request: StubRequest) -> StubReply:
    """Make the recorded calls one after the other, then answer in words."""
    messages = request.body["messages"]
    done = 0 if messages[-1]["role"] == "user" else sum(message["role"] == "tool" for message in messages)
    calls = [("find", {"name": "Ada"}), ("book", {"id": 7})]
    if messages[-1]["content"] == "Thanks!" or done == len(calls):
        return StubReply(
            body={"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 10}}
        )
    name, given = calls[done]
    call = {"id": f"c{done}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    message = {"content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    return StubReply(body={"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage})


def test_a_candidate_over_http_continues_the_recording_call_by_call(tmp_path: Path) -> None:
    judge = 'scripted/say-{"score": 1, "justification": "The same."}'
    with StubProvider(agent) as stub:
        path, runs_dir = turns_file(tmp_path), str(tmp_path / "runs")
        (result,) = run(path, model="openai/agent", base_url=stub.base_url, judge=judge, runs_dir=runs_dir)
        asked = stub.requests
    assert [tool["function"]["name"] for tool in asked[0].body["tools"]] == ["book", "find"]
    opened = open_run(result.run_dir)
    lines = list(opened.predictions())
    assert [line["passed"] for line in lines] == [True, True]
    assert [one["verdict"] for one in lines[0]["tool_calls"]["verdicts"]] == ["correct", "correct"]
    assert [call["name"] for call in lines[0]["tool_calls"]["made"]] == ["find", "book"]
    assert (lines[0]["model_response"], lines[0]["input_tokens"]) == ("Done.", 30)
    assert opened.metrics["tool_calls"]["arguments_correct"] == 2
    steps = [attempt["call_id"] for attempt in opened.attempts(lines[0]["record_id"])]
    assert steps == ["candidate", "candidate:step-2", "candidate:step-3"]
    responses = [json.loads(line) for line in (Path(result.run_dir) / "responses.jsonl").read_text().splitlines()]
    assert [call["function"]["name"] for call in responses[0]["tool_calls"]] == ["find", "book"]
    # The answers of one run are given answers of another, calls included.
    (again,) = run(
        turns_file(tmp_path), responses=str(result.run_dir), judge=judge, runs_dir=str(tmp_path / "runs"), allow_size=True
    )
    assert [line["passed"] for line in open_run(again.run_dir).predictions()] == [True, True]


@pytest.mark.skipif(not TAU.is_dir(), reason="ASSAY_REALDATA names no folder")
def test_every_call_of_real_conversations_is_scored(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("allow_empty_messages: true\n")
    entry = f"datasets: [{{path: {TAU}, config: config.yaml}}]\ncandidates: [scripted/echo]\njudges: [scripted/judge-4]\n"
    (tmp_path / "run.yaml").write_text(entry)
    (result,) = run(tmp_path / "run.yaml", runs_dir=str(tmp_path / "runs"))
    opened = open_run(result.run_dir)
    calls = opened.metrics["tool_calls"]
    assert (calls["expected"], calls["scored"], calls["missing"]) == (282, 282, 282)
    verdicts = Counter(
        one["verdict"] for line in opened.predictions() for one in (line.get("tool_calls") or {"verdicts": ()})["verdicts"]
    )
    assert verdicts == {"missing": 282}
