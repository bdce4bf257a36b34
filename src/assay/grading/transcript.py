"""A case as the texts that models are shown."""

from collections.abc import Iterable

from assay.core.case import Case, Criterion
from assay.core.open_fields import Field, grading_fields, question_fields
from assay.grading.templates import OPEN_FIELD, fill, load_template


def task_text(case: Case) -> str:
    """The prompt, or the whole conversation with who said what, below the prompt where nobody says that."""
    if not case.messages:
        return case.prompt
    is_said = any(case.prompt.strip() in message.content for message in case.messages)
    said = [f"[{message.role}]\n{message.content}" for message in case.messages]
    return "\n\n".join(said if is_said else [f"[prompt]\n{case.prompt}", *said])


def context_text(case: Case) -> str:
    """What the candidate is given with the question: the context, and open fields that belong to the question."""
    return "\n\n".join(filter(None, (case.model_context, _headed(question_fields(case)))))


def grading_text(case: Case) -> str:
    """Open fields that only judges see; empty without one."""
    return _headed(grading_fields(case))


def headed(field: Field) -> str:
    """An open field below a heading of its name."""
    return fill(load_template(OPEN_FIELD).text.rstrip("\n"), {"name": field.name, "text": field.text})


def _headed(fields: Iterable[Field]) -> str:
    return "\n\n".join(map(headed, fields))


def reference_text(case: Case) -> str:
    """The reference answers, numbered where there are several; empty without one."""
    references = [reference for reference in case.references if reference]
    if len(references) < 2:
        return "".join(references)
    return "\n\n".join(f"({number})\n{reference}" for number, reference in enumerate(references, 1))


def criteria_text(case: Case) -> str:
    """The criteria with their numbers; empty without one."""
    return "\n\n".join(f"({number})\n{criterion_text(criterion)}" for number, criterion in enumerate(case.criteria, 1))


def criterion_text(criterion: Criterion) -> str:
    """A criterion with its description."""
    return "\n\n".join(text for text in (criterion.title, criterion.description) if text)
