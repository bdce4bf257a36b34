"""The rules of conversation_v1, applied exactly: turns in, findings and cases out."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case, Message, Role, Turn
from assay.core.issue import Finding, Guess, Path
from assay.core.strict_json import MAX_DEPTH, ParsedDocument, ParseProblem
from assay.datasets.parsing.checks import (
    guess_at,
    guess_misspelling,
    retype_hint,
    short,
    shown_integer,
    strings_in,
    type_name,
    unknown_members,
)
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.record_fields import drop_turn_nulls, turn_fields

ErrorType = Literal[
    "structure_error",
    "required_field_missing",
    "invalid_field_type",
    "invalid_field_value",
    "sequence_error",
    "content_error",
    "tool_error",
]

SPEAKER_FIELDS = {"user": "message", "assistant": "assistant_reply"}
"""Field with the text of each speaker."""
_NUMBER_NAMES = {"confidence_score": "Invalid confidence_score", "turn_id": "Invalid turn_id value"}
_FLAW_NAMES = {"invalid_json": "Invalid JSON", "invalid_yaml": "Invalid YAML", "payload_too_large": "File too large"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_LIKE = {
    "turn": '{"turn_id": 1, "speaker": "user", "message": "..."}',
    "turn_id": "1",
    "speaker": '"user" or "assistant"',
    "tool_input": '{"city": "Berlin"}, or {} for a tool without arguments',
    "confidence_score": "0.9",
    "metadata": '{"source": "..."}',
}
"""Examples of what fields hold."""
TOOL_FIELDS = ("tool_used", "tool_input", "tool_output")
_TYPED_FIELDS = {
    (field,)
    for field in ("turn_id", "speaker", *SPEAKER_FIELDS.values(), "tool_used", "tool_input", "confidence_score", "metadata")
}
# The contract has seven error types of its own. Issues also carry the codes of batch_v1, which all contracts share.
_BATCH_CODES: dict[ErrorType, str] = {
    "structure_error": "invalid_field_type",
    "required_field_missing": "missing_required_field",
    "invalid_field_type": "invalid_field_type",
    "invalid_field_value": "value_out_of_range",
    "sequence_error": "value_out_of_range",
    "content_error": "value_out_of_range",
    "tool_error": "missing_required_field",
}
"""batch_v1 code of an error type, unless a rule names another."""


def finding(
    error_type: ErrorType, name: str, path: Path, message: str, *, code: str = "", hint: str = "", guess: Guess | None = None
) -> Finding:
    """Build a finding with the contract's own name for it."""
    return Finding(code or _BATCH_CODES[error_type], path, message, hint, name=name, error_type=error_type, guess=guess)


def check_document(document: ParsedDocument, config: ValidationConfig) -> Iterator[Finding]:
    """Check the text, and the one conversation in it by every rule."""
    yield from check_text(document)
    # A line that is not JSON was reported as such, and is not reported again as a turn of a wrong type.
    # A number out of range was read as 0, which is not in the text.
    unread = {flaw.path for flaw in document.flaws if flaw.code in ("invalid_json", "value_out_of_range")}
    if config.null_as_absent:
        drop_conversation_nulls(document.value, config)
    if document.is_readable and not is_empty(document):
        yield from (found for found in check_conversation(document.value, config) if found.path not in unread)


def drop_conversation_nulls(turns: object, config: ValidationConfig) -> bool:
    """Remove the nulls that count as absent from the turns; returns whether there was one."""
    optional = turn_fields(config)
    return sum(len(drop_turn_nulls(turn, optional)) for turn in (turns if type(turns) is list else ())) > 0


def is_empty(document: ParsedDocument) -> bool:
    """Return whether a YAML text has no value; a JSON null is one."""
    return document.is_readable and document.value is None and document.text.strip() != "null"


def _is_too_large(flaw: ParseProblem) -> bool:
    return flaw.code == "payload_too_large"


def check_text(document: ParsedDocument) -> Iterator[Finding]:
    """Report the problems of the text under the contract's names."""
    # A text that is too long for YAML was not read at all.
    is_blank = document.value is None and not document.text.strip() and not any(map(_is_too_large, document.flaws))
    if is_blank or is_empty(document):
        # An empty text is not JSON; as YAML it is a document without turns.
        code = document.flaws[0].code if document.flaws else "value_out_of_range"
        yield finding("structure_error", "Empty data", (), "the document is empty", code=code, hint="write a list of turns")
        return
    for flaw in document.flaws:
        error_type: ErrorType = "structure_error"
        name = _FLAW_NAMES.get(flaw.code, "Invalid text")
        if flaw.code == "value_out_of_range":
            error_type, name = "invalid_field_value", _NUMBER_NAMES.get(str(flaw.path[-1:] and flaw.path[-1]), "Invalid number")
        found = finding(error_type, name, flaw.path, flaw.message, code=flaw.code, hint=flaw.hint)
        yield msgspec.structs.replace(found, offset=flaw.offset)


