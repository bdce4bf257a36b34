"""Weighted rubrics: one judge call per criterion, met or not, summed by weight."""

from collections.abc import Mapping
from math import fsum

from assay.core.case import Case, Criterion
from assay.core.outcome import Flow, Grade, GradingFailure
from assay.grading.candidate import candidate_ask
from assay.grading.panel import Answer, Finding, Question, ask_judges, panel_flags, panel_reasons
from assay.grading.settings import GradingSettings
from assay.grading.suspicion import suspicion_flags
from assay.grading.templates import load_template
from assay.grading.transcript import reference_text, task_text
from assay.grading.verdict import CRITERION

EVALUATOR = "rubric_per_criterion/1"
TEMPLATE = "judge_criterion/1"


def grade_rubric(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str]) -> Flow:
    """Asks the candidate, then a judge about each criterion; raises GradingFailure for a rubric that can give no points."""
    if not any(criterion.weight > 0 for criterion in case.criteria):
        raise GradingFailure("rubric_without_points", "no criterion has a positive weight, so there is no score to reach")
    (reply,) = yield (candidate_ask(case, settings, attachments=attachments),)
    answer = Answer(reply.text, case.record_sha256)
    questions = tuple(_question(case, criterion) for criterion in case.criteria)
    findings = yield from ask_judges(questions, settings.judges, answer=answer)
    return _grade(answer.text, findings, case=case, threshold=settings.pass_threshold)


def rubric_score(weights: tuple[float, ...], met: tuple[float, ...]) -> float:
    """Points as a share of what can be reached, where the worst answer has 0 and the best 1."""
    points = fsum(weight * value for weight, value in zip(weights, met, strict=True))
    worst, best = fsum(weight for weight in weights if weight < 0), fsum(weight for weight in weights if weight > 0)
    return (points - worst) / (best - worst)


def _question(case: Case, criterion: Criterion) -> Question:
    return Question(
        criterion=criterion.id,
        template_id=TEMPLATE,
        blocks={
            "task": task_text(case),
            "context": case.model_context,
            "reference": reference_text(case),
            "criterion": "\n\n".join(text for text in (criterion.title, criterion.description) if text),
        },
        shape=CRITERION,
        weight=criterion.weight,
    )


def _grade(answer: str, findings: tuple[Finding, ...], *, case: Case, threshold: float) -> Grade:
    score = rubric_score(tuple(criterion.weight for criterion in case.criteria), tuple(finding.value for finding in findings))
    passed = score >= threshold
    return Grade(
        score=score,
        passed=passed,
        answer=answer,
        raw_score=score,
        scale="0-1",
        scores=tuple(score for finding in findings for score in finding.scores),
        justification=panel_reasons(findings),
        label="" if passed else "missing_required_content",
        evaluator=EVALUATOR,
        template_sha256=load_template(TEMPLATE).sha256,
        flags=(*panel_flags(findings), *suspicion_flags(answer)),
    )
