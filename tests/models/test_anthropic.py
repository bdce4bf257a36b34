"""Anthropic's messages: what is sent, and what is made of the answer."""

from typing import Any

import pytest

from assay.core.model_call import ModelFailure, Usage
from assay.core.settings import ModelParameters
from assay.models.negotiation import UNBOUNDED
from assay.testing import StubProvider, StubReply
from tests.models.asking import KEY, SCHEMA, ask_of, plan_of, provider_of, reply_to

ALL = ModelParameters(temperature=0.5, top_p=0.9, frequency_penalty=0.1, presence_penalty=0.2, max_tokens=100, seed=7)


def sent(parameters: ModelParameters | None = None, *, system: str = "Be brief.") -> dict[str, Any]:
    with StubProvider() as stub:
        plan = plan_of(provider_of("anthropic", stub.base_url), parameters=parameters)
        reply_to(plan, ask_of(system=system, reply_schema=SCHEMA))
    body: dict[str, Any] = stub.requests[0].body
    return body


def test_the_system_prompt_goes_apart_and_only_known_parameters_are_sent() -> None:
    assert sent(ALL) == {
        "model": "stub",
        "messages": [{"role": "user", "content": "What is 2 + 2?"}],
        "system": "Be brief.",
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }


def test_a_limit_above_every_models_own_is_sent_where_the_plan_has_none() -> None:
    assert sent(ModelParameters(), system="")["max_tokens"] == UNBOUNDED


def test_effort_and_schema_share_a_member() -> None:
    config = sent(ModelParameters(reasoning_effort="low"))["output_config"]
    assert config == {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}


def test_thinking_leaves_room_for_the_answer_and_its_conflict_with_a_temperature_is_the_providers_to_reject() -> None:
    body = sent(ModelParameters(thinking_budget=2000))
    assert (body["max_tokens"], body["thinking"]) == (UNBOUNDED, {"type": "enabled", "budget_tokens": 2000})
    assert body["temperature"] == 0.0


def test_the_key_and_the_version_are_headers() -> None:
    with StubProvider() as stub:
        reply_to(plan_of(provider_of("anthropic", stub.base_url.removesuffix("/v1"), key_variable="TEST_KEY")))
    request = stub.requests[0]
    assert (request.path, request.headers["x-api-key"], request.headers["anthropic-version"]) == ("/v1/messages", KEY, "2023-06-01")
    assert "authorization" not in request.headers


def test_an_answer_becomes_a_reply_with_all_of_its_input_counted() -> None:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "It is "}, {"type": "text", "text": "4."}]
    usage = {"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 5, "output_tokens": 7}
    body = {"id": "msg-1", "model": "claude", "content": content, "stop_reason": "end_turn", "usage": usage}
    with StubProvider([StubReply(body=body, headers={"request-id": "req-9"})]) as stub:
        reply = reply_to(plan_of(provider_of("anthropic", stub.base_url)))
    assert (reply.text, reply.finish_reason, reply.request_id, reply.model) == ("It is 4.", "stop", "req-9", "claude")
    assert reply.usage == Usage(input_tokens=95, output_tokens=7, total_tokens=102, cached_tokens=80)


def test_an_answer_that_ran_out_of_tokens_is_flagged() -> None:
    body = {"content": [{"type": "text", "text": "It"}], "stop_reason": "max_tokens"}
    with StubProvider([StubReply(body=body)]) as stub:
        assert reply_to(plan_of(provider_of("anthropic", stub.base_url))).flags == ("truncated",)


@pytest.mark.parametrize(("stop_reason", "code"), [("refusal", "content_filtered"), ("end_turn", "empty_answer")])
def test_an_answer_without_text_is_no_answer(stop_reason: str, code: str) -> None:
    with StubProvider([StubReply(body={"content": [], "stop_reason": stop_reason})]) as stub, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("anthropic", stub.base_url)))
    assert caught.value.code == code


def test_an_overloaded_service_is_unavailable() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with StubProvider([StubReply(status=529, body=body)]) as stub, pytest.raises(ModelFailure, match="Overloaded") as caught:
        reply_to(plan_of(provider_of("anthropic", stub.base_url)))
    assert (caught.value.code, caught.value.http_status) == ("service_unavailable", 529)