def check_conversation(turns: object, config: ValidationConfig) -> Iterator[Finding]:
    """Check one conversation by every rule: its shape, each turn, and the turn ids."""
    yield from check_shape(turns, config)
    if type(turns) is not list:
        return
    for position, turn in enumerate(turns):
        yield from check_turn(turn, position, config)
    yield from check_ids(turns, config)


def check_shape(turns: object, config: ValidationConfig) -> Iterator[Finding]:
    """Check that the conversation is a list with as many turns as configured."""
    if type(turns) is not list:
        hint = "write the turns as a list at the top of the file"
        yield finding(
            "structure_error", "Invalid root type", (), f"the root must be a list of turns, not {type_name(turns)}", hint=hint
        )
    elif not turns:
        hint = "write a list of turns"
        yield finding("structure_error", "Empty data", (), "the conversation has no turns", code="value_out_of_range", hint=hint)
    elif not config.min_turns <= len(turns) <= config.max_turns:
        message = f"the conversation has {len(turns):,} turns; allowed is {config.min_turns:,} to {config.max_turns:,}"
        hint = "set max_turns or min_turns in a config file (--config)"
        yield finding("structure_error", "Turn count violation", (), message, code="value_out_of_range", hint=hint)


def check_turn(turn: object, position: int, config: ValidationConfig) -> Iterator[Finding]:
    """Check one turn by every rule."""
    path: Path = (position,)
    if type(turn) is not dict:
        message, hint = f"a turn must be an object, not {type_name(turn)}", retype_hint("an object", turn, like=_LIKE["turn"])
        yield finding("structure_error", "Invalid turn type", path, message, hint=hint)
        return
    yield from _check_required(turn, path, config)
    yield from _check_turn_id(turn, path)
    yield from _check_speaker(turn, path, config)
    yield from _check_texts(turn, path, config)
    yield from _check_tools(turn, path, config)
    yield from _check_confidence(turn, path, config)
    if "metadata" in turn and type(turn["metadata"]) is not dict:
        yield _wrong_type("metadata", path, "an object", turn["metadata"])
    yield from _check_habits(turn, path, config)
    yield from _check_characters(turn, path)
    yield from _check_numbers(turn, path)


def _wrong_type(field: str, path: Path, expected: str, value: object, *, is_optional: bool = True) -> Finding:
    hint = retype_hint(expected, value, like=_LIKE.get(field, ""))
    if value is None and is_optional:
        hint = "leave the field out instead of writing null"
    message = f"{field} must be {expected}, not {type_name(value)}"
    return finding("invalid_field_type", f"Invalid {field} type", (*path, field), message, hint=hint)


def _check_required(turn: Mapping[str, object], path: Path, config: ValidationConfig) -> Iterator[Finding]:
    """Check required fields: text fields belong to their speakers, every other one to every turn."""
    speaker = turn.get("speaker")
    own = _own_field(speaker) if speaker in config.allowed_speakers else None
    # `message` in required_fields would reject every assistant turn, so text fields bind only to the speakers they belong to.
    needed = dict.fromkeys(field for field in config.required_fields if field not in SPEAKER_FIELDS.values())
    for field in (*needed, own):
        if field is not None and field not in turn:
            yield finding(
                "required_field_missing",
                f"Missing {field}",
                (*path, field),
                f"{field} is required",
                guess=guess_misspelling(field, turn, (*config.required_fields, *config.optional_fields)),
            )


def _check_turn_id(turn: Mapping[str, object], path: Path) -> Iterator[Finding]:
    if "turn_id" not in turn:
        return
    # Exact type: true is an int to Python, and not to the contract.
    if type(turn["turn_id"]) is not int:
        yield _wrong_type("turn_id", path, "an integer", turn["turn_id"], is_optional=False)
    elif turn["turn_id"] < 1:
        yield finding(
            "invalid_field_value", "Invalid turn_id value", (*path, "turn_id"), "turn_id must be positive", hint="ids count from 1"
        )


