"""The fast lane of conversation_v1: typed decoding accepts clean conversations, all others go to the exact rules."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from assay.core.json_door import MAX_TOKENS
from assay.datasets.config import ValidationConfig
from assay.datasets.scan import Pieces, unlike
from assay.datasets.shallow import ShallowObject, ShallowValue

_encode = msgspec.json.Encoder().encode


class Lane:
    """Types made from the settings; `None` as a verdict asks for the exact rules."""

    def __init__(self, config: ValidationConfig) -> None:
        self._config = config
        self._decode = _decoder(msgspec.json.encode(config))

    def accept(self, conversations: Sequence[bytes]) -> list[int | None]:
        """For each conversation its number of turns, if it is proved clean."""
        read = [self._read(content) for content in conversations]
        source = Pieces(conversations)
        bad = unlike(source, Pieces([b"" if turns is None else _encode(turns) for turns in read]))
        bad |= source.with_more_values_than(MAX_TOKENS)
        return [None if turns is None or at in bad else len(turns) for at, turns in enumerate(read)]

    def _read(self, content: bytes) -> list[Any] | None:
        if self._decode is None:
            return None
        try:
            turns = self._decode(content)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        is_clean = (
            self._config.min_turns <= len(turns) <= self._config.max_turns
            and turns
            and [turn.turn_id for turn in turns] == list(range(1, len(turns) + 1))
            and _are_clean(turns, self._config)
        )
        return turns if is_clean else None


def _are_clean(turns: list[Any], config: ValidationConfig) -> bool:
    """What types cannot say: nothing blank, and a tool with its input and output."""
    for turn in turns:
        if turn.said.isspace():
            return False
        if turn.tool_used is UNSET:
            if turn.tool_input is not UNSET or turn.tool_output is not UNSET:
                return False
        elif not _is_clean_tool(turn, config):
            return False
    return True


def _is_clean_tool(turn: Any, config: ValidationConfig) -> bool:
    if config.allowed_tools is not None and turn.tool_used not in config.allowed_tools:
        return False
    has_input = turn.tool_input is not UNSET or not config.require_tool_input
    return has_input and (turn.tool_output is not UNSET or not config.require_tool_output)


class _Spoken(msgspec.Struct, gc=False, tag_field="speaker", forbid_unknown_fields=True, kw_only=True):
    turn_id: int
    tool_used: UnsetType = UNSET
    tool_input: UnsetType = UNSET
    tool_output: UnsetType = UNSET
    metadata: ShallowObject | UnsetType = UNSET
    confidence_score: float | UnsetType = UNSET


@lru_cache(64)
def _decoder(settings: bytes) -> Callable[[bytes], list[Any]] | None:
    """A decoder for the usual speakers and fields; other settings have no fast lane. Making one takes 10 milliseconds."""
    config = msgspec.json.decode(settings, type=ValidationConfig)
    usual = ValidationConfig()
    if config.required_fields != usual.required_fields or config.optional_fields != usual.optional_fields:
        return None
    if config.allowed_speakers != usual.allowed_speakers:
        return None
    score = Annotated[float, Meta(ge=config.confidence_score_min, le=config.confidence_score_max)]
    message = _text(config.min_message_length, config.max_message_length, config)
    reply = _text(config.min_assistant_reply_length, config.max_assistant_reply_length, config)
    any_turn: list[tuple[str, Any, Any]] = [("confidence_score", score | UnsetType, UNSET)]
    user = msgspec.defstruct(
        "User",
        [("said", message, msgspec.field(name="message")), *any_turn],
        bases=(_Spoken,),
        tag="user",
        kw_only=True,
        forbid_unknown_fields=True,
        gc=False,
    )
    assistant = msgspec.defstruct(
        "Assistant",
        [
            ("said", reply, msgspec.field(name="assistant_reply")),
            ("tool_used", str | UnsetType, UNSET),
            ("tool_input", ShallowObject | UnsetType, UNSET),
            ("tool_output", ShallowValue | UnsetType, UNSET),
            *any_turn,
        ],
        bases=(_Spoken,),
        tag="assistant",
        kw_only=True,
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(list[user | assistant]).decode  # type: ignore[valid-type]  # the types are made from the settings


def _text(low: int, high: int, config: ValidationConfig) -> Any:
    return Annotated[str, Meta(min_length=0 if config.allow_empty_messages and low <= 1 else max(low, 1), max_length=high)]
