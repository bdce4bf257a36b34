"""Google's generateContent: an answer has parts, thoughts are parts and tokens of their own, and filters withhold a reply."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.case import Message
from assay.core.model_call import ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.core.provider import MODEL_MARK
from assay.core.tools import ToolCall, ToolDefinition, ToolNames, arguments_object, tool_call
from assay.models.endpoint import resolve_endpoint
from assay.models.http_model import REPLY_TOOL, HttpModel, grouped_turns, merged, reply_call, with_role
from assay.models.negotiation import MAX_TOKENS, THINKING, Dialect, ReplyFormat, SentParameters, SystemRole, nested
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import schema_of
from assay.models.transport import HttpResult, ProviderAnswer, Transport, open_transport, reply_of

_FINISH = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "MALFORMED_FUNCTION_CALL": "tool_calls",
    "UNEXPECTED_TOOL_CALL": "tool_calls",
    "TOO_MANY_TOOL_CALLS": "tool_calls",
}
_FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR")
"""What the finish reasons of filters contain; those of images have a prefix, such as IMAGE_SAFETY."""
_FAILURE_CODES = {"MALFORMED_RESPONSE": "internal_error"}
"""Finish reasons that are errors."""


class _FunctionCall(msgspec.Struct, frozen=True):
    name: str | None = None
    args: Any = None
    id: str | None = None


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None
    tool_call: Any = None
    """A call that Google runs itself."""


class _Content(msgspec.Struct, frozen=True):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, frozen=True, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _PromptFeedback(msgspec.Struct, frozen=True, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _UsageMetadata(msgspec.Struct, frozen=True, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    total_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class _GeminiBody(msgspec.Struct, frozen=True, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _PromptFeedback | None = None
    usage: _UsageMetadata | None = msgspec.field(name="usageMetadata", default=None)
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_GeminiBody)
_NO_CANDIDATE = _Candidate()


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open Google's API of Gemini, or a server that speaks it, such as Vertex AI."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield lambda model: GeminiModel(transport, model)


class GeminiModel(HttpModel[_GeminiBody]):
    """One model behind generateContent."""

    messages_member = "contents"
    names_model = False
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        # `tunedModels/x` and `publishers/google/models/x` are resources, a bare name is a model.
        self.path = f"/{model.model}:generateContent" if "/" in model.model else f"/models/{MODEL_MARK}:generateContent"
        config = model.parameters.extra_body.get("generationConfig")
        is_set = isinstance(config, dict) and any(name.startswith("response") for name in config)
        super().__init__(transport, model, msgspec.structs.replace(_DIALECT, formats=("plain",)) if is_set else _DIALECT)

    def messages(self, ask: ModelRequest, role: SystemRole) -> tuple[Sequence[object], RequestMembers | None]:
        """Return the turns, and the instructions in a member of their own."""
        if role != "system":
            return _contents(with_role(ask.messages, role), self.tool_names(ask)), None
        system = "\n\n".join(message.content for message in ask.messages if message.role == "system")
        turns = _contents([message for message in ask.messages if message.role != "system"], self.tool_names(ask))
        return turns, {"systemInstruction": {"parts": [{"text": system}]}} if system else None

    def tool_members(self, tools: Sequence[ToolDefinition], names: ToolNames) -> RequestMembers:
        """Build `functionDeclarations`."""
        functions = [
            {"name": names.sent(tool.name), "description": tool.description, "parametersJsonSchema": schema_of(tool)}
            for tool in tools
        ]
        return {"tools": [{"functionDeclarations": functions}]}

    def members(self, sent: SentParameters) -> RequestMembers:
        """Build the parameters; the plan's own members are sent with them."""
        config: RequestMembers = {}
        own: RequestMembers = {}
        for name, value in sent.parameters.items():
            spelled = sent.names[name]
            if name not in _DIALECT.names:
                own = merged(own, nested(spelled, value, _DIALECT.containers))
            elif spelled in _THINKING:
                config = merged(config, {"thinkingConfig": {spelled: value}})
            else:
                config[spelled] = value
        return merged({"generationConfig": config} if config else {}, own)

    def schema_members(self, schema: Mapping[str, object], form: ReplyFormat) -> RequestMembers:
        """Build a response schema, or a function that the model must call."""
        if form == "json_schema":
            return {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": dict(schema)}}
        if form == "json_object":
            return {"generationConfig": {"responseMimeType": "application/json"}}
        if form == "plain":
            return {}
        function = {"name": REPLY_TOOL, "description": "Give the reply.", "parametersJsonSchema": dict(schema)}
        calling = {"mode": "ANY", "allowedFunctionNames": [REPLY_TOOL]}
        return {"tools": [{"functionDeclarations": [function]}], "toolConfig": {"functionCallingConfig": calling}}

    def read(self, result: HttpResult[_GeminiBody], applied: RequestMembers | None = None) -> Reply:
        """Parse a body; raises ModelFailure."""
        body = result.value
        request_id = result.request_id or body.response_id or ""
        blocked = body.prompt_feedback.block_reason if body.prompt_feedback else None
        if body.error:
            raise self.transport.refused({"error": body.error}, request_id)
        if body.candidates is None and not blocked:
            raise self.transport.unexpected(result, "it has no candidates", request_id)
        applied = self.applied if applied is None else applied
        candidate = body.candidates[0] if body.candidates else _NO_CANDIDATE
        parts = (candidate.content.parts if candidate.content else None) or []
        calls = _numbered(part.function_call for part in parts if part.function_call)
        called = reply_call(calls) if "toolConfig" in applied else None
        reason = candidate.finish_reason or ""
        answer = ProviderAnswer(
            text=_text(parts) if called is None else called,
            finish_reason=_finish(reason, is_blocked=bool(blocked), is_called=called is not None),
            usage=_usage(body.usage),
            model=body.model_version or "",
            request_id=request_id,
            explanation=_explanation(body, candidate),
            has_tool_calls=called is None and bool(calls or any(part.tool_call for part in parts)),
            tool_calls=calls if called is None else (),
            native=_native(parts) if calls else None,
            failure_code=_FAILURE_CODES.get(reason, ""),
        )
        return reply_of(answer, result, applied)


def _numbered(calls: Iterable[_FunctionCall]) -> tuple[ToolCall, ...]:
    # Gemini's own API leaves the ids out, and tells outputs apart by their order.
    return tuple(tool_call(call.name or "", call.args, call.id or f"call_{number}") for number, call in enumerate(calls))


def _native(parts: Sequence[_Part]) -> list[RequestMembers]:
    # A call without the signature of the thoughts before it is refused when its output is sent.
    found: list[RequestMembers] = []
    for part in parts:
        signature = {"thoughtSignature": part.thought_signature} if part.thought_signature else {}
        if part.function_call:
            call = {"name": part.function_call.name, "args": part.function_call.args or {}}
            found.append({"functionCall": call | ({"id": part.function_call.id} if part.function_call.id else {}), **signature})
        elif part.text is not None:
            found.append({"text": part.text, **({"thought": True} if part.thought else {}), **signature})
    return found


def _contents(messages: Sequence[object], names: ToolNames) -> list[object]:
    def turn(message: Message) -> RequestMembers:
        return {"role": "model" if message.role == "assistant" else "user", "parts": _message_parts(message, names)}

    def output(message: Message) -> RequestMembers:
        return {"functionResponse": {"name": names.sent(message.name), "response": _response(message.content)}}

    return grouped_turns(messages, turn, output=output, content="parts")


def _message_parts(message: Message, names: ToolNames) -> object:
    if not message.tool_calls:
        return [{"text": message.content}]
    text: list[RequestMembers] = [{"text": message.content}] if message.content else []
    calls = [{"functionCall": {"name": names.sent(call.name), "args": arguments_object(call)}} for call in message.tool_calls]
    return message.native or text + calls


def _response(output: str) -> RequestMembers:
    """Return the output of a tool as an object, which this API wants."""
    try:
        value = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        value = output
    return value if isinstance(value, dict) else {"output": value}


def _text(parts: Sequence[_Part]) -> str | None:
    """Return the answer without thoughts; None when no part is a text."""
    texts = [part.text for part in parts if part.text is not None and not part.thought]
    return "".join(texts) if texts else None


def _finish(reason: str, *, is_blocked: bool, is_called: bool) -> str:
    if is_blocked or any(word in reason for word in _FILTERED):
        return "content_filter"
    return "stop" if is_called else _FINISH.get(reason, reason)


def _explanation(body: _GeminiBody, candidate: _Candidate) -> str:
    """Return the words for the end of a reply: the reason of a filter, and the message where there is one."""
    feedback = body.prompt_feedback
    if feedback and feedback.block_reason:
        return ": ".join(filter(None, (f"the prompt is blocked ({feedback.block_reason})", feedback.block_reason_message)))
    return ": ".join(filter(None, (candidate.finish_reason, candidate.finish_message)))


def _usage(usage: _UsageMetadata | None) -> Usage:
    """Count all tokens of input and output: Google counts thoughts, and the results of its own tools, separately.

    A count of 0 is left out of the reply; it is known from the total.
    """
    if usage is None:
        return Usage()
    prompt, total = usage.prompt_token_count, usage.total_token_count
    spent = None if prompt is None else prompt + (usage.tool_use_prompt_token_count or 0)
    written = usage.candidates_token_count
    if written is not None:
        output: int | None = written + (usage.thoughts_token_count or 0)
    else:
        output = None if total is None or spent is None else max(0, total - spent)
    return Usage(
        input_tokens=spent,
        output_tokens=output,
        total_tokens=total,
        cached_tokens=usage.cached_content_token_count,
        reasoning_tokens=usage.thoughts_token_count,
    )


_THINKING = ("thinkingBudget", "thinkingLevel")
_DIALECT = Dialect(
    names={
        "temperature": ("temperature",),
        "top_p": ("topP",),
        "frequency_penalty": ("frequencyPenalty",),
        "presence_penalty": ("presencePenalty",),
        MAX_TOKENS: ("maxOutputTokens",),
        "seed": ("seed",),
        THINKING: ("thinkingBudget",),
        "reasoning_effort": ("thinkingLevel",),
    },
    roles=("system", "user"),
    containers=("generationConfig",),
)