def _check_speaker(turn: Mapping[str, object], path: Path, config: ValidationConfig) -> Iterator[Finding]:
    if "speaker" not in turn:
        return
    speaker = turn["speaker"]
    if type(speaker) is not str:
        yield _wrong_type("speaker", path, "a string", speaker, is_optional=False)
    elif speaker not in config.allowed_speakers:
        allowed = ", ".join(config.allowed_speakers)
        message = f"speaker is {short(speaker)}; allowed: {allowed}"
        yield finding(
            "invalid_field_value",
            "Invalid speaker value",
            (*path, "speaker"),
            message,
            code="invalid_enum_value",
            hint="add it to allowed_speakers if it is meant",
            guess=guess_at(speaker, config.allowed_speakers),
        )


def _check_texts(turn: Mapping[str, object], path: Path, config: ValidationConfig) -> Iterator[Finding]:
    """Check lengths of the speaker's own text; a text of the other speaker is odd, and may be empty."""
    own = _own_field(turn.get("speaker"))
    for field in SPEAKER_FIELDS.values():
        if field not in turn:
            continue
        text = turn[field]
        if type(text) is not str:
            yield _wrong_type(field, path, "a string", text, is_optional=own not in (field, None))
        # Lengths of a text that does not belong to the speaker are not checked; its presence is reported by _habits.
        elif own in (field, None):
            yield from _check_length(text, (*path, field), config)


def _own_field(speaker: object) -> str | None:
    """Return the field with a speaker's text; None for a speaker who may use either field."""
    return SPEAKER_FIELDS.get(speaker) if type(speaker) is str else None


def _check_length(value: str, path: Path, config: ValidationConfig) -> Iterator[Finding]:
    field = str(path[-1])
    low, high = _bounds(field, config)
    # The setting lifts the minimum for empty texts only; the maximum still applies.
    if not value and config.allow_empty_messages:
        return
    if not value:
        yield finding(
            "content_error",
            "Empty message",
            path,
            f"{field} must not be empty",
            hint="set allow_empty_messages: true if this is meant",
        )
    elif len(value) < low:
        message = f"{field} has {len(value):,} characters; the minimum is {low:,}"
        yield finding("content_error", "Message too short", path, message, hint=f"set min_{field}_length to allow fewer")
    elif len(value) > high:
        message = f"{field} has {len(value):,} characters; the limit is {high:,}"
        yield finding(
            "content_error", "Message too long", path, message, code="string_too_long", hint=f"set max_{field}_length to allow more"
        )


def _bounds(field: str, config: ValidationConfig) -> tuple[int, int]:
    if field == "message":
        return config.min_message_length, config.max_message_length
    return config.min_assistant_reply_length, config.max_assistant_reply_length


def _check_tools(turn: Mapping[str, object], path: Path, config: ValidationConfig) -> Iterator[Finding]:
    # `in` and not a truth test: null is a legal output of a tool, and counts as present.
    if "tool_used" in turn:
        yield from _check_tool_name(turn["tool_used"], path, config)
        for field, is_required in (("tool_input", config.require_tool_input), ("tool_output", config.require_tool_output)):
            if is_required and field not in turn:
                message = f"tool_used needs {field}"
                yield finding(
                    "tool_error",
                    f"Missing {field}",
                    (*path, field),
                    message,
                    hint=f"set require_{field}: false if it is not recorded",
                )
    if "tool_input" in turn and type(turn["tool_input"]) is not dict:
        # The contract lists this under its field type errors, and for a turn that uses a tool under its tool errors, too.
        yield _wrong_type("tool_input", path, "an object", turn["tool_input"], is_optional=False)
        if "tool_used" in turn:
            message, hint = "tool_used needs a tool_input that is an object", f"write it like {_LIKE['tool_input']}"
            yield finding("tool_error", "Invalid tool_input", (*path, "tool_input"), message, code="invalid_field_type", hint=hint)


def _check_tool_name(value: object, path: Path, config: ValidationConfig) -> Iterator[Finding]:
    if type(value) is not str:
        yield _wrong_type("tool_used", path, "a string", value)
    elif config.allowed_tools is not None and value not in config.allowed_tools:
        message = f"tool_used is {short(value)}; allowed: {', '.join(config.allowed_tools) or 'none'}"
        yield finding(
            "invalid_field_value",
            "Invalid tool name",
            (*path, "tool_used"),
            message,
            code="invalid_enum_value",
            hint="add it to allowed_tools if it is meant",
            guess=guess_at(value, config.allowed_tools),
        )


