"""Multiple choice: graded by comparing sets of ids, without a judge."""

from assay.core.case import Case
from assay.core.outcome import FailureLabel, Flow, Grade, Score
from assay.grading.assignment import MCQ_ANSWER, Assignment, GradingMethod
from assay.grading.candidate import candidate_ask
from assay.grading.choices import selected_choices
from assay.grading.judge_call import criterion_spec
from assay.grading.verdict import CRITERION

UNPARSEABLE = "unparseable_answer"


def grade_mcq(assignment: Assignment) -> Flow:
    """Ask the candidate and compare its selection with the correct choices."""
    (reply,) = yield (candidate_ask(assignment),)
    return compare_choices(assignment, reply.text)


def compare_choices(assignment: Assignment, answer: str) -> Grade:
    """Grade an answer; an unreadable one is wrong.

    Exactly the correct choices are right; in the mode `any`, one or more of them and no others, so that naming every
    choice is not right.
    """
    case = assignment.case
    selected = selected_choices(answer, case.choices)
    chosen, correct = set(selected), set(case.correct_choice_ids)
    is_right = chosen == correct or (assignment.settings.mcq_mode == "any" and bool(chosen) and chosen < correct)
    score = float(is_right)
    grade = Grade(
        score=score,
        passed=is_right,
        answer=answer,
        raw_score=score,
        scale="0/1",
        scores=(Score(criterion="choice", score=score, scale="0/1", normalized=score),),
        justification=_justification(selected, case),
        label="" if is_right else _label(selected),
        selected_choice_ids=selected,
        flags=() if selected else (UNPARSEABLE,),
    )
    return assignment.signed(grade)


def _label(selected: tuple[str, ...]) -> FailureLabel:
    return "incorrect_answer" if selected else "format_or_schema_violation"


def _justification(selected: tuple[str, ...], case: Case) -> str:
    chosen = ", ".join(selected) or "no choice that could be read"
    return f"selected {chosen}; correct {', '.join(case.correct_choice_ids)}"


METHOD = GradingMethod(
    about="multiple choice",
    flow=grade_mcq,
    names=lambda assignment: (f"mcq_{assignment.settings.mcq_mode}/1", MCQ_ANSWER),
    evaluators=("mcq_exact/1", "mcq_any/1"),
    needs_judge=False,
    scale="0/1",
    topics=lambda *_: (criterion_spec("choice", CRITERION),),
)
