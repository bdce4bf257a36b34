"""Reference answers: one judge call, a score of 0 to 1 in tenths."""

from assay.core.outcome import Flow, Grade
from assay.grading.assignment import Assignment
from assay.grading.candidate import candidate_ask
from assay.grading.judge_call import Answer, Question
from assay.grading.panel import ask_judges, panel_decisions, panel_flags, panel_reasons, proposed_label
from assay.grading.policies import metadata_text
from assay.grading.suspicion import suspicion_flags
from assay.grading.transcript import reference_text, task_text


def grade_reference(assignment: Assignment) -> Flow:
    """Asks the candidate, then a judge who compares the answer with the references."""
    (reply,) = yield (candidate_ask(assignment),)
    return (yield from judge_by_reference(assignment, reply.text))


def judge_by_reference(assignment: Assignment, text: str) -> Flow:
    """Asks a judge who compares an answer with the references."""
    settings, way = assignment.settings, assignment.way
    findings = yield from ask_judges((_question(assignment),), settings, answer=Answer(text, assignment.case.record_sha256))
    score = findings[0].value
    passed = score >= settings.pass_threshold
    return Grade(
        score=score,
        passed=passed,
        answer=text,
        raw_score=score,
        scale="0-1",
        scores=findings[0].scores,
        justification=panel_reasons(findings),
        label="" if passed else proposed_label(findings) or "incorrect_answer",
        evaluator=way.evaluator,
        template=way.template,
        template_sha256=way.template_sha256,
        panel=panel_decisions(findings),
        policy=way.policy,
        flags=(*assignment.flags, *panel_flags(findings), *suspicion_flags(text)),
    )


def _question(assignment: Assignment) -> Question:
    case, style = assignment.case, assignment.policy.reference
    blocks = {
        **{name: metadata_text(case, name) for name in style.metadata},
        "task": task_text(case),
        "context": case.model_context,
        "reference": reference_text(case),
    }
    return Question(criterion="reference", template_id=style.template_id, blocks=blocks, shape=style.shape)
