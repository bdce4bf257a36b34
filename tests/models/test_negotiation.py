"""Rejections of parameters, in the words of many providers, and what is sent after each."""

from typing import Any

import msgspec
import pytest

from assay.core.model_call import Adjustment, ModelFailure
from assay.core.settings import ModelParameters
from assay.models.failures import ErrorResponse, error_failure, status_failure
from assay.models.negotiation import UNBOUNDED, Dialect, Negotiator, shortened
from tests.models.asking import SCHEMA, ask_of

CHAT = Dialect(
    names={
        **{name: (name,) for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "reasoning_effort")},
        "max_tokens": ("max_tokens", "max_completion_tokens"),
    }
)
MESSAGES = Dialect(
    names={
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "max_tokens": ("max_tokens",),
        "thinking_budget": ("thinking", "adaptive"),
        "reasoning_effort": ("effort",),
    },
    formats=("json_schema", "tools", "plain"),
    roles=("system", "user"),
    requires_limit=True,
)
ALL = ModelParameters(
    temperature=0.0,
    top_p=0.9,
    frequency_penalty=0.1,
    presence_penalty=0.1,
    max_tokens=100_000,
    seed=1,
    reasoning_effort="high",
    thinking_budget=1_000,
)
OMITTED = "omitted"


def error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def anthropic(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}


def rejected(negotiator: Negotiator, body: object, *, status: int = 400) -> ModelFailure:
    response = ErrorResponse(provider="p", status=status, body=body)
    failure = status_failure(response) if status != 200 else error_failure(response)
    return negotiator.rejected(
        failure, negotiator.sent, ask_of("What is the temperature of 2 + 2?", system="Be brief.", reply_schema=SCHEMA)
    )


def learned(dialect: Dialect, body: object, *, status: int = 400, explicit: tuple[str, ...] = ()) -> dict[str, str]:
    failure = rejected(Negotiator(ALL, dialect, explicit=explicit), body, status=status)
    assert failure.is_negotiable == bool(failure.adjustments)
    return {adjustment.parameter: adjustment.value for adjustment in failure.adjustments}


