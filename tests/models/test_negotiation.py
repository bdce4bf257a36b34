"""Rejections of parameters, in the words of many providers, and what is sent after each."""

from typing import Any

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


REJECTIONS: list[tuple[int, object, dict[str, str]]] = [
    (400, error("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"), {"temperature": OMITTED}),
    (
        400,
        error("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is.", "temperature"),
        {"temperature": OMITTED},
    ),
    (
        400,
        error("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens"),
        {"max_tokens": "max_completion_tokens"},
    ),
    (
        400,
        error("max_tokens is too large: 100000. This model supports at most 16384 completion tokens.", "max_tokens"),
        {"max_tokens": "16384"},
    ),
    (
        400,
        error("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role"),
        {"system": "developer"},
    ),
    (
        400,
        error("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", "response_format"),
        {"reply_format": "json_object"},
    ),
    (400, error("Unrecognized request argument supplied: reasoning_effort"), {"reasoning_effort": OMITTED}),
    (400, error("property 'reasoning_effort' is unsupported"), {"reasoning_effort": OMITTED}),
    (
        400,
        {
            "error": {
                "cause": '{\n "error": {\n "message": "Unsupported value: \'temperature\' does not support 0.1"}}',
                "code": 400,
            }
        },
        {"temperature": OMITTED},
    ),
    (
        400,
        error("litellm.UnsupportedParamsError: azure does not support parameters: ['temperature', 'seed'], for model=o3-mini."),
        {"temperature": OMITTED, "seed": OMITTED},
    ),
    (
        400,
        error('AnthropicException - {"type":"error","error":{"message":"`temperature` is deprecated for this model."}}'),
        {"temperature": OMITTED},
    ),
    (
        422,
        {"message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}},
        {"seed": OMITTED},
    ),
    (
        422,
        {"message": '{"detail":[{"loc":["body","frequency_penalty"],"msg":"Extra inputs are not permitted"}]}'},
        {"frequency_penalty": OMITTED},
    ),
    (400, {"code": "invalid", "error": "Argument not supported on this model: presencePenalty"}, {"presence_penalty": OMITTED}),
    (400, {"error": "Model grok-4.20 does not support parameter reasoningEffort."}, {"reasoning_effort": OMITTED}),
    (400, error("This response_format type is unavailable now"), {"reply_format": "json_object"}),
    (422, error("response_format: response_format.type `json_schema` is unavailable now"), {"reply_format": "json_object"}),
    (405, {"message": "json_object response format is not supported for model: x"}, {"reply_format": "json_object"}),
    (400, error("Thinking mode does not support this tool_choice"), {"reply_format": "json_object"}),
    (400, error("`max_completion_tokens` must be less than or equal to `32768`", "max_completion_tokens"), {"max_tokens": "32768"}),
    (400, error("Range of max_tokens should be [1, 8192]"), {"max_tokens": "8192"}),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "it has a maxOutputTokens value of 100000 but the supported range is to 65537 (exclusive)",
            }
        },
        {"max_tokens": "65536"},
    ),
    (400, {"message": "The maximum tokens you requested exceeds the model limit of 8192."}, {"max_tokens": "8192"}),
    (400, error("'max_tokens' is too large: 100000. The context length is 4096 (100000 > 4096 - 30)."), {"max_tokens": OMITTED}),
    (400, {"object": "error", "message": "System role not supported"}, {"system": "developer"}),
    (400, {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}, {"system": "developer"}),
    (400, {"error": {"message": "Developer instruction is not enabled for models/gemma"}}, {"system": "developer"}),
    (400, {"error": {"message": "JSON mode is not enabled for models/gemma"}}, {"reply_format": "json_object"}),
    (400, {"error": {"message": "Penalty is not enabled for models/gemini"}}, {"frequency_penalty": OMITTED}),
    (
        400,
        {"message": "This model doesn't support the temperature field. Remove it and try again."},
        {"temperature": OMITTED},
    ),
    (400, {"message": "Extra inputs are not permitted, field: 'seed'"}, {"seed": OMITTED}),
    (404, error("No endpoints found that support the parameters: temperature"), {"temperature": OMITTED}),
    (400, error("invalid temperature: only 1 is allowed for this model"), {"temperature": OMITTED}),
    (
        400,
        error("response_format value as json_schema is enabled only for newer api versions"),
        {"reply_format": "json_object"},
    ),
    (
        400,
        {
            "object": "error",
            "message": (
                "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not "
                "permitted', 'input': 1}, {'type': 'extra_forbidden', 'loc': ('body', 'reasoning_effort'), "
                "'msg': 'Extra inputs are not permitted', 'input': 'high'}]"
            ),
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        {"seed": OMITTED, "reasoning_effort": OMITTED},
    ),
    (
        422,
        {
            "detail": [
                {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 1},
                {"type": "less_than_equal", "loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 8192"},
            ]
        },
        {"seed": OMITTED, "max_tokens": "8192"},
    ),
    (
        400,
        error("litellm.BadRequestError: OpenAIException - Unsupported value: 'temperature' does not support 0.0", "None", "400"),
        {"temperature": OMITTED},
    ),
    (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": (
                        '{"error":{"message":"Unsupported parameter: \'top_p\' is not supported with this '
                        'model.","type":"invalid_request_error","param":"top_p","code":"unsupported_parameter"}}'
                    ),
                    "provider_name": "OpenAI",
                },
            }
        },
        {"top_p": OMITTED},
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": (
                    "Invalid JSON payload received. Unknown name \"presencePenalty\" at 'generation_config': Cannot find field."
                ),
                "status": "INVALID_ARGUMENT",
                "details": [{"fieldViolations": [{"field": "generation_config", "description": 'Unknown name "presencePenalty"'}]}],
            }
        },
        {"presence_penalty": OMITTED},
    ),
    (
        400,
        {"message": "Malformed input request: #: extraneous key [seed] is not permitted, please reformat your input."},
        {"seed": OMITTED},
    ),
    (
        400,
        {"message": "The model returned the following errors: max_tokens: 100000 > 64000, which is the maximum allowed number"},
        {"max_tokens": "64000"},
    ),
    (400, {"message": "This model doesn't support system messages. Try again without a system message."}, {"system": "developer"}),
    (400, error("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), {"max_tokens": "8192"}),
    (
        422,
        error(
            "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `system`, expected `user`"
        ),
        {"system": "developer"},
    ),
    (
        422,
        {"error": "Failed to deserialize the JSON body into the target type: response_format: missing field `value` at line 1"},
        {"reply_format": "json_object"},
    ),
    (400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}, {"reply_format": "json_object"}),
    (
        400,
        error("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.", "messages"),
        {"reply_format": "json_object"},
    ),
    (400, {"error": {"message": '"llama3" does not support thinking'}}, {"reasoning_effort": OMITTED}),
    (400, error("With reasoning enabled, `temperature` is not supported by this model."), {"temperature": OMITTED}),
    (400, error("Error code: 400 - max_tokens is too large for this model: at most 4096"), {"max_tokens": "4096"}),
    (
        400,
        error(
            "This model's maximum context length is 8192 tokens. However, you requested 100030 tokens "
            "(30 in the messages, 100000 in the completion)."
        ),
        {"max_tokens": OMITTED},
    ),
    (
        400,
        error(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 30 "
            "`inputs` tokens and 100000 `max_new_tokens`"
        ),
        {"max_tokens": OMITTED},
    ),
    (
        500,
        {"error": {"message": "property 'body.frequency_penalty' is unsupported", "param": "frequency_penalty"}},
        {"frequency_penalty": OMITTED},
    ),
    (200, {"error": {"error": {"message": "Unsupported parameter: 'seed'", "code": 400}}}, {"seed": OMITTED}),
]


