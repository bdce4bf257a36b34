"""Multiple choice: graded by comparing sets of ids, without a judge."""

from collections.abc import Mapping

from assay.core.case import Case
from assay.core.outcome import FailureLabel, Flow, Grade, Score
from assay.grading.candidate import candidate_ask
from assay.grading.choices import selected_choices
from assay.grading.settings import GradingSettings
from assay.grading.templates import load_template

EVALUATOR = "mcq_exact/1"
UNPARSEABLE = "unparseable_answer"


def grade_mcq(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str]) -> Flow:
    """Asks the candidate and compares what it selects with the correct choices."""
    (reply,) = yield (candidate_ask(case, settings, attachments=attachments),)
    return compare_choices(case, reply.text)


def compare_choices(case: Case, answer: str) -> Grade:
    """The grade of an answer: right when exactly the correct choices are selected; an unreadable answer is wrong."""
    selected = selected_choices(answer, case.choices)
    is_right = set(selected) == set(case.correct_choice_ids)
    score = float(is_right)
    return Grade(
        score=score,
        passed=is_right,
        answer=answer,
        raw_score=score,
        scale="0/1",
        scores=(Score(criterion="choice", score=score, scale="0/1", normalized=score),),
        justification=_justification(selected, case),
        label="" if is_right else _label(selected),
        evaluator=EVALUATOR,
        template_sha256=load_template("mcq_answer/1").sha256,
        selected_choice_ids=selected,
        flags=() if selected else (UNPARSEABLE,),
    )


def _label(selected: tuple[str, ...]) -> FailureLabel:
    return "incorrect_answer" if selected else "format_or_schema_violation"


def _justification(selected: tuple[str, ...], case: Case) -> str:
    chosen = ", ".join(selected) or "no choice that could be read"
    return f"selected {chosen}; correct {', '.join(case.correct_choice_ids)}"
