"""Weighted rubrics: each criterion is met or not, in a judge call of its own or in one call for all, summed by weight."""

from fractions import Fraction

from assay.core.case import Case, Criterion
from assay.core.outcome import FailureLabel, Flow, Grade, GradingFailure
from assay.grading.assignment import Assignment
from assay.grading.candidate import candidate_ask
from assay.grading.judge_call import Answer, Part, Question
from assay.grading.panel import Finding, ask_judges, panel_decisions, panel_flags, panel_reasons, proposed_label
from assay.grading.policies import JudgeStyle
from assay.grading.suspicion import suspicion_flags
from assay.grading.transcript import criteria_text, criterion_text, reference_text, task_text
from assay.grading.verdict import CRITERION

ONE_CALL = "rubric"
"""Names the one call for all criteria."""


def grade_rubric(assignment: Assignment) -> Flow:
    """Asks the candidate, then a judge about the criteria; raises GradingFailure for a rubric that can give no points."""
    case, settings = assignment.case, assignment.settings
    if not any(criterion.weight > 0 for criterion in case.criteria):
        raise GradingFailure("rubric_without_points", "no criterion has a positive weight, so there is no score to reach")
    (reply,) = yield (candidate_ask(assignment),)
    findings = yield from ask_judges(_questions(assignment), settings, answer=Answer(reply.text, case.record_sha256))
    return _grade(assignment, reply.text, findings=findings)


def rubric_score(weights: tuple[float, ...], met: tuple[float, ...]) -> float:
    """Points as a share of what can be reached, where the worst answer has 0 and the best 1."""
    # Weights are the decimals that somebody wrote, and exactly 0.7 of them must reach a threshold of 0.7.
    exact = [Fraction(str(weight)) for weight in weights]
    points = sum(weight * Fraction(value) for weight, value in zip(exact, met, strict=True))
    worst, best = sum(weight for weight in exact if weight < 0), sum(weight for weight in exact if weight > 0)
    return float((points - worst) / (best - worst))


def _questions(assignment: Assignment) -> tuple[Question, ...]:
    case = assignment.case
    if assignment.settings.rubric_mode == "one_call":
        return (_question_for_all(case, template_id=assignment.way.template),)
    shown = _shown(case)
    return tuple(_question(criterion, shown, style=assignment.policy.criterion) for criterion in case.criteria)


def _shown(case: Case) -> dict[str, str]:
    return {"task": task_text(case), "context": case.model_context, "reference": reference_text(case)}


def _question(criterion: Criterion, shown: dict[str, str], *, style: JudgeStyle) -> Question:
    blocks = {**shown, "criterion": criterion.title if style.has_background else criterion_text(criterion)}
    if style.has_background:
        blocks["background"] = criterion.description
    return Question(
        criterion=criterion.id, template_id=style.template_id, blocks=blocks, shape=style.shape, weight=criterion.weight
    )


def _question_for_all(case: Case, *, template_id: str) -> Question:
    return Question(
        criterion=ONE_CALL,
        template_id=template_id,
        blocks={**_shown(case), "criteria": criteria_text(case)},
        shape=CRITERION,
        parts=tuple(Part(criterion.id, criterion.weight) for criterion in case.criteria),
    )


def _grade(assignment: Assignment, answer: str, *, findings: tuple[Finding, ...]) -> Grade:
    weights, way = tuple(criterion.weight for criterion in assignment.case.criteria), assignment.way
    score = rubric_score(weights, tuple(finding.value for finding in findings))
    passed = score >= assignment.settings.pass_threshold
    return Grade(
        score=score,
        passed=passed,
        answer=answer,
        raw_score=score,
        scale="0-1",
        scores=tuple(score for finding in findings for score in finding.scores),
        justification=panel_reasons(findings),
        label="" if passed else _label(weights, findings),
        evaluator=way.evaluator,
        template=way.template,
        template_sha256=way.template_sha256,
        panel=panel_decisions(findings),
        policy=way.policy,
        flags=(*assignment.flags, *panel_flags(findings), *suspicion_flags(answer)),
    )


def _label(weights: tuple[float, ...], findings: tuple[Finding, ...]) -> FailureLabel:
    """What the judge says of the criteria that cost points; else something is missing, or there is something that should not be."""
    lost = tuple(
        finding for weight, finding in zip(weights, findings, strict=True) if weight and (weight < 0) == bool(finding.value)
    )
    lacks = any(weight > 0 and not finding.value for weight, finding in zip(weights, findings, strict=True))
    return proposed_label(lost) or ("missing_required_content" if lacks else "incorrect_answer")
