"""Tools and tool calls with every provider: how they are sent, and how they are read."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.case import Message
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.tools import ToolCall, ToolDefinition
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
    ("openai_responses", response({"type": "message", "content": [{"type": "output_text", "text": ""}]}, FUNCTION_CALL)),
    ("anthropic", message(TOOL_USE)),
    ("anthropic", message({"type": "text", "text": ""}, TOOL_USE)),
]
FOREIGN = [
    ("openai_responses", response({"type": "reasoning"}, {"type": "web_search_call"})),
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
def test_a_reply_of_tool_calls_alone_has_the_calls_and_no_text(kind: str, body: dict[str, Any]) -> None:
    reply = said(kind, body)
    assert isinstance(reply, Reply)
    assert (reply.text.strip(), [(call.name, call.arguments) for call in reply.tool_calls]) == ("", [("look", {})])


@pytest.mark.parametrize(("kind", "body"), FOREIGN)
def test_calls_that_the_provider_makes_itself_are_no_reply(kind: str, body: dict[str, Any]) -> None:
    failure = said(kind, body)
    assert isinstance(failure, ModelFailure)
    assert (failure.code, failure.is_transient) == ("tool_call_only", False)


def test_arguments_that_are_not_json_are_kept_as_sent() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": '}}
    reply = said("openai", completion(None, tool_calls=[call]))
    assert isinstance(reply, Reply)
    assert reply.tool_calls == (ToolCall("look", None, '{"at": ', "1"),)


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


def chat_calls(body: dict[str, Any]) -> list[tuple[str, Any]]:
    found = body["choices"][0]["message"] if body.get("choices") else {}
    return [(call["function"]["name"], call["function"].get("arguments")) for call in found.get("tool_calls") or ()]


def response_calls(body: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(item["name"], item["arguments"]) for item in body.get("output") or () if item["type"] == "function_call"]


def message_calls(body: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(block["name"], block["input"]) for block in body.get("content") or () if block["type"] == "tool_use"]


def gemini_calls(body: dict[str, Any]) -> list[tuple[str, Any]]:
    parts = ((body.get("candidates") or [{}])[0].get("content") or {}).get("parts") or ()
    return [(part["functionCall"]["name"], part["functionCall"].get("args", {})) for part in parts if "functionCall" in part]


def converse_calls(body: dict[str, Any]) -> list[tuple[str, Any]]:
    blocks = body["output"]["message"]["content"] if "output" in body else ()
    return [(block["toolUse"]["name"], block["toolUse"]["input"]) for block in blocks if "toolUse" in block]


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
@pytest.mark.parametrize(
    ("name", "kind", "calls_in"),
    [
        ("chat_completions", "openai", chat_calls),
        ("responses", "openai_responses", response_calls),
        ("messages", "anthropic", message_calls),
        ("gemini", "google", gemini_calls),
        ("bedrock_converse", "bedrock", converse_calls),
    ],
)
def test_every_recorded_tool_call_is_read(
    name: str, kind: str, calls_in: Callable[[dict[str, Any]], list[tuple[str, Any]]]
) -> None:
    recorded = [one["body"] for one in json.loads((REALDATA / f"{name}.json").read_bytes()) if one["status"] == 200]
    seen = 0
    for body in recorded:
        expected = calls_in(body) if isinstance(body, dict) else []
        reply = said(kind, body) if expected else None
        if isinstance(reply, Reply):
            parsed = [(tool, json.loads(given or "{}") if isinstance(given, str) else given or {}) for tool, given in expected]
            assert [(call.name, call.arguments) for call in reply.tool_calls] == parsed
            seen += len(parsed)
        assert reply is None or not isinstance(reply, ModelFailure) or reply.code == "content_filtered", body
    assert seen >= 20


TOOLS = (ToolDefinition("shop.open", "Say when a shop is open.", {"type": "object", "properties": {"day": {"type": "string"}}}),)
TURNS = (
    Message("system", "Be brief."),
    Message("user", "Open on Monday?"),
    Message(
        "assistant", "I look.", (ToolCall("shop.open", {"day": "mon"}, '{"day":"mon"}', "c1"), ToolCall("shop.open", {}, "", "c2"))
    ),
    Message("tool", '{"from":9}', tool_call_id="c1", name="shop.open"),
    Message("tool", "closed", tool_call_id="c2", name="shop.open"),
    Message("user", "Thanks. And on Sunday?"),
)
SCHEMA = {"type": "object", "properties": {"day": {"type": "string"}}}


def sent(kind: str) -> dict[str, Any]:
    ask = ModelRequest(stage="candidate", call_id="candidate", model="m", messages=TURNS, tools=TOOLS)
    answers = {
        "openai": completion("yes", finish="stop"),
        "openai_responses": response({"type": "message", "content": [{"type": "output_text", "text": "yes"}]}),
        "anthropic": message({"type": "text", "text": "yes"}, stop_reason="end_turn"),
        "google": {"candidates": [{"content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"}]},
        "bedrock": {"output": {"message": {"content": [{"text": "yes"}]}}, "stopReason": "end_turn"},
    }
    with StubProvider([StubReply(body=answers[kind])]) as stub:
        reply_to(plan_of(provider_of(kind, stub.base_url)), ask)
        body: dict[str, Any] = stub.requests[0].body
    return body


def test_chat_completions_get_tools_calls_and_outputs() -> None:
    body = sent("openai")
    function = {"name": "shop_open", "description": "Say when a shop is open.", "parameters": SCHEMA}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["messages"][2:5] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "shop_open", "arguments": '{"day":"mon"}'}},
                {"id": "c2", "type": "function", "function": {"name": "shop_open", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"from":9}'},
        {"role": "tool", "tool_call_id": "c2", "content": "closed"},
    ]


def test_the_responses_api_gets_items_for_calls_and_outputs() -> None:
    body = sent("openai_responses")
    assert [tool["name"] for tool in body["tools"]] == ["shop_open"]
    assert body["input"][2:] == [
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "shop_open", "arguments": '{"day":"mon"}'},
        {"type": "function_call", "call_id": "c2", "name": "shop_open", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"from":9}'},
        {"type": "function_call_output", "call_id": "c2", "output": "closed"},
        {"role": "user", "content": "Thanks. And on Sunday?"},
    ]


def test_anthropic_gets_the_outputs_of_a_turn_in_one_turn() -> None:
    body = sent("anthropic")
    assert body["tools"] == [{"name": "shop_open", "description": "Say when a shop is open.", "input_schema": SCHEMA}]
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "shop_open", "input": {"day": "mon"}},
                {"type": "tool_use", "id": "c2", "name": "shop_open", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": '{"from":9}'},
                {"type": "tool_result", "tool_use_id": "c2", "content": "closed"},
            ],
        },
        {"role": "user", "content": "Thanks. And on Sunday?"},
    ]


def test_gemini_gets_function_calls_and_responses() -> None:
    body = sent("google")
    assert body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == SCHEMA
    assert body["contents"][1:3] == [
        {
            "role": "model",
            "parts": [
                {"text": "I look."},
                {"functionCall": {"name": "shop_open", "args": {"day": "mon"}}},
                {"functionCall": {"name": "shop_open", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "shop_open", "response": {"from": 9}}},
                {"functionResponse": {"name": "shop_open", "response": {"output": "closed"}}},
            ],
        },
    ]


def test_converse_gets_tool_uses_and_results() -> None:
    body = sent("bedrock")
    assert body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"] == {"json": SCHEMA}
    assert body["messages"][1]["content"][1] == {"toolUse": {"toolUseId": "c1", "name": "shop_open", "input": {"day": "mon"}}}
    assert body["messages"][2]["content"][1] == {"toolResult": {"toolUseId": "c2", "content": [{"text": "closed"}]}}


@pytest.mark.parametrize(
    ("kind", "body", "native"),
    [
        (
            "anthropic",
            message({"type": "thinking", "thinking": "Hm.", "signature": "s"}, TOOL_USE),
            [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, TOOL_USE],
        ),
        (
            "google",
            {"candidates": [{"content": {"parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "s"}]}}]},
            [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "s"}],
        ),
        ("openai", completion(None, tool_calls=[CALL], reasoning_content="Hm."), {"reasoning_content": "Hm."}),
    ],
)
def test_thoughts_before_a_call_are_kept_for_the_next_request(kind: str, body: dict[str, Any], native: object) -> None:
    reply = said(kind, body)
    assert isinstance(reply, Reply)
    assert reply.native == native
