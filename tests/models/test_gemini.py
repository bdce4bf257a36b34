"""Google's generateContent: requests in its own form, and a judge's reply by a function call."""

from assay.core.model_call import ModelFailure, Reply
from tests.models.asking import SCHEMA
from tests.models.vendor_replies import generated, judged, read, sent


def test_google_gets_contents_instructions_and_a_configuration() -> None:
    path, body = sent("google", "gemini-2.5-pro", path="/v1beta", seed=7, max_tokens=9, thinking_budget=64)
    assert path == "/v1beta/models/gemini-2.5-pro:generateContent"
    assert body == {
        "contents": [{"role": "user", "parts": [{"text": "What is 2 + 2?"}]}],
        "systemInstruction": {"parts": [{"text": "Be short."}]},
        "generationConfig": {"temperature": 0.0, "seed": 7, "maxOutputTokens": 9, "thinkingConfig": {"thinkingBudget": 64}},
    }


def test_google_gets_a_schema_beside_the_plans_own_members() -> None:
    extra = {"safetySettings": [], "generationConfig": {"topK": 4}}
    _, body = sent("google", "tunedModels/mine", schema=True, temperature=None, extra_body=extra)
    config = {"topK": 4, "responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert (body["generationConfig"], body["safetySettings"]) == (config, [])


def test_a_bare_address_of_google_gets_the_version_of_the_api() -> None:
    assert sent("google", "tunedModels/mine")[0] == "/v1beta/tunedModels/mine:generateContent"


def test_a_wait_in_googles_details_is_followed() -> None:
    failure = read("google", {"error": {"code": 429, "details": [{"retryDelay": "7s"}]}}, status=429)
    assert isinstance(failure, ModelFailure)
    assert (failure.retry_after, failure.is_exhausted) == (7.0, False)


def test_a_schema_that_is_refused_becomes_a_function_call() -> None:
    refusals = ["responseJsonSchema is not supported", "response_mime_type is not supported for this model"]
    reply = judged("google", refusals, generated({"functionCall": {"name": "reply", "args": {"score": 4}}}))
    assert (reply.text, reply.finish_reason) == ('{"score":4}', "stop")


def test_an_odd_member_costs_no_answer() -> None:
    body = generated({"text": "4", "thought": None}, {"functionCall": {"name": None}})
    reply = read("google", {**body, "usageMetadata": {"promptTokenCount": "many"}})
    assert isinstance(reply, Reply)
    assert (reply.text, reply.usage.input_tokens) == ("4", None)
