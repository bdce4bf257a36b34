"""Weighted rubrics: each criterion is met or not, in a separate judge call or in one call for all, summed by weight."""

from fractions import Fraction

import msgspec

from assay.core.case import Case, Criterion
from assay.core.outcome import FailureLabel, Flow, Grade, GradingFailure
from assay.core.settings import ProfileId
from assay.grading.assignment import GradingAssignment, GradingMethod
from assay.grading.candidate import candidate_ask, context_text, criteria_text, criterion_text, reference_text, task_text
from assay.grading.judge_call import CandidateAnswer, JudgeQuestion, ReplySpec, RubricPart, criterion_spec, empty_result
from assay.grading.panel import PanelResult, ask_judges, judged_grade, proposed_label
from assay.grading.policies import JudgeStyle
from assay.grading.tool_call import answer_with_calls
from assay.grading.verdict import CRITERION

ONE_CALL = "rubric"
"""Name of the one call for all criteria."""
TEMPLATE_FOR_ALL = "judge_rubric/1"
WITHOUT_POINTS = "rubric_without_points"
BY_PROFILE = "scored_by_profile"
"""Flag of a rubric that has no score of its own and is scored by the run's profile."""

Weights = tuple[float, ...]


def grade_rubric(assignment: GradingAssignment) -> Flow:
    """Ask the candidate, then a judge about the criteria; raises GradingFailure for a rubric that can give no points."""
    case, settings = assignment.case, assignment.settings
    # Before the candidate is asked: an answer that cannot get a score would be paid for in vain.
    if not scoring_weights(_weights(case), settings.profile):
        raise GradingFailure(WITHOUT_POINTS, "no criterion has a positive weight, so there is no score to reach")
    (reply,) = yield (candidate_ask(assignment),)
    results = yield from ask_judges(
        _questions(assignment), settings, answer=CandidateAnswer(answer_with_calls(reply), case.record_sha256)
    )
    return _grade(assignment, reply.text, results=results)


def scoring_weights(weights: Weights, profile: ProfileId | None) -> Weights:
    """Return the weights that count; empty for a rubric without a score: without a positive weight only some profiles give one."""
    if any(weight > 0 for weight in weights):
        return weights
    if profile == "apex_v1":
        # APEX counts criteria without weights, so a rubric of zeros still has a score there.
        return (1.0,) * len(weights)
    return weights if profile == "prbench_normalized" and any(weights) else ()


def _weights(case: Case) -> Weights:
    return tuple(criterion.weight for criterion in case.criteria)


def rubric_score(weights: Weights, met: tuple[float, ...]) -> float:
    """Compute points as a fraction of the range from the worst answer (0) to the best (1)."""
    # Floats would round: weights are decimal numbers, and exactly 0.7 of them must reach a threshold of 0.7.
    exact = [Fraction(str(weight)) for weight in weights]
    points = sum(weight * Fraction(value) for weight, value in zip(exact, met, strict=True))
    # Negative weights take points away, so the worst answer has less than 0 points; the range is scaled to 0..1.
    worst, best = sum(weight for weight in exact if weight < 0), sum(weight for weight in exact if weight > 0)
    return float((points - worst) / (best - worst))


def _questions(assignment: GradingAssignment) -> tuple[JudgeQuestion, ...]:
    case = assignment.case
    if assignment.settings.rubric_mode == "one_call":
        return (_question_for_all(case),)
    shared_blocks = _shared_blocks(case)
    # One call per criterion by default, as the published benchmarks with rubrics do it.
    return tuple(_question(criterion, shared_blocks, style=assignment.policy.criterion) for criterion in case.criteria)


def _shared_blocks(case: Case) -> dict[str, str]:
    return {"task": task_text(case), "context": context_text(case), "reference": reference_text(case)}


def _question(criterion: Criterion, shared_blocks: dict[str, str], *, style: JudgeStyle) -> JudgeQuestion:
    blocks = {**shared_blocks, "criterion": criterion.title if style.has_background else criterion_text(criterion)}
    if style.has_background:
        blocks["background"] = criterion.description
    return JudgeQuestion(
        criterion=criterion.id, template_id=style.template_id, blocks=blocks, shape=style.shape, weight=criterion.weight
    )


def _question_for_all(case: Case) -> JudgeQuestion:
    return JudgeQuestion(
        criterion=ONE_CALL,
        template_id=TEMPLATE_FOR_ALL,
        blocks={**_shared_blocks(case), "criteria": criteria_text(case)},
        shape=CRITERION,
        parts=tuple(RubricPart(criterion.id, criterion.weight) for criterion in case.criteria),
    )


def _grade(assignment: GradingAssignment, answer: str, *, results: tuple[PanelResult, ...]) -> Grade:
    stated = _weights(assignment.case)
    weights = scoring_weights(stated, assignment.settings.profile)
    if not any(weight > 0 for weight in stated):
        # The flag tells readers that this score exists only under the run's profile.
        assignment = msgspec.structs.replace(assignment, flags=(*assignment.flags, BY_PROFILE))
    score = rubric_score(weights, tuple(result.value for result in results))
    passed = score >= assignment.settings.pass_threshold
    label: FailureLabel = "" if passed else _label(weights, results)
    return judged_grade(assignment, answer, results=results, raw_score=score, passed=passed, label=label)


def _label(weights: Weights, results: tuple[PanelResult, ...]) -> FailureLabel:
    """Return the judge's label for the criteria that cost points; else missing content, or content that should not be there."""
    lost = tuple(result for weight, result in zip(weights, results, strict=True) if weight and (weight < 0) == bool(result.value))
    lacks = any(weight > 0 and not result.value for weight, result in zip(weights, results, strict=True))
    return proposed_label(lost) or ("missing_required_content" if lacks else "incorrect_answer")


def _names(assignment: GradingAssignment) -> tuple[str, str]:
    if assignment.settings.rubric_mode == "one_call":
        return "rubric_one_call/1", TEMPLATE_FOR_ALL
    return "rubric_per_criterion/1", assignment.policy.criterion.template_id


def _topics(assignment: GradingAssignment, _: str | None) -> tuple[ReplySpec, ...]:
    criteria, shape = assignment.case.criteria, assignment.policy.criterion.shape
    if assignment.settings.rubric_mode == "one_call":
        marks = tuple(empty_result(criterion.id, CRITERION, weight=criterion.weight) for criterion in criteria)
        return (ReplySpec(name=ONE_CALL, shape=CRITERION, marks=marks, is_list=True),)
    return tuple(criterion_spec(criterion.id, shape, weight=criterion.weight) for criterion in criteria)


METHOD = GradingMethod(
    about="graded by a rubric",
    flow=grade_rubric,
    names=_names,
    evaluators=("rubric_per_criterion/1", "rubric_one_call/1"),
    needs_judge=True,
    scale="0-1",
    topics=_topics,
)
