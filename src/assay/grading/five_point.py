"""Grades of 1 to 5 by a judge: golden_v1's rubric, and the named criteria of batch_v1."""

from math import fsum

from assay.core.case import Case, Criterion
from assay.core.outcome import Flow
from assay.grading.assignment import NAMED_CRITERIA, GradingAssignment, GradingMethod
from assay.grading.candidate import candidate_ask, context_text, criterion_text, grading_text, reference_text, task_text
from assay.grading.judge_call import CandidateAnswer, JudgeQuestion, ReplySpec, criterion_spec
from assay.grading.panel import ask_judges, judged_grade, proposed_label
from assay.grading.templates import load_template
from assay.grading.tool_call import answer_with_calls
from assay.grading.verdict import FIVE_POINT

TEMPLATE = "judge_1_5/1"
WITH_GRADING = "judge_1_5/2"
"""Template for records whose authors give graders more than a rubric and a reference."""


def grade_five_point(assignment: GradingAssignment) -> Flow:
    """Ask the candidate, then a judge per criterion; the case passes when every criterion reaches the pass score."""
    case, pass_score = assignment.case, assignment.settings.case_pass_score
    (reply,) = yield (candidate_ask(assignment),)
    questions = tuple(_question(case, criterion) for criterion in assignment.criteria)
    answer = CandidateAnswer(answer_with_calls(reply), case.record_sha256)
    results = yield from ask_judges(questions, assignment.settings, answer=answer)
    # Every criterion has to pass: a mean would let a very clear answer make up for a wrong one.
    passed = all(result.value >= pass_score for result in results)
    return judged_grade(
        assignment,
        reply.text,
        results=results,
        # fsum: the mean of equal scores must be exactly that score, or a threshold would be missed by rounding.
        raw_score=fsum(result.value for result in results) / len(results),
        passed=passed,
        label="" if passed else proposed_label(results) or "other",
    )


def _question(case: Case, criterion: Criterion) -> JudgeQuestion:
    grading = grading_text(case)
    return JudgeQuestion(
        criterion=criterion.id,
        template_id=WITH_GRADING if grading else TEMPLATE,
        blocks={
            "task": task_text(case),
            "context": context_text(case),
            "rubric": _rubric(criterion),
            "reference": reference_text(case),
            # Records without such fields keep the template that they had before it existed, and so their caches and hashes.
            **({"grading": grading} if grading else {}),
        },
        shape=FIVE_POINT,
    )


def _rubric(criterion: Criterion) -> str:
    """Return the rubric of a criterion; ours if it is only named."""
    template_id = criterion_template(criterion)
    return load_template(template_id).text.rstrip("\n") if template_id else criterion_text(criterion)


def criterion_template(criterion: Criterion) -> str:
    """Return our rubric template for a criterion that is only named; empty for one that describes itself."""
    # batch_v1 only names criteria, without saying what they mean; for those the wording is ours.
    is_named = criterion.title == criterion.id and criterion.id in NAMED_CRITERIA
    return f"criterion_{criterion.id}/1" if is_named else ""


def _topics(assignment: GradingAssignment, _: str | None) -> tuple[ReplySpec, ...]:
    return tuple(criterion_spec(criterion.id, FIVE_POINT) for criterion in assignment.criteria)


METHOD = GradingMethod(
    about="judged from 1 to 5",
    flow=grade_five_point,
    names=lambda assignment: ("judge_1_5/1", WITH_GRADING if grading_text(assignment.case) else TEMPLATE),
    evaluators=("judge_1_5/1",),
    needs_judge=True,
    scale="1-5",
    topics=_topics,
    texts=lambda assignment: filter(None, map(criterion_template, assignment.criteria)),
)
