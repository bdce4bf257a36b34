"""Recorded conversations into cases: one for each turn of the user, with the whole history and the calls that followed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from assay.core.canonical import JsonObject, canonical_json, sha256_hex
from assay.core.case import Case, Message, Turn
from assay.core.tools import ExpectedCall, ToolCall, chat_tool_calls, output_text, tool_call

if TYPE_CHECKING:
    from assay.datasets.converters.report import ConversionResult

_ROLES = ("user", "assistant", "system")


class RecordedAnswer(msgspec.Struct, frozen=True):
    """What followed a turn of the user."""

    text: str
    calls: tuple[ExpectedCall, ...] = ()
    messages: tuple[Message, ...] = ()
    """The calls with their outputs, without the last words."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls as those of a given answer."""
        return tuple(call for message in self.messages for call in message.tool_calls)

    @property
    def steps(self) -> tuple[JsonObject, ...]:
        """The calls with their outputs, in the format of chat completions."""
        return tuple(map(_step, self.messages))


def _step(message: Message) -> JsonObject:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "name": message.name, "content": message.content}
    return {"role": message.role, "content": message.content, "tool_calls": chat_tool_calls(message.tool_calls)}


def replayed(conversations: Iterable[tuple[Case, object]], *, is_recorded: bool) -> Iterator[tuple[Case, object]]:
    """Yield one case for each user turn that a reply or a tool call follows, with the turns of its conversation.

    The reply is the reference for a candidate that is called again, and the tool calls before it are expected of the candidate.
    Where the recorded reply is itself the answer to be judged, there is neither: nothing is compared with itself. A
    conversation that occurs twice counts once.
    """
    seen: set[str] = set()
    for conversation, turns in conversations:
        uses_tools = any(turn.tool_used is not None for turn in conversation.turns)
        for case, answer in _cases(conversation):
            # Two conversations with the same history are one question.
            if case.id in seen:
                continue
            seen.add(case.id)
            if is_recorded:
                yield msgspec.structs.replace(case, task="open", references=()), turns
            elif uses_tools:
                yield msgspec.structs.replace(case, expected_calls=answer.calls), turns
            else:
                yield case, turns


def recorded_answers(conversations: Iterable[tuple[Case, object]]) -> dict[str, RecordedAnswer]:
    """Return the recorded answer of each case."""
    return {case.id: answer for conversation, _ in conversations for case, answer in _cases(conversation)}


def recorded_calls(conversations: Iterable[Case]) -> Iterator[tuple[str, JsonObject]]:
    """Yield the name and the input of every recorded tool call."""
    return (
        (turn.tool_used, turn.tool_input or {})
        for conversation in conversations
        for turn in conversation.turns
        if turn.tool_used is not None
    )


def unanswered_turns(conversations: Iterable[Case]) -> int:
    """Return user turns without a reply or tool call, or that cannot be sent; they are not evaluated."""
    return sum(sum(turn.speaker == "user" for turn in case.turns) - sum(1 for _ in _cases(case)) for case in conversations)


def _cases(conversation: Case) -> Iterator[tuple[Case, RecordedAnswer]]:
    # By name, since only runs over conversations need the converter.
    to_case: Callable[..., Case] = import_module("assay.datasets.legal_eval_v1.rules").to_case
    rows = {row["metadata"]["turn_id"]: row for row in _converted(conversation).rows}
    name = import_module("assay.datasets.converters.contracts").conversation_name(conversation)
    messages: list[Message] = []
    for position, turn in enumerate(conversation.turns):
        if turn.speaker == "user" and turn.message.strip():
            answer = _answer(conversation.turns[position + 1 :])
            row = rows.get(turn.turn_id)
            if row is None and answer.calls:
                row = _row_of_calls(conversation, turn, name=name)
            if row is not None:
                case = to_case(row, conversation.index, record_sha256=sha256_hex(canonical_json(row)))
                history = (*messages, Message("user", turn.message))
                # Policies are those of legal_eval_v1; a conversation's metadata may use the word for something else.
                yield (
                    msgspec.structs.replace(
                        case,
                        contract="conversation_v1",
                        policy_id="",
                        messages=history,
                        references=(answer.text,) if answer.text.strip() else (),
                    ),
                    answer,
                )
        after = conversation.turns[position + 1] if position + 1 < len(conversation.turns) else None
        messages += _messages(turn, after)


def _converted(conversation: Case) -> "ConversionResult":
    convert_cases: Callable[..., ConversionResult] = import_module("assay.datasets.converters").convert_cases
    return convert_cases((conversation,), source="conversation_v1", target="legal_eval_v1")


def _row_of_calls(conversation: Case, turn: Turn, *, name: str) -> JsonObject:
    """Build the row of a turn that only tool calls follow, which legal_eval_v1 itself cannot hold."""
    return {
        "id": f"{name}:turn-{turn.turn_id}",
        "dataset": conversation.dataset or "conversation_v1",
        "task_type": "reference_qa",
        "prompt": turn.message,
        "metadata": {**conversation.metadata, "conversation_id": name, "turn_id": turn.turn_id},
    }


def _answer(later: Sequence[Turn]) -> RecordedAnswer:
    """Return the calls and the words up to the next turn of the user; of several replies the first one with words counts."""
    end = next((position for position, turn in enumerate(later) if turn.speaker == "user"), len(later))
    turns = [turn for turn in later[:end] if turn.speaker == "assistant"]
    calls, messages = [], []
    for position, turn in enumerate(turns):
        if turn.tool_used is not None:
            output = turn.tool_output if turn.has_tool_output or turn.tool_output is not None else msgspec.UNSET
            calls.append(ExpectedCall(turn.tool_used, turn.tool_input or {}, output, step=turn.turn_id))
            messages += _call_messages(turn, text="" if position == len(turns) - 1 else turn.assistant_reply)
    # Words next to a call are the reply where nothing else is said.
    replies = [turn.assistant_reply for turn in turns if turn.tool_used is None] + [turns[-1].assistant_reply if turns else ""]
    replies += [turn.assistant_reply for turn in turns]
    return RecordedAnswer(next((text for text in replies if text.strip()), ""), tuple(calls), tuple(messages))


def _messages(turn: Turn, after: Turn | None) -> list[Message]:
    """Return a turn as messages: a tool call, its output, and words."""
    text = turn.message if turn.speaker == "user" else turn.assistant_reply or turn.message
    if turn.speaker != "assistant" or turn.tool_used is None:
        return [Message(turn.speaker, text)] if turn.speaker in _ROLES and text.strip() else []  # type: ignore[arg-type]
    # One turn holds a call and words. They are the reply after the call where the user speaks next, as in documents that people
    # write; where the assistant goes on, they came with the call, as in logs of agents.
    is_reply = after is None or after.speaker == "user"
    messages = _call_messages(turn, text="" if is_reply else text)
    return [*messages, Message("assistant", text)] if is_reply and text.strip() else messages


def _call_messages(turn: Turn, *, text: str) -> list[Message]:
    call = tool_call(turn.tool_used or "", turn.tool_input or {}, f"call_{turn.turn_id}")
    output = output_text(turn.tool_output) if turn.has_tool_output or turn.tool_output is not None else ""
    return [
        Message("assistant", text if text.strip() else "", (call,)),
        Message("tool", output, tool_call_id=call.id, name=call.name),
    ]