def test_of_two_parameters_that_exclude_each_other_the_one_that_the_user_set_stays() -> None:
    both = anthropic("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    assert learned(MESSAGES, both, explicit=("top_p",)) == {"temperature": OMITTED}
    assert learned(MESSAGES, both, explicit=("temperature",)) == {"top_p": OMITTED}


def test_what_was_learned_is_sent_by_the_next_request_and_by_other_workers() -> None:
    negotiator = Negotiator(ALL, CHAT)
    found = rejected(negotiator, error("Unsupported parameter: 'temperature' is not supported.", "temperature")).adjustments
    assert "temperature" not in negotiator.sent.body()
    other = Negotiator(ALL, CHAT)
    other.apply(found)
    assert other.sent == negotiator.sent
    assert other.sent.refused == ("temperature",)


def test_a_call_in_flight_during_a_rejection_is_sent_again_and_teaches_nothing_new() -> None:
    negotiator = Negotiator(ALL, CHAT)
    sent = negotiator.sent
    refusal = error("Unsupported parameter: 'temperature' is not supported.", "temperature")
    rejected(negotiator, refusal)
    late = ModelFailure("invalid_request", "", http_status=400)
    late.error_body = refusal
    negotiator.rejected(late, sent, ask_of())
    assert (late.is_negotiable, late.adjustments) == (True, ())


def test_a_name_that_is_rejected_too_after_the_other_one_is_left_out() -> None:
    negotiator = Negotiator(ALL, CHAT)
    for name in ("max_tokens", "max_completion_tokens"):
        assert rejected(negotiator, error(f"Unsupported parameter: '{name}' is not supported.", name)).is_negotiable
    assert not {"max_tokens", "max_completion_tokens"} & negotiator.sent.body().keys()


def test_forms_of_a_reply_are_tried_from_the_strictest_to_none() -> None:
    negotiator = Negotiator(ALL, CHAT)
    forms = [negotiator.sent.reply_format]
    while rejected(negotiator, error("response_format, tools: not supported")).is_negotiable:
        forms.append(negotiator.sent.reply_format)
    assert forms == ["json_schema", "json_object", "tools", "plain"]


def test_an_api_that_requires_a_limit_is_asked_for_its_own_maximum() -> None:
    negotiator = Negotiator(ModelParameters(), MESSAGES)
    assert negotiator.sent.body()["max_tokens"] == UNBOUNDED
    rejected(negotiator, anthropic("max_tokens: 1000000 > 64000, which is the maximum allowed number of output tokens"))
    assert negotiator.sent.body()["max_tokens"] == 64_000


def test_limits_are_tried_in_turn_where_a_rejection_states_none() -> None:
    negotiator = Negotiator(ModelParameters(), MESSAGES)
    tried = []
    while rejected(negotiator, anthropic("max_tokens is too large for this model")).is_negotiable:
        tried.append(negotiator.sent.body()["max_tokens"])
    assert tried == [128_000, 64_000, 32_000, 16_384, 8_192, 4_096]


def test_a_request_that_is_too_long_for_the_limit_gets_what_the_context_leaves_and_teaches_nothing() -> None:
    negotiator = Negotiator(ModelParameters(max_tokens=64_000), MESSAGES)
    failure = rejected(negotiator, anthropic("input length and `max_tokens` exceed context limit: 199000 + 64000 > 204698"))
    assert failure.adjustments == ()
    fitting = shortened(failure, negotiator.sent)
    assert fitting is not None
    assert fitting.parameters["max_tokens"] == 5_698


def test_an_adjustment_tells_the_words_of_the_provider_and_whether_the_user_had_set_the_parameter() -> None:
    failure = rejected(
        Negotiator(ALL, MESSAGES, explicit=("temperature",)), anthropic("`temperature` is deprecated for this model.")
    )
    assert failure.adjustments == (
        Adjustment("temperature", OMITTED, "`temperature` is deprecated for this model.", is_explicit=True),
    )


@pytest.mark.parametrize(
    "message",
    [
        "Input validation error: `temperature` must be strictly positive",
        "`temperature` (=0.0) has to be a strictly positive float",
        "Input should be greater than 0: temperature",
    ],
)
def test_a_preference_that_is_out_of_range_is_left_out_and_a_setting_is_the_users_mistake(message: str) -> None:
    assert learned(CHAT, error(message)) == {"temperature": OMITTED}
    assert learned(CHAT, error(message), explicit=("temperature",)) == {}


def test_of_two_forms_of_thinking_each_is_tried_once() -> None:
    negotiator = Negotiator(ALL, MESSAGES)
    rejected(negotiator, anthropic('"thinking.type.enabled" is not supported. Use "thinking.type.adaptive" instead.'))
    rejected(negotiator, anthropic("adaptive thinking is not supported on this model. Use thinking.type.enabled instead."))
    assert not {"thinking", "adaptive"} & negotiator.sent.body().keys()


def test_a_limit_above_the_context_is_lowered_where_the_api_requires_one() -> None:
    negotiator = Negotiator(ModelParameters(), MESSAGES)
    assert rejected(
        negotiator, anthropic("input length and `max_tokens` exceed context limit: 20 + 1000000 > 200000")
    ).is_negotiable
    assert negotiator.sent.body()["max_tokens"] == 128_000


def test_strict_parameters_adjust_nothing_that_the_user_set() -> None:
    refusal = error("Unsupported parameter: 'temperature' is not supported.", "temperature")
    strict = Negotiator(ALL, CHAT, explicit=("temperature",))
    strict.is_strict = True
    failure = rejected(strict, refusal)
    assert (failure.is_refused_setting, failure.is_negotiable, strict.adjustments) == (True, False, ())
    preference = Negotiator(ALL, CHAT)
    preference.is_strict = True
    assert rejected(preference, refusal).is_negotiable


def test_strict_parameters_allow_another_name_of_the_same_limit() -> None:
    negotiator = Negotiator(ALL, CHAT, explicit=("max_tokens",))
    negotiator.is_strict = True
    refusal = error("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens")
    assert rejected(negotiator, refusal).is_negotiable


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("Invalid JSON payload received. Unknown name \"topK\" at 'generation_config': Cannot find field.", "topK"),
        ("stop sequences are not supported by this model", "stopSequences"),
        ("generation_config.media_resolution is not supported", "mediaResolution"),
    ],
)
def test_a_rejection_names_a_member_of_a_container_with_or_without_it(message: str, name: str) -> None:
    config = {"topK": 5, "stopSequences": ["END"], "mediaResolution": "LOW"}
    dialect = msgspec.structs.replace(CHAT, containers=("generationConfig",))
    failure = rejected(Negotiator(ModelParameters(extra_body={"generationConfig": config}), dialect), error(message))
    assert [adjustment.parameter for adjustment in failure.adjustments] == [f"generationConfig.{name}"]


OWN = ModelParameters(extra_body={"provider": {"order": ["x"]}, "stop": ["END"], "top_k": 5})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (error("Provider returned error: Unsupported parameter: 'temperature'. We stop here."), {"temperature": OMITTED}),
        (error("Unsupported parameter: 'stop' is not supported with this model."), {"stop": OMITTED}),
        (error("Unrecognized request argument supplied: top_k"), {"top_k": OMITTED}),
        (error("Unknown parameter: stop"), {"stop": OMITTED}),
        (error("It is not supported.", "provider"), {"provider": OMITTED}),
        ({"code": "x", "error": "Argument not supported on this model: stop"}, {"stop": OMITTED}),
        (error("stop: not supported by this model"), {"stop": OMITTED}),
        (error("Stop sequences are not supported by this model."), {"stop": OMITTED}),
    ],
)
def test_a_member_of_the_users_own_is_rejected_where_it_stands_as_a_name(body: object, expected: dict[str, str]) -> None:
    failure = rejected(Negotiator(OWN, CHAT), body)
    assert {adjustment.parameter: adjustment.value for adjustment in failure.adjustments} == expected


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens. Please reduce the length.",
        "'max_tokens' is too large: 100000. The context length is 8192 tokens and your request has 9000 (100000 > 8192 - 9000).",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Prompt is too long: max_tokens cannot be met",
    ],
)
def test_a_request_that_is_too_long_by_itself_rejects_no_parameter(message: str) -> None:
    assert learned(CHAT, error(message)) == {}
