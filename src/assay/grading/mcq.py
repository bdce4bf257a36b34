"""Multiple choice: the answer's choice is read, and sets of ids are compared, without a judge."""

import re
from collections.abc import Callable
from importlib import import_module

import msgspec

from assay.core.case import Case, Choice
from assay.core.outcome import FailureLabel, Flow, Grade, Score
from assay.grading.assignment import MCQ_ANSWER, GradingAssignment, GradingMethod
from assay.grading.candidate import candidate_ask
from assay.grading.judge_call import criterion_spec
from assay.grading.verdict import CRITERION

UNPARSEABLE = "unparseable_answer"


def grade_mcq(assignment: GradingAssignment) -> Flow:
    """Ask the candidate and compare its selection with the correct choices."""
    (reply,) = yield (candidate_ask(assignment),)
    return compare_choices(assignment, reply.text)


def compare_choices(assignment: GradingAssignment, answer: str) -> Grade:
    """Grade an answer; an unreadable one is wrong.

    Exactly the correct choices are right; in the mode `any`, one or more of them and no others, so that naming every
    choice is not right.
    """
    case = assignment.case
    selected = selected_choices(answer, case.choices)
    chosen, correct = set(selected), set(case.correct_choice_ids)
    # legal_eval_v1 does not say how several correct choices count; exact sets are the stricter reading and the default.
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
        # Wrong, with a flag: an error would leave the record out of the pass rate, and reward models that do not answer.
        flags=() if selected else (UNPARSEABLE,),
    )
    return assignment.sign(grade)


def _label(selected: tuple[str, ...]) -> FailureLabel:
    return "incorrect_answer" if selected else "format_or_schema_violation"


def _justification(selected: tuple[str, ...], case: Case) -> str:
    chosen = ", ".join(selected) or "no choice that could be read"
    return f"selected {chosen}; correct {', '.join(case.correct_choice_ids)}"


_SHORT = re.compile(
    r"\s*(?:The (?:correct |final )?answer is:?|(?:Final )?Answer:?)?\s*[(*]{0,3}([^\s()*.:,]{1,12})[)*]{0,3}\.?\s*", re.IGNORECASE
)
"""Matches one name with the usual words before it, and nothing else."""
_LONGEST_SHORT = 200


class _ChoiceObject(msgspec.Struct):
    """JSON object that a question asks for."""

    answer: str


_decode_given = msgspec.json.Decoder(_ChoiceObject).decode


def selected_choices(answer: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Find the ids of the chosen choices in the question's order; empty for none, an unknown one or ambiguous ones."""
    named = _plain_name(answer)
    # Most answers are just a name. The grammar for all others is loaded when the first one needs it.
    if any(named == choice.id for choice in choices):
        return (named,)
    # Imported lazily: a run without multiple choice, or with plain answers, needs no vocabulary of nine languages.
    read: Callable[..., tuple[str, ...]] = import_module("assay.grading.choice_parser").read_choices
    return read(answer, choices)


def _plain_name(answer: str) -> str:
    """Return the name in an answer that is just a name, or the requested object; most answers are one of these."""
    if answer[:3] == "```":
        answer = answer.strip().removeprefix("```json").strip("`").strip()
    # Only with a single such member: of a duplicate name, msgspec would silently take the last.
    if answer[:1] == "{" and answer.count('nswer"') + answer.count('nswers"') == 1:
        try:
            return _decode_given(answer).answer
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return ""
    # fullmatch: with anything else in the text, only the whole grammar may decide.
    short = _SHORT.fullmatch(answer) if len(answer) < _LONGEST_SHORT else None
    return short.group(1) if short else ""


METHOD = GradingMethod(
    about="multiple choice",
    flow=grade_mcq,
    names=lambda assignment: (f"mcq_{assignment.settings.mcq_mode}/1", MCQ_ANSWER),
    evaluators=("mcq_exact/1", "mcq_any/1"),
    needs_judge=False,
    scale="0/1",
    topics=lambda *_: (criterion_spec("choice", CRITERION),),
)