def _check_confidence(turn: Mapping[str, object], path: Path, config: ValidationConfig) -> Iterator[Finding]:
    if "confidence_score" not in turn:
        return
    score = turn["confidence_score"]
    low, high = config.confidence_score_min, config.confidence_score_max
    if isinstance(score, bool) or not isinstance(score, int | float):
        yield _wrong_type("confidence_score", path, "a number", score)
    # YAML can write .nan, of which every comparison is false.
    elif (type(score) is float and math.isnan(score)) or not low <= score <= high:
        shown = score if type(score) is float else short(str(score)[:40]).strip("'")
        message = f"confidence_score is {shown}; allowed is {low} to {high}"
        hint = "set confidence_score_min and confidence_score_max if the scale is another one"
        yield finding("invalid_field_value", "Invalid confidence_score", (*path, "confidence_score"), message, hint=hint)


def _check_habits(turn: Mapping[str, object], path: Path, config: ValidationConfig) -> Iterator[Finding]:
    """Report what is legal but odd: warnings, and errors in strict mode."""
    for odd in _habits(turn, path, config):
        # The contract names strict_mode without saying what it does: here it turns these warnings into errors.
        severity = "error" if config.strict_mode else "warning"
        yield msgspec.structs.replace(odd, severity=severity, on_key=odd.code == "unsupported_field")


def _habits(turn: Mapping[str, object], path: Path, config: ValidationConfig) -> Iterator[Finding]:
    known = ("turn_id", "speaker", *config.required_fields, *config.optional_fields)
    for unknown in unknown_members(turn, known):
        where = (*path, unknown.name)
        yield finding(
            "invalid_field_value",
            "Unknown field",
            where,
            unknown.message,
            code="unsupported_field",
            hint="add it to optional_fields",
            guess=unknown.guess,
        )
    speaker = turn.get("speaker")
    for owner, field in SPEAKER_FIELDS.items():
        if field in turn and speaker in list(SPEAKER_FIELDS) and speaker != owner:
            message, hint = f"{field} on a turn of the {speaker}", f"give it a turn of the {owner}, or remove it"
            yield finding("invalid_field_value", "Unexpected field", (*path, field), message, code="unsupported_field", hint=hint)
    yield from _tool_habits(turn, path)
    is_other = type(speaker) is str and speaker in config.allowed_speakers and speaker not in SPEAKER_FIELDS
    if is_other and not any(field in turn for field in SPEAKER_FIELDS.values()):
        message = f"the turn of {short(str(speaker))} says nothing"
        yield finding("required_field_missing", "Missing content", path, message, hint="give it message or assistant_reply")
    for field in SPEAKER_FIELDS.values():
        if type(text := turn.get(field)) is str and text.isspace():
            # Blank is not empty: the contract forbids empty text, and says nothing about white space.
            hint = "write what was said, or leave the turn out"
            yield finding("content_error", "Blank message", (*path, field), f"{field} is white space only", hint=hint)


def _tool_habits(turn: Mapping[str, object], path: Path) -> Iterator[Finding]:
    used = [field for field in TOOL_FIELDS if field in turn]
    if turn.get("speaker") == "user":
        for field in used:
            message, hint = f"{field} on a turn of the user", "give it to the turn of the assistant that used the tool"
            yield finding("tool_error", "Unexpected tool", (*path, field), message, code="unsupported_field", hint=hint)
    elif used and "tool_used" not in turn:
        for field in used:
            hint = "name the tool in tool_used"
            yield finding("tool_error", "Missing tool_used", (*path, field), f"{field} without tool_used", hint=hint)


def _check_characters(turn: Mapping[str, object], path: Path) -> Iterator[Finding]:
    for text, where, _ in strings_in(turn, path):
        if "\x00" in text:
            message = f"{where[-1]} holds a NUL character (U+0000)"
            yield finding("content_error", "Invalid character", where, message, code="invalid_encoding", hint="remove it")


