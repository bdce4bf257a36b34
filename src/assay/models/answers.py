"""What a provider's answer amounts to: a reply with its flags, or the failure of an answer that is none."""

from typing import Any

import msgspec

from assay.core.ask import ModelFailure, Reply, Usage, with_total
from assay.models.failures import shorten, shown_id
from assay.models.transport import Exchanged


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in the words of one protocol, before it is a reply."""

    text: str | None
    """None where the provider sent no text at all; an empty text is an answer."""
    finish_reason: str
    """stop, length, content_filter, tool_calls, or the provider's own word."""
    usage: Usage
    model: str
    request_id: str
    is_refusal: bool = False
    """The model says in words that it will not answer."""
    has_tool_calls: bool = False
    """The model calls tools; without a text the reply is not an answer, since tool calls are not graded."""
    failure_code: str = ""
    """Of an end that is an error (`finish_reason` has the provider's word for it): then whatever was said is no answer."""


def reply_of(answered: Answered, exchanged: Exchanged[Any], applied: dict[str, Any]) -> Reply:
    """The reply; raises ModelFailure when there is no answer, which asking again would not change."""
    found, finish = answered.text, answered.finish_reason
    if found is None or finish == "content_filter" or answered.failure_code or _is_tool_call_only(answered):
        raise _no_answer(answered)
    # Databases and files cannot be trusted to hold a NUL.
    text = found.replace("\x00", "\ufffd")
    has_replaced = exchanged.has_replaced or text != found
    is_plain = finish == "stop" and not has_replaced and not answered.is_refusal
    return Reply(
        text=text,
        finish_reason=finish,
        usage=with_total(answered.usage),
        model=answered.model,
        request_id=shown_id(answered.request_id),
        applied=applied,
        flags=() if is_plain else _flags(answered, has_replaced=has_replaced),
        raw=exchanged.raw,
    )


def _is_tool_call_only(answered: Answered) -> bool:
    """Return True for a reply of tool calls alone: some providers send null as its text, others an empty string."""
    calls_tools = answered.has_tool_calls or answered.finish_reason == "tool_calls"
    return calls_tools and not (answered.text or "").strip()


def _flags(answered: Answered, *, has_replaced: bool) -> tuple[str, ...]:
    flags = {
        "truncated": answered.finish_reason == "length",
        "replaced_characters": has_replaced,
        "refusal": answered.is_refusal,
    }
    return tuple(name for name, is_set in flags.items() if is_set)


def _no_answer(answered: Answered) -> ModelFailure:
    finish, request_id = answered.finish_reason, shown_id(answered.request_id)
    if finish == "content_filter":
        return ModelFailure("content_filtered", "the provider's filter withheld the answer", http_status=200, request_id=request_id)
    if answered.failure_code:
        message = f"the provider ended the reply with '{finish}'"
        return ModelFailure(answered.failure_code, shorten(message), http_status=200, request_id=request_id)
    if _is_tool_call_only(answered):
        message = "the reply holds tool calls and no text; tool calls are not graded"
        return ModelFailure("tool_call_only", message, http_status=200, request_id=request_id)
    message = f"the reply holds no answer (it ended with '{finish or 'no reason'}')"
    return ModelFailure("empty_answer", message, http_status=200, request_id=request_id)
