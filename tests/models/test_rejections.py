"""Rejections of parameters, read in the words of many providers."""

import pytest

from tests.models.test_negotiation import ALL, CHAT, MESSAGES, OMITTED, anthropic, error, learned

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
    (
        400,
        {"code": "x", "error": "Model grok-4-1-fast-reasoning does not support parameter presencePenalty."},
        {"presence_penalty": OMITTED},
    ),
    (
        422,
        {"message": "property 'seed' is unsupported", "param": "validation_error", "code": "wrong_api_format"},
        {"seed": OMITTED},
    ),
    (400, {"message": "This model doesn\u2019t support the temperature field."}, {"temperature": OMITTED}),
    (400, {"errors": {"seed": ["unknown field"]}}, {"seed": OMITTED}),
    (400, {"error": {"code": "UNSUPPORTED_PARAMETER", "message": "seed"}}, {"seed": OMITTED}),
    (400, error("Thinking level is not supported for this model."), {"reasoning_effort": OMITTED}),
    (400, error("You can only set only one of temperature and top_p."), {"temperature": OMITTED}),
    (400, error("The specified schema produces a constraint that has too many states."), {"reply_format": "json_object"}),
    (400, error("Function calling is not enabled for models/gemma"), {"reply_format": "json_object"}),
    (500, error("failed to parse grammar"), {"reply_format": "json_object"}),
    (
        400,
        error('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        {"reply_format": "json_object"},
    ),
    (
        422,
        {"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text' or 'json_object'"}]},
        {"reply_format": "json_object"},
    ),
    (422, {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "Input should be 'user'"}]}, {"system": "developer"}),
    (
        400,
        error("Invalid value: 'developer'. Supported values are: 'system' and 'user'.", "messages[0].role", "invalid_value"),
        {"system": "developer"},
    ),
    (400, {"object": "error", "message": "Unexpected message role."}, {"system": "developer"}),
    (422, {"detail": [{"loc": ["body", "system"], "msg": "Extra inputs are not permitted"}]}, {"system": "developer"}),
    (400, error('Unknown name "systemInstruction": Cannot find field.'), {"system": "developer"}),
    (
        400,
        error(
            "This model's maximum context length is 8192 tokens. However, you requested 100000 output tokens and your prompt "
            "contains at least 30 input tokens, for a total of at least 100030 tokens.",
            "input_tokens",
        ),
        {"max_tokens": OMITTED},
    ),
    (
        400,
        error(
            "This endpoint's maximum context length is 8192 tokens. However, you requested about 100030 tokens "
            "(30 of text input, 100000 in the output)."
        ),
        {"max_tokens": OMITTED},
    ),
    (400, error("temperature 参数非法"), {"temperature": OMITTED}),
]


@pytest.mark.parametrize(
    "message",
    [
        "The parameter temperature is disabled for this model.",
        "The temperature parameter has been removed.",
        "You can't set temperature for this model.",
        "Do not set temperature with this model.",
        "temperature is fixed at 1 for this model",
        "unknown key: temperature",
        "temperature must be omitted with this model",
        "temperature: not available",
    ],
)
def test_a_rejection_is_read_whether_the_user_or_assay_chose_the_value(message: str) -> None:
    for explicit in ((), ("temperature",)):
        assert learned(CHAT, error(message), explicit=explicit) == {"temperature": OMITTED}


def test_a_preference_of_ours_is_left_out_in_whatever_words_its_name_is_rejected() -> None:
    said = error("Please reconsider `temperature` here.")
    assert learned(CHAT, said) == {"temperature": OMITTED}
    assert learned(CHAT, said, explicit=("temperature",)) == {}


def test_our_temperature_yields_to_the_users_top_p() -> None:
    said = {"object": "error", "message": "top_p must be 1 when using greedy sampling.", "code": "3054"}
    assert learned(CHAT, said, explicit=("top_p",)) == {"temperature": OMITTED}


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
        ("system: Extra inputs are not permitted", {"system": "user"}),
        ("output_config.effort: This model does not support effort.", {"reasoning_effort": OMITTED}),
        ("thinking: Input tag 'enabled' does not match any of the expected tags: 'adaptive'", {"thinking_budget": "adaptive"}),
        ("extraneous key [outputConfig] is not permitted", {"reply_format": "tools"}),
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
