"""Replies of every vendor in its own form: the answer without thoughts, all tokens, filters, and errors in its envelope."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from assay.core.model_call import ModelFailure, Reply, Usage
from assay.core.provider import PROVIDERS, ProviderKind
from tests.models.vendor_replies import conversed, generated, read, sent

REALDATA = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent")) / "provider_replies"
HOSTS: dict[str, ProviderKind] = {
    "api.openai.com": "openai",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.deepseek.com": "deepseek",
    "api.cerebras.ai": "cerebras",
    "openrouter.ai": "openrouter",
    "ollama.com": "ollama",
    "router.huggingface.co": "together",
}
"""Whose recorded chat completions are read as those of a row; other hosts as those of OpenAI."""


def completion(
    content: object = "4", *, finish: str = "stop", usage: dict[str, Any] | None = None, **message: Any
) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return {"id": "1", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage}


def tokens(prompt: int, written: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": total or prompt + written, **more}


ANSWERS: list[tuple[ProviderKind, dict[str, Any], Usage]] = [
    (
        "openai",
        completion(
            usage=tokens(9, 30, prompt_tokens_details={"cached_tokens": 4}, completion_tokens_details={"reasoning_tokens": 20}),
            refusal=None,
            annotations=[],
        ),
        Usage(9, 30, 39, 4, 20),
    ),
    (
        "azure",
        {
            **completion(usage=tokens(9, 1)),
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"jailbreak": {"filtered": False}}}],
        },
        Usage(9, 1, 10),
    ),
    (
        "mistral",
        completion(
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "2 + 2 ..."}], "closed": True},
                {"type": "text", "text": "4"},
                {"type": "reference", "reference_ids": [1]},
            ],
            usage=tokens(9, 5, num_cached_tokens=3),
        ),
        Usage(9, 5, 14, 3),
    ),
    (
        "groq",
        {**completion(reasoning="2 + 2 ...", usage=tokens(9, 5, queue_time=0.1)), "x_groq": {"id": "req_1", "seed": 7}},
        Usage(9, 5, 14),
    ),
    (
        "deepseek",
        completion(
            reasoning_content="2 + 2 ...",
            usage=tokens(9, 5, prompt_cache_hit_tokens=8, prompt_cache_miss_tokens=1),
        ),
        Usage(9, 5, 14, 8),
    ),
    (
        "xai",
        # xAI leaves the tokens of thoughts out of `completion_tokens`.
        completion(
            reasoning_content="2 + 2 ...",
            usage=tokens(9, 1, 110, completion_tokens_details={"reasoning_tokens": 100}),
        ),
        Usage(9, 101, 110, None, 100),
    ),
    (
        "openrouter",
        {
            **completion(
                reasoning="2 + 2 ...",
                reasoning_details=[{"type": "reasoning.text", "text": "2 + 2 ...", "index": 0}],
                usage=tokens(9, 5, cost=0.01, cost_details={"upstream_inference_cost": None}),
            ),
            "provider": "Azure",
        },
        Usage(9, 5, 14),
    ),
    ("together", {**completion(usage=tokens(9, 5, cached_tokens=2)), "prompt": []}, Usage(9, 5, 14, 2)),
    ("fireworks", completion(usage=tokens(9, 5, prompt_tokens_details={"cached_tokens": 2})), Usage(9, 5, 14, 2)),
    (
        "cerebras",
        {**completion(reasoning="2 + 2 ...", usage=tokens(9, 5)), "time_info": {"queue_time": 0.1}},
        Usage(9, 5, 14),
    ),
    ("ollama", {**completion(reasoning="2 + 2 ...", usage=tokens(9, 5)), "system_fingerprint": "fp_ollama"}, Usage(9, 5, 14)),
    (
        "vllm",
        {
            **completion(reasoning_content=None, tool_calls=[], usage=tokens(9, 5, prompt_tokens_details=None)),
            "prompt_logprobs": None,
        },
        Usage(9, 5, 14),
    ),
    (
        "lmstudio",
        {**completion(reasoning_content="2 + 2 ...", tool_calls=[], usage=tokens(9, 5)), "stats": {}},
        Usage(9, 5, 14),
    ),
    (
        "openai_responses",
        {
            "status": "completed",
            "model": "m-1",
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "message", "content": [{"type": "output_text", "text": "4"}]},
            ],
            "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14, "output_tokens_details": {"reasoning_tokens": 4}},
        },
        Usage(9, 5, 14, None, 4),
    ),
    (
        "anthropic",
        {
            "content": [{"type": "thinking", "thinking": "2 + 2 ..."}, {"type": "text", "text": "4"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "cache_read_input_tokens": 8, "output_tokens": 5},
        },
        Usage(9, 5, 14, 8),
    ),
    (
        "google",
        generated(
            {"text": "2 + 2 ...", "thought": True},
            {"text": "4", "thoughtSignature": "x"},
            promptTokenCount=6,
            toolUsePromptTokenCount=3,
            candidatesTokenCount=1,
            thoughtsTokenCount=4,
            totalTokenCount=14,
            cachedContentTokenCount=2,
        ),
        Usage(9, 5, 14, 2, 4),
    ),
    (
        "bedrock",
        conversed(
            {"reasoningContent": {"reasoningText": {"text": "2 + 2 ...", "signature": "x"}}},
            {"text": "4"},
            inputTokens=1,
            cacheReadInputTokens=5,
            cacheWriteInputTokens=3,
            outputTokens=5,
            totalTokens=14,
        ),
        Usage(9, 5, 14, 5),
    ),
]


@pytest.mark.parametrize(("kind", "body", "usage"), ANSWERS, ids=[kind for kind, _, _ in ANSWERS])
def test_an_answer_is_its_text_and_all_its_tokens(kind: ProviderKind, body: dict[str, Any], usage: Usage) -> None:
    reply = read(kind, body)
    assert isinstance(reply, Reply), reply
    assert (reply.text, reply.finish_reason, reply.usage, reply.flags) == ("4", "stop", usage, ())


def test_every_row_of_the_table_has_a_reply() -> None:
    assert {kind for kind, _, _ in ANSWERS} == {kind for kind, row in PROVIDERS.items() if row.vendor}


CALL = {"functionCall": {"name": "look", "args": {"at": "it"}}}
ENDS: list[tuple[ProviderKind, dict[str, Any], str]] = [
    ("google", {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}, "content_filtered"),
    ("google", {"candidates": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "content_filtered"),
    ("google", {"candidates": [{"finishReason": "SAFETY", "index": 0}]}, "content_filtered"),
    ("google", generated({"text": "The first ha"}, finish="RECITATION"), "content_filtered"),
    ("google", generated(finish="IMAGE_SAFETY"), "content_filtered"),
    ("google", {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}, "tool_call_only"),
    ("google", {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}, "answer_truncated"),
    ("google", generated({"inlineData": {"mimeType": "image/png", "data": ""}}), "empty_answer"),
    ("google", {"usageMetadata": {"promptTokenCount": 9}}, "internal_error"),
    ("bedrock", conversed({"text": "Blocked."}, stop="guardrail_intervened"), "content_filtered"),
    ("bedrock", conversed({"text": "The first ha"}, stop="content_filtered"), "content_filtered"),
    ("bedrock", conversed(), "empty_answer"),
    ("bedrock", conversed({"text": "{"}, stop="malformed_model_output"), "internal_error"),
    ("bedrock", {"Output": {"__type": "UnknownOperationException"}, "Version": "1.0"}, "internal_error"),
    ("openrouter", {"error": {"code": 429, "message": "Provider returned error"}}, "rate_limited"),
    (
        "openrouter",
        {"choices": [{"error": {"code": 502, "message": "Upstream error"}, "finish_reason": "error", "message": {}}]},
        "service_unavailable",
    ),
    ("azure", completion("", finish="content_filter"), "content_filtered"),
    ("deepseek", completion("", finish="insufficient_system_resource"), "service_unavailable"),
    ("mistral", completion([{"type": "thinking", "thinking": []}], finish="length"), "answer_truncated"),
]


@pytest.mark.parametrize(("kind", "body", "code"), ENDS)
def test_a_reply_without_an_answer_says_why(kind: ProviderKind, body: dict[str, Any], code: str) -> None:
    failure = read(kind, body)
    assert isinstance(failure, ModelFailure), failure
    assert failure.code == code, failure.message


ENVELOPES: list[tuple[ProviderKind, int, dict[str, Any], str]] = [
    (
        "azure",
        400,
        {
            "error": {
                "code": "content_filter",
                "param": "prompt",
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
        "content_filtered",
    ),
    ("azure", 401, {"statusCode": 401, "message": "Access denied due to invalid subscription key."}, "unauthorized"),
    ("azure", 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, "not_found"),
    (
        "google",
        400,
        {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}},
        "unauthorized",
    ),
    ("google", 404, {"error": {"code": 404, "message": "models/x is not found", "status": "NOT_FOUND"}}, "not_found"),
    (
        "google",
        429,
        {
            "error": {
                "code": 429,
                "message": "You exceeded your current quota.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}],
            }
        },
        "rate_limited",
    ),
    (
        "google",
        503,
        {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}},
        "service_unavailable",
    ),
    ("bedrock", 403, {"Message": "The security token included in the request is invalid"}, "forbidden"),
    ("bedrock", 400, {"message": "The provided model identifier is invalid."}, "not_found"),
    ("bedrock", 424, {"message": "The model returned an error.", "originalStatusCode": 500}, "internal_error"),
    ("bedrock", 429, {"message": "Too many tokens, please wait before trying again."}, "rate_limited"),
    ("mistral", 401, {"detail": "Unauthorized"}, "unauthorized"),
    ("mistral", 400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"}, "not_found"),
    ("mistral", 422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]}, "invalid_request"),
    ("groq", 498, {"error": {"message": "Flex tier capacity exceeded", "type": "capacity_exceeded"}}, "rate_limited"),
    ("deepseek", 402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}, "payment_required"),
    ("xai", 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: x."}, "unauthorized"),
    ("openrouter", 402, {"error": {"code": 402, "message": "Insufficient credits"}}, "payment_required"),
    ("openrouter", 403, {"error": {"code": 403, "message": "x", "metadata": {"flagged_input": "y"}}}, "content_filtered"),
    ("together", 404, {"error": {"message": "Unable to access model x", "type": "invalid_request_error"}}, "not_found"),
    ("fireworks", 404, {"error": {"object": "error", "message": "Model not found", "code": "NOT_FOUND"}}, "not_found"),
    ("cerebras", 404, {"message": "Model x does not exist", "type": "not_found_error", "code": "model_not_found"}, "not_found"),
    ("ollama", 404, {"error": {"message": "model 'x' not found", "type": "not_found_error"}}, "not_found"),
    (
        "vllm",
        404,
        {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
        "not_found",
    ),
    ("lmstudio", 400, {"error": "No models loaded. Please load a model in the developer page."}, "invalid_request"),
]


@pytest.mark.parametrize(("kind", "status", "body", "code"), ENVELOPES)
def test_an_error_is_read_in_its_vendors_envelope(kind: ProviderKind, status: int, body: dict[str, Any], code: str) -> None:
    failure = read(kind, body, status=status)
    assert isinstance(failure, ModelFailure)
    assert failure.code == code, failure.message
    assert "no explanation" not in failure.message


# Requests


def test_a_deployment_of_azure_stands_in_its_path_or_its_body() -> None:
    dated = "/openai/deployments/{model}?api-version=2024-10-21"
    assert sent("azure", "my gpt", path=dated)[0] == "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"
    path, body = sent("azure", "my gpt")
    assert (path, body["model"]) == ("/openai/v1/chat/completions", "my gpt")


@pytest.mark.parametrize(("kind", "name"), [("mistral", "random_seed"), ("groq", "seed")])
def test_a_seed_has_its_vendors_name(kind: ProviderKind, name: str) -> None:
    assert sent(kind, "m", path="/v1", seed=7)[1][name] == 7


# Recorded replies of real providers


def recorded(name: str) -> Iterator[tuple[ProviderKind, dict[str, Any]]]:
    usual: dict[str, ProviderKind] = {
        "messages": "anthropic",
        "responses": "openai_responses",
        "gemini": "google",
        "bedrock_converse": "bedrock",
    }
    for reply in json.loads((REALDATA / f"{name}.json").read_bytes()):
        host = urlsplit(reply["uri"]).hostname
        kind = HOSTS.get(host, "azure" if host.endswith(".azure.com") else "openai")
        yield usual.get(name, kind), reply


def texts_in(name: str, body: dict[str, Any]) -> list[str]:
    """The texts of an answer, found without the code under test."""
    match name:
        case "gemini":
            parts = (body["candidates"][0].get("content") or {}).get("parts") or []
            return [part["text"] for part in parts if "text" in part and not part.get("thought")]
        case "bedrock_converse":
            return [block["text"] for block in body["output"]["message"]["content"] if "text" in block]
        case "messages":
            return [block["text"] for block in body["content"] if block["type"] == "text"]
        case "responses":
            content = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
            return [part.get("text") or part.get("refusal") or "" for part in content]
        case _:
            message = body["choices"][0]["message"]
            content = message.get("content") or message.get("refusal") or ""
            return [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
@pytest.mark.parametrize("name", ["chat_completions", "responses", "messages", "gemini", "bedrock_converse"])
def test_recorded_replies_are_read_as_what_they_are(name: str) -> None:
    found: Counter[str] = Counter()
    for kind, reply in recorded(name):
        body = reply["body"]
        result = read(kind, body.encode() if isinstance(body, str) else body, status=reply["status"])
        if isinstance(result, ModelFailure):
            found[result.code] += 1
            assert reply["status"] != 200 or not "".join(texts_in(name, body) if _has_output(body) else []).strip()
            continue
        assert result.text == "".join(texts_in(name, body)), reply["name"]
        usage = result.usage
        if usage.total_tokens is not None and usage.output_tokens is not None:
            assert usage.input_tokens is not None
            assert usage.input_tokens + usage.output_tokens == usage.total_tokens, reply["name"]
            assert (usage.cached_tokens or 0) <= usage.input_tokens
            assert (usage.reasoning_tokens or 0) <= usage.output_tokens
        found["answer"] += 1
    assert set(found) <= {
        *("answer", "tool_call_only", "content_filtered", "empty_answer", "answer_truncated"),
        *("not_found", "invalid_request", "parameter_refused", "internal_error"),
    }
    assert found["answer"] >= 80


def _has_output(body: object) -> bool:
    return isinstance(body, dict) and any(body.get(name) for name in ("choices", "output", "content", "candidates"))