@pytest.mark.parametrize(("status", "body", "expected"), REJECTIONS)
def test_a_rejection_of_a_parameter_is_read_in_the_words_of_any_provider(
    status: int, body: object, expected: dict[str, str]
) -> None:
    assert learned(CHAT, body, status=status) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("`temperature` is deprecated for this model.", {"temperature": OMITTED}),
        ("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.", {"temperature": OMITTED}),
        ("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.", {"top_p": OMITTED}),
        ('"thinking.type.enabled" is not supported. Use "thinking.type.adaptive" instead.', {"thinking_budget": "adaptive"}),
        ("This model does not support effort level 'xhigh'. Supported levels: high, low.", {"reasoning_effort": OMITTED}),
        ("max_tokens: 100000 > 64000, which is the maximum allowed for claude-x-4-5-20251101", {"max_tokens": "64000"}),
        ("output_config.format.schema: For 'integer' type, property maximum is not supported", {"reply_format": "tools"}),
    ],
)
def test_rejections_of_the_messages_api_are_read(message: str, expected: dict[str, str]) -> None:
    assert learned(MESSAGES, anthropic(message)) == expected


@pytest.mark.parametrize(
    "body",
    [
        error("Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1.", "temperature"),
        error("The requested model 'gpt-x' does not exist.", "model", "model_not_found"),
        error("Invalid 'messages[3]'. Content blocks are expected to be either text or image_url type.", "messages[3]"),
        error(
            "The maximum context length is 8192 tokens.",
            "messages",
            "context_length_exceeded",
        ),
        anthropic("prompt is too long: 210000 tokens > 200000 maximum"),
        error("The temperature of the discussion is high: input flagged"),
        error("Unsupported parameter: 'top_k' is not supported with this model.", "top_k"),
        error("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.", "max_tokens"),
        anthropic("`max_tokens` must be greater than `thinking.budget_tokens`."),
        {"error": {"message": "Your request was blocked by our safety system: 'temperature is not supported'", "code": 400}},
        error("Unsupported prompt: 'What is the temperature of 2 + 2?' is not allowed by the operator"),
    ],
)
def test_a_failure_that_rejects_no_parameter_that_was_sent_stays_a_failure(body: object) -> None:
    assert learned(CHAT, body, explicit=tuple(ALL.__struct_fields__)) == {}


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