def check_plain(value: object, path: Path, *, depth: int = 0) -> Iterator[Finding]:
    """Check that a Python value can be JSON: names are strings, nothing is too deep, text can be encoded."""
    if depth > MAX_DEPTH:
        yield finding("structure_error", "Invalid value", path[:2], f"nested deeper than {MAX_DEPTH} levels, or inside itself")
    elif type(value) is str and not value.isascii() and _SURROGATE.search(value):
        yield finding("structure_error", "Invalid text", path, f"{path[-1]} holds an unpaired surrogate", code="invalid_encoding")
    elif type(value) is dict:
        for key, member in value.items():
            if type(key) is str:
                yield from check_plain(member, (*path, key), depth=depth + 1)
            else:
                yield finding("structure_error", "Invalid name", path, f"the name {key!r} must be a string")
    elif type(value) is list:
        for index, member in enumerate(value):
            yield from check_plain(member, (*path, index), depth=depth + 1)


def _check_numbers(value: object, path: Path) -> Iterator[Finding]:
    """Report .nan and .inf, which YAML can write and JSON cannot; fields with their own type check are left out."""
    if type(value) is float and not math.isfinite(value) and path[1:] not in _TYPED_FIELDS:
        message, hint = f"{path[-1]} is {value}, which JSON does not have", "write null, or a text"
        yield finding("invalid_field_value", "Invalid number", path, message, hint=hint)
    elif type(value) is dict:
        for key, member in value.items():
            yield from _check_numbers(member, (*path, key))
    elif type(value) is list:
        for index, member in enumerate(value):
            yield from _check_numbers(member, (*path, index))


def check_ids(turns: Sequence[object], config: ValidationConfig) -> Iterator[Finding]:
    """Check that ids are unique, and consecutive from 1 where configured; after a gap, the count continues from the last id."""
    # By their digits: integers of a file can be chosen so that all of them have one hash, texts cannot.
    seen: dict[str, int] = {}
    expected = 1
    for position, turn in enumerate(turns):
        turn_id = turn.get("turn_id") if type(turn) is dict else None
        # A bad id still takes its place in the sequence, so that one error does not become one for each later turn.
        if type(turn_id) is not int or turn_id < 1:
            expected += 1
            continue
        path: Path = (position, "turn_id")
        digits = f"{turn_id:x}"
        if digits in seen:
            yield finding(
                "sequence_error",
                "Duplicate turn_ids",
                path,
                f"turn_id {shown_integer(turn_id)} was used before, by [{seen[digits]}]",
                # Reported regardless of what check_turn_sequence says: ids are unique in any case.
                code="duplicate_record_id",
                hint="give every turn an id of its own",
            )
            continue
        if config.check_turn_sequence and turn_id != expected:
            message = f"turn_id is {shown_integer(turn_id)}, expected {shown_integer(expected)}"
            yield finding("sequence_error", "Non-sequential turn_ids", path, message, hint="number the turns 1, 2, 3 without gaps")
        seen[digits] = position
        expected = turn_id + 1


def to_case(turns: list[JsonObject], index: int, *, dataset: str, record_sha256: str) -> Case:
    """Convert a valid conversation to a case; the first words of the user are its prompt."""
    recorded = tuple(_turn(turn, position) for position, turn in enumerate(turns, 1))
    messages = tuple(map(_message, recorded))
    return Case(
        # A conversation has no id of its own, and turn ids start again in each.
        id=f"conversation-{index + 1}",
        index=index,
        contract="conversation_v1",
        task="conversation",
        dataset=dataset,
        prompt=next((message.content for message in messages if message.role == "user" and message.content), ""),
        # Providers refuse messages without content; a turn of tool calls alone has none.
        messages=tuple(message for message in messages if message.content),
        turns=recorded,
        record_sha256=record_sha256,
    )


def _message(turn: Turn) -> Message:
    """Return the message of a turn: from the field of its speaker, or from the one that is filled."""
    own = _own_field(turn.speaker) or ("assistant_reply" if turn.assistant_reply else "message")
    said_by_assistant = own == "assistant_reply"
    role: Role = "system" if turn.speaker == "system" else "assistant" if said_by_assistant else "user"
    return Message(role, turn.assistant_reply if said_by_assistant else turn.message)


def _turn(turn: JsonObject, position: int) -> Turn:
    return Turn(
        turn_id=turn.get("turn_id", position),
        speaker=turn.get("speaker", ""),
        message=turn.get("message", ""),
        assistant_reply=turn.get("assistant_reply", ""),
        tool_used=turn.get("tool_used"),
        tool_input=turn.get("tool_input"),
        tool_output=turn.get("tool_output"),
        confidence_score=turn.get("confidence_score"),
        metadata=turn.get("metadata", {}),
        has_tool_output="tool_output" in turn,
        extra={name: member for name, member in turn.items() if name not in Turn.__struct_fields__},
    )
