"""Reference answers and recorded turns: a judge scores words from 0 to 1 in tenths, and tool calls are compared exactly."""

from assay.core.outcome import Flow, Grade, Score
from assay.grading.assignment import GradingAssignment, GradingMethod, GradingProvenance
from assay.grading.candidate import candidate_ask, context_text, reference_text, task_text
from assay.grading.judge_call import CandidateAnswer, JudgeQuestion, ReplySpec, criterion_spec
from assay.grading.panel import ask_judges, judged_grade, proposed_label
from assay.grading.policies import metadata_text
from assay.grading.templates import TOOL_CALL
from assay.grading.tool_call import ToolUse, expected_call, read_call
from assay.grading.verdict import CRITERION, REPLACED

CRITERION_ID = "reference"
EVALUATOR = "judge_reference/1"
CALL_EVALUATOR = "tool_call_exact/1"


def grade_reference(assignment: GradingAssignment) -> Flow:
    """Ask the candidate, then a judge that compares the answer with the references."""
    (reply,) = yield (candidate_ask(assignment),)
    return (yield from judge_by_reference(assignment, reply.text))


def judge_by_reference(assignment: GradingAssignment, text: str) -> Flow:
    """Ask a judge to compare an answer with the references."""
    settings = assignment.settings
    results = yield from ask_judges((_question(assignment),), settings, answer=CandidateAnswer(text, assignment.case.record_sha256))
    # Several references are shown to the judge together; matching any one of them is enough, which the template says.
    score = results[0].value
    passed = score >= settings.pass_threshold
    label = "" if passed else proposed_label(results) or "incorrect_answer"
    return judged_grade(assignment, text, results=results, raw_score=score, passed=passed, label=label)


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


def grade_turn(assignment: GradingAssignment) -> Flow:
    """Ask the candidate; if the recorded turn or the answer calls a tool, the two calls must be the same."""
    (reply,) = yield (candidate_ask(assignment),)
    expected, called = expected_call(assignment.case), read_call(reply.text)
    # A call where words were recorded is as wrong as words where a call was; a judge would have to guess at both.
    if expected is not None or called is not None:
        return compare_calls(assignment, reply.text, expected=expected, called=called)
    return (yield from judge_by_reference(assignment, reply.text))


def compare_calls(assignment: GradingAssignment, answer: str, *, expected: ToolUse | None, called: ToolUse | None) -> Grade:
    """Grade an answer by its tool call alone."""
    is_same = called is not None and called.is_same_as(expected)
    score = float(is_same)
    grade = Grade(
        score=score,
        passed=is_same,
        answer=answer,
        raw_score=score,
        # Judged turns of the conversation use this scale, and both kinds go into one mean.
        scale="0-1",
        scores=(Score(criterion="tool_call", score=score, scale="0/1", normalized=score),),
        justification=f"called {called or 'no tool'}; recorded {expected or 'no tool'}",
        label="" if is_same else "tool_or_retrieval_misuse",
        flags=(REPLACED,) if called and called.has_replaced else (),
    )
    # No judge was asked, so the grade names the comparison and not the judge's template.
    return assignment.sign(grade, by=GradingProvenance(CALL_EVALUATOR, TOOL_CALL, assignment.policy.id))


def _call_topics(*_: object) -> tuple[ReplySpec, ...]:
    return (criterion_spec("tool_call", CRITERION),)


def _topics(assignment: GradingAssignment, answer: str | None) -> tuple[ReplySpec, ...]:
    return _call_topics() if read_call(answer or "") is not None else judge_topics(assignment, answer)


METHOD = GradingMethod(
    about="compared with a reference",
    flow=grade_reference,
    names=judge_names,
    evaluators=(EVALUATOR,),
    needs_judge=True,
    scale="0-1",
    topics=judge_topics,
)
TURN_TEXT = GradingMethod(
    about="turns of a conversation with tools",
    flow=grade_turn,
    names=judge_names,
    evaluators=(EVALUATOR, CALL_EVALUATOR),
    needs_judge=True,
    scale="0-1",
    topics=_topics,
)
"""A turn that was recorded in words: only an answer that calls a tool needs no judge."""
TURN_TOOL_CALL = GradingMethod(
    about="turns of a conversation that call a tool",
    flow=grade_turn,
    names=lambda _: (CALL_EVALUATOR, TOOL_CALL),
    evaluators=(CALL_EVALUATOR,),
    needs_judge=False,
    scale="0-1",
    topics=_call_topics,
)
"""A turn that was recorded as a tool call."""
