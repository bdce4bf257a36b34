"""Messages that the candidate is sent for a case, and its texts; custom policies included."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from assay.core.case import Attachment, Case, Criterion, Message, attachment_section
from assay.core.checks import RECORD_CHECKS
from assay.core.model_call import CANDIDATE_CALL, AttachedText, ModelRequest, RecordInput
from assay.core.open_fields import OpenField, grading_fields, question_fields
from assay.core.outcome import GradingFailure
from assay.core.tools import METADATA_CALLS
from assay.grading.assignment import GradingAssignment, GradingSettings, choice_task
from assay.grading.policies import Policy, metadata_text, policy_messages
from assay.grading.templates import OPEN_FIELD, TOOL_CALL, fill, load_template
from assay.grading.tool_call import compares_calls, described_tools, message_text, offered_tools


def task_text(case: Case) -> str:
    """Return the prompt, or the whole conversation with roles, after the prompt if no message contains it."""
    if not case.messages:
        return case.prompt
    # Judges must see the question. In legal_eval_v1 messages are sent and the prompt is for display, and they may differ.
    has_prompt = any(case.prompt.strip() in message.content for message in case.messages)
    turns = list(map(message_text, case.messages))
    return "\n\n".join(turns if has_prompt else [f"[prompt]\n{case.prompt}", *turns])


def context_text(case: Case) -> str:
    """Return what the candidate gets with the question: the context, and open fields that belong to the question."""
    return "\n\n".join(filter(None, (case.model_context, _format_fields(question_fields(case)))))


def grading_text(case: Case) -> str:
    """Return the open fields that only judges see; empty without any."""
    return _format_fields(grading_fields(case))


def format_field(field: OpenField) -> str:
    """Format an open field under a heading of its name."""
    return fill(load_template(OPEN_FIELD).text.rstrip("\n"), {"name": field.name, "text": field.text})


def _format_fields(fields: Iterable[OpenField]) -> str:
    return "\n\n".join(map(format_field, fields))


def reference_text(case: Case) -> str:
    """Format the reference answers, numbered if there are several; empty without any."""
    references = [reference for reference in case.references if reference]
    if len(references) < 2:
        return "".join(references)
    return "\n\n".join(f"({number})\n{reference}" for number, reference in enumerate(references, 1))


def criteria_text(case: Case) -> str:
    """Format the criteria with their numbers; empty without any."""
    return "\n\n".join(f"({number})\n{criterion_text(criterion)}" for number, criterion in enumerate(case.criteria, 1))


def criterion_text(criterion: Criterion) -> str:
    """Format a criterion with its description."""
    return "\n\n".join(text for text in (criterion.title, criterion.description) if text)


_UNNAMED_COURSE = "law"
"""Replaces the course that a record does not name."""


_GRADING = (METADATA_CALLS, "tool_matching", RECORD_CHECKS)
"""Members of metadata that belong to the grading."""


def candidate_ask(assignment: GradingAssignment) -> ModelRequest:
    """Build the request for the answer; raises GradingFailure when an attachment's text is missing.

    It has no messages when the answer is given: no model is called then.
    """
    settings = assignment.settings
    if settings.has_answers and not assignment.case.attachments:
        return _given_answer(settings.candidate)
    tools = offered_tools(assignment.case, settings.tools)
    return ModelRequest(
        stage="candidate",
        call_id=CANDIDATE_CALL,
        model=settings.candidate,
        messages=candidate_messages(assignment),
        record=_record_input(assignment.case, assignment.attachments),
        tools=tools if settings.has_native_tools else (),
        takes_tool_calls=compares_calls(assignment.case),
    )


def _record_input(case: Case, texts: Mapping[str, str]) -> RecordInput:
    attached = (AttachedText(one.path, one.title or one.path, one.kind, texts.get(one.path, "")) for one in case.attachments)
    # An endpoint may be sent all metadata, in which records hold the calls that are expected of it, and their checks.
    # The recorded calls of a conversation are in its metadata too.
    hidden = (*_GRADING, "reply_turns") if case.contract == "conversation_v1" else _GRADING
    metadata = case.metadata
    if any(name in metadata for name in hidden):
        metadata = {name: value for name, value in metadata.items() if name not in hidden}
    return RecordInput(id=case.id, metadata=metadata, attachments=tuple(attached))


# Cached, because all records of such a run share one request.
@lru_cache(maxsize=64)
def _given_answer(model: str) -> ModelRequest:
    # Given answers may hold tool calls, which the methods grade or show to judges.
    return ModelRequest(stage="candidate", call_id=CANDIDATE_CALL, model=model, messages=(), takes_tool_calls=True)


def candidate_messages(assignment: GradingAssignment) -> tuple[Message, ...]:
    """Build the messages: system prompt, conversation or prompt; the last user message gets context, fields, choices, tools."""
    if assignment.custom_policy is not None:
        return policy_messages(assignment.policy_code, assignment.case, attachments=assignment.attachments)
    case, policy, system_prompt = assignment.case, assignment.policy, assignment.settings.system_prompt
    # Additions go to the last user message, so that a model sees them right where it has to answer.
    messages = case.messages or (Message("user", case.prompt),)
    additions = _additions(assignment)
    if additions or policy.question_template:
        messages = _with_additions(messages, additions, case=case, policy=policy)
    # A record with its own system message has defined the model's behaviour; ours would contradict it.
    if not system_prompt or not policy.takes_system_prompt or any(message.role == "system" for message in messages):
        return messages
    return (Message("system", system_prompt), *messages)


def _additions(assignment: GradingAssignment) -> list[str]:
    case = assignment.case
    # The words of this heading are part of the prompt that policies fix: another one needs another policy id.
    additions = [f"Context:\n{case.model_context}"] if case.model_context else []
    additions += map(format_field, question_fields(case))
    additions += [_attachment_text(attachment, assignment.attachments) for attachment in case.attachments]
    if case.task == "mcq":
        additions.append(_choices(case, assignment.settings))
    tools = offered_tools(case, assignment.settings.tools)
    if tools and not assignment.settings.has_native_tools:
        additions.append(fill(load_template(TOOL_CALL).text.rstrip("\n"), {"tools": described_tools(tools)}))
    return additions


def _with_additions(messages: tuple[Message, ...], additions: list[str], *, case: Case, policy: Policy) -> tuple[Message, ...]:
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None:
        return (*messages, Message("user", "\n\n".join(additions))) if additions else messages
    extended = Message("user", "\n\n".join((_apply_template(messages[last].content, case, policy), *additions)))
    return (*messages[:last], extended, *messages[last + 1 :])


def _apply_template(question: str, case: Case, policy: Policy) -> str:
    if not policy.question_template:
        return question
    slots = {name: metadata_text(case, name) or _UNNAMED_COURSE for name in policy.metadata}
    return fill(load_template(policy.question_template).text.rstrip("\n"), {**slots, "question": question})


def _attachment_text(attachment: Attachment, texts: Mapping[str, str]) -> str:
    # Sending the question without its document would give a wrong answer instead of an error.
    if attachment.path not in texts:
        raise GradingFailure("attachment_missing", f"the text of attachment {attachment.path!r} is not available")
    return attachment_section(attachment.title or attachment.path, texts[attachment.path])


def _choices(case: Case, settings: GradingSettings) -> str:
    task = choice_task(case, settings)
    slots = {
        "choices": "\n".join(f"{choice.id}. {choice.text}" for choice in case.choices),
        "task": load_template(task).text.rstrip("\n"),
        "shape": '["id", ...]' if task == "mcq_several/1" else '"id"',
    }
    return fill(load_template("mcq_answer/1").text.rstrip("\n"), slots)
