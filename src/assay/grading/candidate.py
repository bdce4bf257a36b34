"""A case as the messages that the candidate gets."""

from collections.abc import Mapping

from assay.core.ask import Ask
from assay.core.case import Attachment, Case, Message
from assay.core.outcome import GradingFailure
from assay.grading.settings import GradingSettings
from assay.grading.templates import fill, load_template

CALL_ID = "candidate"


def candidate_ask(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str]) -> Ask:
    """The request for the answer; raises GradingFailure when an attachment's text is not there."""
    return Ask(
        stage="candidate",
        call_id=CALL_ID,
        model=settings.candidate,
        messages=candidate_messages(case, settings, attachments=attachments),
    )


def candidate_messages(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str]) -> tuple[Message, ...]:
    """System prompt, conversation or prompt, and what belongs to the last user message: context, attachments, choices."""
    messages = case.messages or (Message("user", case.prompt),)
    additions = [
        *([f"Context:\n{case.model_context}"] if case.model_context else []),
        *(_attached(attachment, attachments) for attachment in case.attachments),
        *([_choices(case)] if case.task == "mcq" else []),
    ]
    if additions:
        messages = _with_additions(messages, "\n\n".join(additions))
    # A record that brings a system message of its own has said how the model is to behave.
    has_own = any(message.role == "system" for message in messages)
    return messages if has_own or not settings.system_prompt else (Message("system", settings.system_prompt), *messages)


def _with_additions(messages: tuple[Message, ...], addition: str) -> tuple[Message, ...]:
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None:
        return (*messages, Message("user", addition))
    extended = Message("user", f"{messages[last].content}\n\n{addition}")
    return (*messages[:last], extended, *messages[last + 1 :])


def _attached(attachment: Attachment, texts: Mapping[str, str]) -> str:
    if attachment.path not in texts:
        raise GradingFailure("attachment_missing", f"the text of attachment {attachment.path!r} is not available")
    return f"Attachment: {attachment.title or attachment.path}\n{texts[attachment.path]}"


def _choices(case: Case) -> str:
    has_several = len(case.correct_choice_ids) > 1
    slots = {
        "choices": "\n".join(f"{choice.id}. {choice.text}" for choice in case.choices),
        "task": load_template("mcq_several/1" if has_several else "mcq_one/1").text.rstrip("\n"),
        "shape": '["id", ...]' if has_several else '"id"',
    }
    return fill(load_template("mcq_answer/1").text.rstrip("\n"), slots)
