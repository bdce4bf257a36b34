"""Grades of 1 to 5 by a judge: golden_v1's rubric, and the named criteria of batch_v1."""

from collections.abc import Mapping
from math import fsum

from assay.core.case import Case, Criterion
from assay.core.outcome import FailureLabel, Flow, Grade
from assay.grading.candidate import candidate_ask
from assay.grading.panel import Answer, Finding, Question, ask_judges, normalized, panel_flags, panel_reasons
from assay.grading.settings import GradingSettings
from assay.grading.suspicion import suspicion_flags
from assay.grading.templates import load_template
from assay.grading.transcript import reference_text, task_text
from assay.grading.verdict import FIVE_POINT

EVALUATOR = "judge_1_5/1"
TEMPLATE = "judge_1_5/1"
NAMED_CRITERIA = frozenset({"accuracy", "clarity", "reasoning", "factuality", "overall"})
"""batch_v1: `expected.required_criteria`."""
DEFAULT_CRITERION = Criterion("overall", "overall")
"""batch_v1 names criteria only where a record wants particular ones."""


def grade_five_point(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str]) -> Flow:
    """Asks the candidate, then one judge call per criterion; passes when every criterion reaches the pass score."""
    (reply,) = yield (candidate_ask(case, settings, attachments=attachments),)
    answer = Answer(reply.text, case.record_sha256)
    questions = tuple(_question(case, criterion) for criterion in case.criteria or (DEFAULT_CRITERION,))
    findings = yield from ask_judges(questions, settings.judges, answer=answer)
    return _grade(answer.text, findings, pass_score=settings.case_pass_score)


def _question(case: Case, criterion: Criterion) -> Question:
    return Question(
        criterion=criterion.id,
        template_id=TEMPLATE,
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
    if criterion.title == criterion.id and criterion.id in NAMED_CRITERIA:
        return load_template(f"criterion_{criterion.id}/1").text.rstrip("\n")
    return "\n\n".join(text for text in (criterion.title, criterion.description) if text)


def _grade(answer: str, findings: tuple[Finding, ...], *, pass_score: int) -> Grade:
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
        label="" if passed else _label(findings),
        evaluator=EVALUATOR,
        template_sha256=load_template(TEMPLATE).sha256,
        flags=(*panel_flags(findings), *suspicion_flags(answer)),
    )


def _label(findings: tuple[Finding, ...]) -> FailureLabel:
    """What the judge of the lowest score thinks is wrong."""
    votes = sorted((vote for finding in findings for vote in finding.votes), key=lambda vote: vote.value)
    return next((vote.label for vote in votes if vote.label), "other")
