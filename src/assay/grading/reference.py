"""Reference answers and recorded turns: a judge scores words from 0 to 1 in tenths, and tool calls are compared exactly."""

from assay.core.model_call import Reply
from assay.core.outcome import Flow
from assay.grading.assignment import GradingAssignment, GradingMethod
from assay.grading.candidate import candidate_ask, context_text, reference_text, task_text
from assay.grading.judge_call import CandidateAnswer, JudgeQuestion, ReplySpec, criterion_spec
from assay.grading.panel import ask_judges, judged_grade, proposed_label
from assay.grading.policies import metadata_text
from assay.grading.tool_call import answer_with_calls

CRITERION_ID = "reference"
EVALUATOR = "judge_reference/1"


def grade_reference(assignment: GradingAssignment) -> Flow:
    """Ask the candidate, then a judge that compares the answer with the references."""
    (reply,) = yield (candidate_ask(assignment),)
    return (yield from judge_by_reference(assignment, reply))


def judge_by_reference(assignment: GradingAssignment, reply: Reply) -> Flow:
    """Ask a judge to compare an answer with the references."""
    settings = assignment.settings
    answer = CandidateAnswer(answer_with_calls(reply), assignment.case.record_sha256)
    results = yield from ask_judges((_question(assignment),), settings, answer=answer)
    # Several references are shown to the judge together; matching any one of them is enough, which the template says.
    score = results[0].value
    passed = score >= settings.pass_threshold
    label = "" if passed else proposed_label(results) or "incorrect_answer"
    return judged_grade(assignment, reply.text, results=results, raw_score=score, passed=passed, label=label)


def _question(assignment: GradingAssignment) -> JudgeQuestion:
    case, style = assignment.case, assignment.policy.reference
    blocks = {
        **{name: metadata_text(case, name) for name in style.metadata},
        "task": task_text(case),
        "context": context_text(case),
        "reference": reference_text(case),
    }
    return JudgeQuestion(criterion=CRITERION_ID, template_id=style.template_id, blocks=blocks, shape=style.shape)


def judge_names(assignment: GradingAssignment) -> tuple[str, str]:
    """Return the evaluator, and the template of the judge's prompt."""
    return EVALUATOR, assignment.policy.reference.template_id


def judge_topics(assignment: GradingAssignment, _: str | None) -> tuple[ReplySpec, ...]:
    """Return the specification of the one question."""
    return (criterion_spec(CRITERION_ID, assignment.policy.reference.shape),)


METHOD = GradingMethod(
    about="compared with a reference",
    flow=grade_reference,
    names=judge_names,
    evaluators=(EVALUATOR,),
    needs_judge=True,
    scale="0-1",
    topics=judge_topics,
)
