"""Grades of 1 to 5 by a judge: golden_v1's rubric, and the named criteria of batch_v1."""

from math import fsum

from assay.core.case import Case, Criterion
from assay.core.outcome import Flow, Grade
from assay.grading.assignment import Assignment, criterion_template
from assay.grading.candidate import candidate_ask
from assay.grading.judge_call import Answer, Question
from assay.grading.panel import Finding, ask_judges, normalized, panel_decisions, panel_flags, panel_reasons, proposed_label
from assay.grading.suspicion import suspicion_flags
from assay.grading.templates import load_template
from assay.grading.transcript import criterion_text, reference_text, task_text
from assay.grading.verdict import FIVE_POINT


def grade_five_point(assignment: Assignment) -> Flow:
    """Asks the candidate, then one judge call per criterion; passes when every criterion reaches the pass score."""
    case = assignment.case
    (reply,) = yield (candidate_ask(assignment),)
    questions = tuple(_question(case, criterion, template_id=assignment.way.template) for criterion in assignment.criteria)
    answer = Answer(reply.text, case.record_sha256)
    findings = yield from ask_judges(questions, assignment.settings, answer=answer)
    return _grade(assignment, reply.text, findings=findings)


def _question(case: Case, criterion: Criterion, *, template_id: str) -> Question:
    return Question(
        criterion=criterion.id,
        template_id=template_id,
        blocks={
            "task": task_text(case),
            "context": case.model_context,
            "rubric": _rubric(criterion),
            "reference": reference_text(case),
        },
        shape=FIVE_POINT,
    )


def _rubric(criterion: Criterion) -> str:
    """A criterion that is only named has a rubric of ours."""
    template_id = criterion_template(criterion)
    return load_template(template_id).text.rstrip("\n") if template_id else criterion_text(criterion)


def _grade(assignment: Assignment, answer: str, *, findings: tuple[Finding, ...]) -> Grade:
    way, pass_score = assignment.way, assignment.settings.case_pass_score
    raw = fsum(finding.value for finding in findings) / len(findings)
    passed = all(finding.value >= pass_score for finding in findings)
    return Grade(
        score=normalized(raw, scale="1-5"),
        passed=passed,
        answer=answer,
        raw_score=raw,
        scale="1-5",
        scores=tuple(score for finding in findings for score in finding.scores),
        justification=panel_reasons(findings),
        label="" if passed else proposed_label(findings) or "other",
        evaluator=way.evaluator,
        template=way.template,
        template_sha256=way.template_sha256,
        panel=panel_decisions(findings),
        policy=way.policy,
        flags=(*assignment.flags, *panel_flags(findings), *suspicion_flags(answer)),
    )
