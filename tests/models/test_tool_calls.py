"""Replies that hold tool calls: with a text they are answers, alone they are a failure of their own."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assay.core.model_call import ModelFailure, Reply
from assay.testing import StubProvider, StubReply
from tests.models.asking import plan_of, provider_of, reply_to

REALDATA = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent")) / "provider_replies"
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def completion(content: object, finish: str = "tool_calls", **message: object) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}]}


def response(*items: dict[str, Any]) -> dict[str, Any]:
    return {"status": "completed", "output": list(items)}


def message(*blocks: dict[str, Any], stop_reason: str = "tool_use") -> dict[str, Any]:
    return {"content": list(blocks), "stop_reason": stop_reason}


FUNCTION_CALL = {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "1"}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
ALONE = [
    ("openai", completion(None, tool_calls=[CALL])),
    ("openai", completion("", tool_calls=[CALL])),
    ("openai", completion("\n", finish="stop", tool_calls=[CALL])),
    ("openai", completion([], tool_calls=[CALL])),
    ("openai", completion(None, finish="function_call", function_call={"name": "look", "arguments": "{}"})),
    ("openai_responses", response(FUNCTION_CALL)),
    ("openai_responses", response({"type": "reasoning"}, {"type": "web_search_call"})),
    ("openai_responses", response({"type": "message", "content": [{"type": "output_text", "text": ""}]}, FUNCTION_CALL)),
    ("anthropic", message(TOOL_USE)),
    ("anthropic", message({"type": "text", "text": ""}, TOOL_USE)),
    ("anthropic", message({"type": "thinking"}, {"type": "server_tool_use"}, stop_reason="pause_turn")),
]
WITH_TEXT = [
    ("openai", completion("4", tool_calls=[CALL])),
    ("openai_responses", response({"type": "message", "content": [{"type": "output_text", "text": "4"}]}, FUNCTION_CALL)),
    ("anthropic", message({"type": "text", "text": "4"}, TOOL_USE)),
]


def said(kind: str, body: dict[str, Any]) -> Reply | ModelFailure:
    with StubProvider([StubReply(body=body)]) as stub:
        try:
            return reply_to(plan_of(provider_of(kind, stub.base_url)))
        except ModelFailure as failure:
            return failure


@pytest.mark.parametrize(("kind", "body"), ALONE)
def test_a_reply_of_tool_calls_alone_is_a_permanent_failure(kind: str, body: dict[str, Any]) -> None:
    failure = said(kind, body)
    assert isinstance(failure, ModelFailure)
    assert (failure.code, failure.is_transient) == ("tool_call_only", False)


@pytest.mark.parametrize(("kind", "body"), WITH_TEXT)
def test_a_text_next_to_tool_calls_is_the_answer(kind: str, body: dict[str, Any]) -> None:
    reply = said(kind, body)
    assert isinstance(reply, Reply)
    assert reply.text == "4"


def test_an_empty_text_without_tool_calls_is_still_an_answer() -> None:
    reply = said("openai", completion("", finish="stop"))
    assert isinstance(reply, Reply)
    assert reply.text == ""


def test_tool_calls_that_a_filter_withheld_are_filtered() -> None:
    failure = said("openai", completion(None, finish="content_filter", tool_calls=[CALL]))
    assert isinstance(failure, ModelFailure)
    assert failure.code == "content_filtered"


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
@pytest.mark.parametrize(
    ("name", "kind", "alone", "answers"),
    [
        ("chat_completions", "openai", 77, 137),
        ("responses", "openai_responses", 39, 90),
        ("messages", "anthropic", 28, 118),
    ],
)
def test_recorded_replies_are_answers_or_tool_calls_alone(name: str, kind: str, alone: int, answers: int) -> None:
    recorded = [one for one in json.loads((REALDATA / f"{name}.json").read_bytes()) if one["status"] == 200]
    results = [said(kind, one["body"]) for one in recorded if isinstance(one["body"], dict)]
    codes = [result.code for result in results if isinstance(result, ModelFailure)]
    texts = [result.text for result in results if isinstance(result, Reply)]
    assert codes.count("tool_call_only") == alone
    assert (len(texts), all(text.strip() for text in texts)) == (answers, True)
