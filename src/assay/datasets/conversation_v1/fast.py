"""Fast path of conversation_v1: typed decoding accepts clean conversations, all others go to the exact rules."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import UNSET, Meta, UnsetType

from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.fast_path import FastPath, RowSchema, ShallowObject, ShallowValue, StringCounts


class CleanTurn(Protocol):
    """A decoded turn; its class is made from the settings."""

    turn_id: int
    speaker: str
    message: str
    assistant_reply: str
    tool_used: str | UnsetType
    tool_input: object
    tool_output: object
    confidence_score: float | UnsetType
    metadata: object


Conversations = FastPath[list[CleanTurn]]

_BLANK = " "
"""Stands for an absent text, so that the search for blank texts finds it; never written."""


class _ConversationChecks:
    """Checks of conversations that types cannot express, under some settings."""

    def __init__(self, config: ValidationConfig) -> None:
        self._config = config

    def count_strings(self, conversations: Sequence[list[CleanTurn]]) -> StringCounts | None:
        """Count the strings of conversations, if no text is blank, turns count from 1, and each tool has input and output."""
        turns = list(chain.from_iterable(conversations))
        # One list of all texts, so that they are searched by one pass of a function written in C.
        texts = [turn.message if turn.speaker == "user" else turn.assistant_reply for turn in turns]
        is_clean = self._have_clean_ids(conversations, turns) and not any(map(str.isspace, texts))
        return self._count_written(turns) if is_clean else None

    def _have_clean_ids(self, conversations: Sequence[list[CleanTurn]], turns: list[CleanTurn]) -> bool:
        sizes = list(map(len, conversations))
        if min(sizes) < max(1, self._config.min_turns) or max(sizes) > self._config.max_turns:
            return False
        # Compared as one list: ids that count from 1 need no dictionary, and anything else goes to the exact rules.
        numbers = list(range(1, max(sizes) + 1))
        return [turn.turn_id for turn in turns] == list(chain.from_iterable([numbers[:size] for size in sizes]))

    def _count_written(self, turns: list[CleanTurn]) -> StringCounts | None:
        """Count five strings in every turn, and names and texts of optional fields.

        What is not expected is not counted: input and output without a tool, and words that are for the other speaker.
        """
        calls = [turn for turn in turns if turn.tool_used is not UNSET]
        inputs = [turn.tool_input for turn in calls if turn.tool_input is not UNSET]
        outputs = [turn.tool_output for turn in calls if turn.tool_output is not UNSET]
        if not self._are_clean_calls(calls, inputs, outputs):
            return None
        metadata = [turn.metadata for turn in turns if turn.metadata is not UNSET]
        scored = [turn for turn in turns if turn.confidence_score is not UNSET]
        strings = 5 * len(turns) + 2 * len(calls) + len(scored) + len(metadata) + len(inputs) + len(outputs)
        return StringCounts(strings, metadata + inputs + outputs, scored)

    def _are_clean_calls(self, calls: list[CleanTurn], inputs: list[object], outputs: list[object]) -> bool:
        config = self._config
        # A tool on a turn of the user is a warning, which only the exact rules write.
        if "user" in {turn.speaker for turn in calls}:
            return False
        if config.allowed_tools is not None and not {turn.tool_used for turn in calls} <= set(config.allowed_tools):
            return False
        has_inputs = len(inputs) == len(calls) or not config.require_tool_input
        return has_inputs and (len(outputs) == len(calls) or not config.require_tool_output)


def fast_path_for(config: ValidationConfig) -> Conversations | None:
    """Return the fast path for some settings; None if they name other speakers or fields than the defaults."""
    kind = _row_schema(msgspec.json.encode(config))
    return None if kind is None else Conversations(kind)


@lru_cache(64)
def _row_schema(settings: bytes) -> RowSchema[list[CleanTurn]] | None:
    """Build the schema of some settings; cached, because making the types takes milliseconds."""
    config = msgspec.json.decode(settings, type=ValidationConfig)
    usual = ValidationConfig()
    # Types are made for the contract's own fields; settings with others are rare and slower.
    if config.required_fields != usual.required_fields or config.optional_fields != usual.optional_fields:
        return None
    if config.allowed_speakers != usual.allowed_speakers:
        return None
    score = Annotated[float, Meta(ge=config.confidence_score_min, le=config.confidence_score_max)]
    message = _text(config.min_message_length, config.max_message_length, config)
    reply = _text(config.min_assistant_reply_length, config.max_assistant_reply_length, config)
    turn = msgspec.defstruct(
        "Turn",
        [
            ("assistant_reply", reply, _BLANK),
            ("confidence_score", score | UnsetType, UNSET),
            ("message", message, _BLANK),
            ("metadata", ShallowObject | UnsetType, UNSET),
            ("speaker", Literal["user", "assistant"]),
            ("tool_input", ShallowObject | UnsetType, UNSET),
            ("tool_output", ShallowValue | UnsetType, UNSET),
            ("tool_used", str | UnsetType, UNSET),
            ("turn_id", int),
        ],
        kw_only=True,
        forbid_unknown_fields=True,
        # Written again for hashes, a turn must have the members that it was read with, and no others.
        omit_defaults=True,
        gc=False,
    )
    decoder = msgspec.json.Decoder(list[turn])  # type: ignore[valid-type]  # the type is made from the settings
    return RowSchema(decoder, b"[]", _ConversationChecks(config).count_strings, "confidence_score")


def _text(low: int, high: int, config: ValidationConfig) -> Any:
    return Annotated[str, Meta(min_length=0 if config.allow_empty_messages and low <= 1 else max(low, 1), max_length=high)]
