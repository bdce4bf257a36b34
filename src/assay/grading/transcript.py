"""A case as the texts shown to models."""

from collections.abc import Iterable

from assay.core.case import Case, Criterion
from assay.core.open_fields import OpenField, grading_fields, question_fields
from assay.grading.templates import OPEN_FIELD, fill, load_template


def task_text(case: Case) -> str:
    """Return the prompt, or the whole conversation with roles, after the prompt if no message contains it."""
    if not case.messages:
        return case.prompt
    has_prompt = any(case.prompt.strip() in message.content for message in case.messages)
    turns = [f"[{message.role}]\n{message.content}" for message in case.messages]
    return "\n\n".join(turns if has_prompt else [f"[prompt]\n{case.prompt}", *turns])


def context_text(case: Case) -> str:
    """Return what the candidate gets with the question: the context, and open fields that belong to the question."""
    return "\n\n".join(filter(None, (case.model_context, _headed(question_fields(case)))))


def grading_text(case: Case) -> str:
    """Return the open fields that only judges see; empty without any."""
    return _headed(grading_fields(case))


def headed(field: OpenField) -> str:
    """Format an open field under a heading of its name."""
    return fill(load_template(OPEN_FIELD).text.rstrip("\n"), {"name": field.name, "text": field.text})


def _headed(fields: Iterable[OpenField]) -> str:
    return "\n\n".join(map(headed, fields))


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
