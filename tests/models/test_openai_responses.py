"""OpenAI's responses API: what is sent, and what is made of the answer."""

import pytest

from assay.core.model_call import ModelFailure, Usage
from assay.testing import StubProvider, StubReply
from tests.models.asking import SCHEMA, plan_of, provider_of, reply_to
from tests.models.test_openai_chat import ALL, sent


def test_responses_are_asked_in_their_own_words() -> None:
    assert sent("openai_responses", parameters=ALL, reply_schema=SCHEMA) == {
        "model": "stub",
        "store": False,
        "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}],
        "text": {"format": {"type": "json_schema", "name": "reply", "schema": SCHEMA, "strict": True}},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
        "reasoning": {"effort": "low"},
    }


def test_a_response_becomes_a_reply() -> None:
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": [{"type": "output_text", "text": "4"}]}]
    usage = {"input_tokens": 40, "output_tokens": 12, "total_tokens": 52, "input_tokens_details": {"cached_tokens": 3}}
    body = {"id": "resp-1", "status": "completed", "output": output, "usage": usage, "error": None}
    with StubProvider([StubReply(body=body)]) as stub:
        reply = reply_to(plan_of(provider_of("openai_responses", stub.base_url)))
    assert (reply.text, reply.finish_reason, reply.request_id) == ("4", "stop", "resp-1")
    assert reply.usage == Usage(40, 12, 52, 3)
    assert stub.requests[0].path == "/v1/responses"


@pytest.mark.parametrize(("reason", "code"), [("content_filter", "content_filtered"), ("max_output_tokens", "answer_truncated")])
def test_an_incomplete_response_without_text_is_no_answer(reason: str, code: str) -> None:
    body = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}
    with StubProvider([StubReply(body=body)]) as stub, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai_responses", stub.base_url)))
    assert caught.value.code == code


def test_a_failed_response_is_classed_by_its_error() -> None:
    body = {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow down"}, "output": []}
    with StubProvider([StubReply(body=body)]) as stub, pytest.raises(ModelFailure, match="slow down") as caught:
        reply_to(plan_of(provider_of("openai_responses", stub.base_url)))
    assert caught.value.code == "rate_limited"
