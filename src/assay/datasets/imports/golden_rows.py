"""Questions into a golden_v1 document: their references, criteria or choices become one rubric in words."""

import re
from collections.abc import Iterable

from assay.core.errors import UsageProblem
from assay.core.issue import path_text
from assay.datasets.config import ValidationConfig
from assay.datasets.converters.canonical import Row
from assay.datasets.converters.report import ConversionCounts
from assay.datasets.golden_v1 import check_document
from assay.datasets.imports.items import ImportedQuestion

FIRST_VERSION = "1.0.0"
SHOWN_PROBLEMS = 5
_NOT_IN_ID = re.compile(r"[^a-z0-9-]+")


def golden_document(questions: Iterable[ImportedQuestion], tally: ConversionCounts) -> Row:
    """The document of all questions; raises UsageProblem where one does not fit, because golden_v1 takes all or none."""
    document: Row = {"version": FIRST_VERSION, "cases": [_case(question, tally) for question in questions]}
    errors = [finding for finding in check_document(document, ValidationConfig()) if finding.severity == "error"]
    if errors:
        listed = "; ".join(f"{path_text(finding.path)}: {finding.message}" for finding in errors[:SHOWN_PROBLEMS])
        more = f"; and {len(errors) - SHOWN_PROBLEMS:,} more" if len(errors) > SHOWN_PROBLEMS else ""
        raise UsageProblem(f"these questions cannot be golden_v1: {listed}{more}", hint="leave --to out for a contract that fits")
    return document


def _case(question: ImportedQuestion, tally: ConversionCounts) -> Row:
    case_id = _NOT_IN_ID.sub("-", question.id.lower()).strip("-")
    if case_id != question.id:
        tally.note("changed", f"the id became {case_id!r}: golden_v1 allows a-z 0-9 -", record_id=question.id, path="id")
    lost = [name for name in ("context", "messages", "metadata") if getattr(question, name)]
    if lost:
        tally.note("dropped", "golden_v1 has no field for it", record_id=question.id, path=", ".join(lost))
    return {"id": case_id, "user_prompt": question.prompt, "rubric": _rubric(question)}


def _rubric(question: ImportedQuestion) -> str:
    """What a good answer is, in words; empty where nothing says it, which the contract refuses."""
    if question.choices:
        right = [choice for choice in question.choices if choice["id"] in question.correct_choice_ids]
        return "The answer chooses " + " and ".join(f"{choice['id']} ({choice['text']})" for choice in right) + "."
    criteria = [str(criterion["title"]) for criterion in question.rubric]
    references = [f"The answer says the same as: {' / '.join(question.references)}"] if question.references else []
    return "\n".join([*criteria, *references])
