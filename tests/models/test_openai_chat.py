"""Chat completions and responses: what is sent, and what is made of the answer."""

from typing import Any

import pytest

from assay.core.model_call import ModelFailure, Usage
from assay.core.plan import ModelPlan
from assay.core.settings import ModelParameters, ProviderEntry
from assay.engine.planning.providers import provider_plan
from assay.models.endpoint import Endpoint
from assay.models.http_client import HttpPool
from assay.models.openai_chat import ChatModel
from assay.models.transport import Transport
from assay.testing import StubProvider, StubReply
from tests.models.asking import KEY, SCHEMA, ask_of, plan_of, provider_of, reply_to

ALL = ModelParameters(
    temperature=0.5, top_p=0.9, frequency_penalty=0.1, presence_penalty=0.2, max_tokens=100, seed=7, reasoning_effort="low"
)


def sent(kind: Any, *, parameters: ModelParameters | None = None, reply_schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """The body that a server received."""
    with StubProvider() as stub:
        plan = plan_of(provider_of(kind, stub.base_url), parameters=parameters)
        reply_to(plan, ask_of(system="Be brief.", reply_schema=reply_schema))
    body: dict[str, Any] = stub.requests[0].body
    return body


def vendor_model(model: str, parameters: ModelParameters) -> dict[str, Any]:
    """The parameters that OpenAI's own host would be sent."""
    endpoint = Endpoint(provider="p", kind="openai", url="https://api.openai.com/v1", is_vendor=True)
    transport = Transport(endpoint, HttpPool(endpoint.url, seconds=1.0), headers={}, keep_raw=False)
    return ChatModel(transport, ModelPlan(name="m", provider="p", model=model, parameters=parameters)).applied


def test_a_completion_becomes_a_reply() -> None:
    usage = {
        "prompt_tokens": 40,
        "completion_tokens": 12,
        "total_tokens": 52,
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    choice = {"message": {"content": "4"}, "finish_reason": "stop"}
    body = {"id": "x", "model": "stub-2", "choices": [choice], "usage": usage}
    with StubProvider([StubReply(body=body, headers={"x-request-id": "req-1"})]) as stub:
        reply = reply_to(plan_of(provider_of("openai", stub.base_url)))
    assert (reply.text, reply.finish_reason, reply.model, reply.request_id) == ("4", "stop", "stub-2", "req-1")
    assert reply.usage == Usage(40, 12, 52, 30, 8)
    assert (reply.applied, reply.flags, reply.raw) == ({"temperature": 0.0}, (), "")


def test_the_messages_and_every_parameter_are_sent() -> None:
    assert sent("openai", parameters=ALL) == {
        "model": "stub",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "max_tokens": 100,
        "seed": 7,
        "reasoning_effort": "low",
    }


def test_no_temperature_is_sent_where_the_plan_leaves_it_to_the_provider() -> None:
    assert "temperature" not in sent("openai", parameters=ModelParameters(temperature=None))


@pytest.mark.parametrize("extra", [{}, {"response_format": {"type": "json_schema"}}])
def test_a_server_is_sent_a_schema(extra: dict[str, Any]) -> None:
    assert sent("openai", parameters=ModelParameters(extra_body=extra), reply_schema=SCHEMA)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }


def test_a_response_format_of_the_plan_is_sent_without_a_schema() -> None:
    wanted = ModelParameters(extra_body={"response_format": {"type": "json_object"}})
    assert sent("openai", parameters=wanted, reply_schema=SCHEMA)["response_format"] == {"type": "json_object"}


def test_the_vendors_own_host_gets_its_own_name_for_the_token_limit() -> None:
    assert vendor_model("gpt-4o", ModelParameters(max_tokens=9)) == {"temperature": 0.0, "max_completion_tokens": 9}


@pytest.mark.parametrize("model", ["o3-mini", "gpt-5", "gpt-4o"])
def test_no_name_of_a_model_decides_what_it_is_sent(model: str) -> None:
    assert vendor_model(model, ALL).keys() == vendor_model("gpt-4o", ALL).keys()


def test_a_key_goes_out_in_one_header_and_nowhere_else() -> None:
    with StubProvider() as stub:
        reply_to(plan_of(provider_of("openai", stub.base_url, key_variable="TEST_KEY")))
    assert {name for name, value in stub.requests[0].headers.items() if KEY in value} == {"authorization"}
    assert KEY not in str(stub.requests[0].body)


def test_without_a_key_no_authorization_is_sent() -> None:
    with StubProvider() as stub:
        reply_to(plan_of(provider_of("openai", stub.base_url)), environ={"OPENAI_API_KEY": KEY})
    assert "authorization" not in stub.requests[0].headers


def test_the_environment_names_the_address_where_the_run_file_does_not() -> None:
    with StubProvider() as stub:
        environ = {"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": KEY}
        provider = provider_plan(ProviderEntry(name="p", kind="openai"), environ)
        assert reply_to(plan_of(provider), environ=environ).text == "The answer is 4."
    assert stub.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_headers_of_the_plan_are_sent_and_may_name_a_variable() -> None:
    headers = {"x-project": "alpha", "api-key": "$TEST_KEY"}
    with StubProvider() as stub:
        reply_to(plan_of(provider_of("openai", stub.base_url, headers=headers)))
    received = stub.requests[0].headers
    assert (received["x-project"], received["api-key"]) == ("alpha", KEY)


def test_an_answer_that_ran_out_of_tokens_is_flagged() -> None:
    body = {"choices": [{"message": {"content": "The answ"}, "finish_reason": "length"}]}
    with StubProvider([StubReply(body=body)]) as stub:
        reply = reply_to(plan_of(provider_of("openai", stub.base_url)))
    assert (reply.text, reply.finish_reason, reply.flags) == ("The answ", "length", ("truncated",))


def test_an_answer_in_parts_is_put_together() -> None:
    content = [{"type": "text", "text": "2 + 2 "}, {"type": "image"}, {"type": "text", "text": "= 4"}]
    with StubProvider([StubReply(body={"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})]) as stub:
        assert reply_to(plan_of(provider_of("openai", stub.base_url))).text == "2 + 2 = 4"


def test_a_refusal_in_words_is_an_answer() -> None:
    body = {"choices": [{"message": {"content": None, "refusal": "I will not."}, "finish_reason": "stop"}]}
    with StubProvider([StubReply(body=body)]) as stub:
        reply = reply_to(plan_of(provider_of("openai", stub.base_url)))
    assert (reply.text, reply.flags) == ("I will not.", ("refusal",))


def test_an_error_inside_a_choice_is_a_failure() -> None:
    body = {"choices": [{"error": {"code": 502, "message": "upstream"}, "finish_reason": "error"}]}
    with StubProvider([StubReply(body=body)]) as stub, pytest.raises(ModelFailure, match="upstream") as caught:
        reply_to(plan_of(provider_of("openai", stub.base_url)))
    assert caught.value.code == "service_unavailable"
