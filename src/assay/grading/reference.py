"""Reference answers: one judge call, a score of 0 to 1 in tenths."""

from collections.abc import Mapping

from assay.core.case import Case
from assay.core.outcome import Flow, Grade
from assay.grading.candidate import candidate_ask
from assay.grading.panel import Answer, Question, ask_judges, panel_flags, panel_reasons
from assay.grading.settings import GradingSettings
from assay.grading.suspicion import suspicion_flags
from assay.grading.templates import load_template
from assay.grading.transcript import reference_text, task_text
from assay.grading.verdict import TENTHS

EVALUATOR = "judge_reference/1"
TEMPLATE = "judge_reference/1"


def grade_reference(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str]) -> Flow:
    """Asks the candidate, then a judge who compares the answer with the references."""
    (reply,) = yield (candidate_ask(case, settings, attachments=attachments),)
    answer = Answer(reply.text, case.record_sha256)
    blocks = {"task": task_text(case), "context": case.model_context, "reference": reference_text(case)}
    question = Question(criterion="reference", template_id=TEMPLATE, blocks=blocks, shape=TENTHS)
    findings = yield from ask_judges((question,), settings.judges, answer=answer)
    score = findings[0].value
    passed = score >= settings.pass_threshold
    return Grade(
        score=score,
        passed=passed,
        answer=answer.text,
        raw_score=score,
        scale="0-1",
        scores=findings[0].scores,
        justification=panel_reasons(findings),
        label="" if passed else "incorrect_answer",
        evaluator=EVALUATOR,
        template_sha256=load_template(TEMPLATE).sha256,
        flags=(*panel_flags(findings), *suspicion_flags(answer.text)),
    )
