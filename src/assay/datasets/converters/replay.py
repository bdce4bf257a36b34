"""Recorded conversations into questions: the history up to a user turn, the reply that followed as reference."""

from collections.abc import Iterator

from assay.core.case import Case, Turn
from assay.datasets.converters.canonical import Row, RowDraft
from assay.datasets.converters.report import ConversionCounts

ROLES = ("user", "assistant", "system")


def replay_drafts(case: Case, tally: ConversionCounts, *, dataset: str | None) -> Iterator[RowDraft]:
    """One draft for each user turn that a reply follows; the others are reported."""
    name = conversation_name(case)
    _note_losses(case, name, tally=tally)
    for position, turn in enumerate(case.turns):
        if turn.speaker != "user":
            continue
        replies = _replies(case.turns[position + 1 :])
        reference = next((reply.assistant_reply for reply in replies if reply.assistant_reply.strip()), "")
        row_id = f"{name}:turn-{turn.turn_id}"
        if not turn.message.strip() or not reference:
            reason = "the user says nothing" if reference else "no assistant reply follows before the next user turn or the end"
            tally.skip(reason, record_id=row_id, path=f"turn {turn.turn_id}")
            continue
        history = [message for earlier in case.turns[:position] for message in _message(earlier)]
        yield RowDraft(
            id=row_id,
            dataset=dataset or case.dataset or "conversation_v1",
            task_type="reference_qa",
            prompt=turn.message,
            metadata={**case.metadata, "conversation_id": name, **_turn_metadata(turn, replies)},
            messages=[*history, {"role": "user", "content": turn.message}],
            reference_answers=[reference],
        )


def conversation_name(case: Case) -> str:
    """A name that depends on what was said, since a conversation's own id is its position in a file."""
    return f"conversation:{case.record_sha256[:16]}" if case.record_sha256 else case.id


def _replies(later: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The turns of the assistant up to the next one of the user; tools are often called before the words come."""
    end = next((position for position, turn in enumerate(later) if turn.speaker == "user"), len(later))
    return tuple(turn for turn in later[:end] if turn.speaker == "assistant")


def _message(turn: Turn) -> list[Row]:
    text = turn.message if turn.speaker == "user" else turn.assistant_reply or turn.message
    return [{"role": turn.speaker, "content": text}] if turn.speaker in ROLES and text.strip() else []


def _turn_metadata(turn: Turn, replies: tuple[Turn, ...]) -> Row:
    actions = [_action(reply) for reply in replies]
    members = {"turn_metadata": turn.metadata, "reply_turns": [action for action in actions if len(action) > 1]}
    return {"turn_id": turn.turn_id, **{name: value for name, value in members.items() if value}}


def _action(reply: Turn) -> Row:
    """The turn's id and what the turn has besides words."""
    tool = ("tool_used", "tool_input", "tool_output") if reply.tool_used is not None else ()
    members = {name: getattr(reply, name) for name in ("turn_id", *tool)}
    if reply.confidence_score is not None:
        members["confidence_score"] = reply.confidence_score
    return {**members, "metadata": reply.metadata} if reply.metadata else members


def _note_losses(case: Case, name: str, *, tally: ConversionCounts) -> None:
    tools = [str(turn.turn_id) for turn in case.turns if turn.tool_used is not None]
    others = sorted({turn.speaker for turn in case.turns} - set(ROLES))
    if tools:
        reason = (
            f"messages hold words only; the tools of turns {', '.join(tools)} are in metadata.reply_turns of the question before"
        )
        tally.note("moved", reason, record_id=name, path="tool_used, tool_input, tool_output")
    if others:
        reason = f"messages know {', '.join(ROLES)} only; turns of {', '.join(others)} are left out"
        tally.note("dropped", reason, record_id=name, path="speaker")
