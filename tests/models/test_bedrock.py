"""Bedrock's Converse: requests in its own form, and a judge's reply by a tool."""

import json

from assay.core.model_call import ModelFailure, Reply
from assay.core.settings import ModelParameters
from assay.testing import StubProvider, StubReply
from tests.models.asking import SCHEMA, plan_of, provider_of
from tests.models.vendor_replies import conversed, judged, negotiated, read, sent


def test_bedrock_has_the_model_in_its_path() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/x"
    path, body = sent("bedrock", arn, max_tokens=9, thinking_budget=2048, reasoning_effort="low")
    assert path == "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fx/converse"
    assert body == {
        "messages": [{"role": "user", "content": [{"text": "What is 2 + 2?"}]}],
        "system": [{"text": "Be short."}],
        "inferenceConfig": {"temperature": 0.0, "maxTokens": 9},
        "additionalModelRequestFields": {
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "reasoning_effort": "low",
        },
    }


def test_a_rejected_member_of_a_container_is_left_out_alone() -> None:
    own = {
        "inferenceConfig": {"stopSequences": ["END"]},
        "additionalModelRequestFields": {"top_k": 5},
        "serviceTier": {"type": "flex"},
    }
    refusal = {"message": "This model doesn't support the stopSequences field. Remove stopSequences and try again."}
    with StubProvider([StubReply(status=400, body=refusal), StubReply(body=conversed({"text": "4"}))]) as stub:
        parameters = ModelParameters(temperature=0.5, extra_body=own)
        negotiated(plan_of(provider_of("bedrock", stub.base_url.removesuffix("/v1")), parameters=parameters), attempts=2)
    first, second = (request.body for request in stub.requests)
    assert first["inferenceConfig"] == {"temperature": 0.5, "stopSequences": ["END"]}
    assert second["inferenceConfig"] == {"temperature": 0.5}
    for name in ("additionalModelRequestFields", "serviceTier"):
        assert first[name] == second[name] == own[name]


def test_bedrock_gets_a_schema_as_a_text() -> None:
    _, body = sent("bedrock", "m", schema=True)
    described = body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert json.loads(described["schema"]) == SCHEMA


def test_bedrocks_request_id_is_that_of_its_header() -> None:
    failure = read("bedrock", {"message": "x"}, status=400, headers={"x-amzn-RequestId": "id-1"})
    assert isinstance(failure, ModelFailure)
    assert failure.request_id == "id-1"


def test_a_schema_that_is_refused_becomes_a_tool() -> None:
    called = conversed({"toolUse": {"toolUseId": "1", "name": "reply", "input": {"score": 4}}}, stop="tool_use")
    reply = judged("bedrock", ["This model doesn't support the outputConfig.textFormat field."], called)
    assert (reply.text, reply.finish_reason) == ('{"score":4}', "stop")


def test_a_text_with_citations_is_part_of_the_answer() -> None:
    cited = {"citationsContent": {"content": [{"text": "4"}], "citations": [{"title": "Sums"}]}}
    reply = read("bedrock", conversed({"text": "It is "}, cited, {"citationsContent": {"citations": []}}))
    assert isinstance(reply, Reply)
    assert reply.text == "It is 4"
