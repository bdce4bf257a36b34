"""Replies with their flags, or failures, from what a provider answered."""

from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelFailure, Reply, Usage, with_total
from assay.models.failures import shorten, shown_id
from assay.models.transport import HttpResult


class ProviderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in one protocol's terms, before it becomes a reply."""

    text: str | None
    """None when the provider sent no text at all; an empty text is an answer."""
    finish_reason: str
    """stop, length, content_filter, tool_calls, or the provider's own word."""
    usage: Usage
    model: str
    request_id: str
    is_refusal: bool = False
    """The model refuses to answer, in words."""
    has_tool_calls: bool = False
    """The model calls tools; without a text the reply is not an answer, since tool calls are not graded."""
    failure_code: str = ""
    """Set when the end is an error (`finish_reason` has the provider's word for it): the text is then not an answer."""


def reply_of(answer: ProviderAnswer, result: HttpResult[Any], applied: JsonObject) -> Reply:
    """Build the reply; raises ModelFailure when there is no answer, which a retry would not change."""
    found, finish = answer.text, answer.finish_reason
    if found is None or finish == "content_filter" or answer.failure_code or _is_tool_call_only(answer):
        raise _no_answer(answer)
    # Not every database and file format can hold a NUL.
    text = found.replace("\x00", "\ufffd")
    has_replaced = result.has_replaced or text != found
    is_plain = finish == "stop" and not has_replaced and not answer.is_refusal
    return Reply(
        text=text,
        finish_reason=finish,
        usage=with_total(answer.usage),
        model=answer.model,
        request_id=shown_id(answer.request_id),
        applied=applied,
        flags=() if is_plain else _flags(answer, has_replaced=has_replaced),
        raw=result.raw,
    )


def _is_tool_call_only(answer: ProviderAnswer) -> bool:
    """Return True for a reply of tool calls alone: some providers send null as its text, others an empty string."""
    calls_tools = answer.has_tool_calls or answer.finish_reason == "tool_calls"
    return calls_tools and not (answer.text or "").strip()


def _flags(answer: ProviderAnswer, *, has_replaced: bool) -> tuple[str, ...]:
    flags = {
        "truncated": answer.finish_reason == "length",
        "replaced_characters": has_replaced,
        "refusal": answer.is_refusal,
    }
    return tuple(name for name, is_set in flags.items() if is_set)


def _no_answer(answer: ProviderAnswer) -> ModelFailure:
    finish, request_id = answer.finish_reason, shown_id(answer.request_id)
    if finish == "content_filter":
        return ModelFailure("content_filtered", "the provider's filter withheld the answer", http_status=200, request_id=request_id)
    if answer.failure_code:
        message = f"the provider ended the reply with '{finish}'"
        return ModelFailure(answer.failure_code, shorten(message), http_status=200, request_id=request_id)
    if _is_tool_call_only(answer):
        message = "the reply holds tool calls and no text; tool calls are not graded"
        return ModelFailure("tool_call_only", message, http_status=200, request_id=request_id)
    message = f"the reply holds no answer (it ended with '{finish or 'no reason'}')"
    return ModelFailure("empty_answer", message, http_status=200, request_id=request_id)
