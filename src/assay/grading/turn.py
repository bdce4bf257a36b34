"""Turns of recorded conversations with tools: calls are compared exactly, and words by a judge."""

from assay.core.outcome import Flow, Grade, Score
from assay.grading.assignment import Assignment, GradingMethod, GradingProvenance
from assay.grading.candidate import candidate_ask
from assay.grading.judge_call import ReplySpec, criterion_spec
from assay.grading.reference import EVALUATOR as BY_JUDGE
from assay.grading.reference import judge_by_reference, judge_names, judge_topics
from assay.grading.templates import TOOL_CALL
from assay.grading.tool_call import ToolCall, expected_call, read_call
from assay.grading.verdict import CRITERION, REPLACED

EVALUATOR = "tool_call_exact/1"


def grade_turn(assignment: Assignment) -> Flow:
    """Ask the candidate; if the recorded turn or the answer calls a tool, the two calls must be the same."""
    (reply,) = yield (candidate_ask(assignment),)
    expected, called = expected_call(assignment.case), read_call(reply.text)
    if expected is not None or called is not None:
        return compare_calls(assignment, reply.text, expected=expected, called=called)
    return (yield from judge_by_reference(assignment, reply.text))


def compare_calls(assignment: Assignment, answer: str, *, expected: ToolCall | None, called: ToolCall | None) -> Grade:
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
    return assignment.signed(grade, by=GradingProvenance(EVALUATOR, TOOL_CALL, assignment.policy.id))


def _call_topics(*_: object) -> tuple[ReplySpec, ...]:
    return (criterion_spec("tool_call", CRITERION),)


def _topics(assignment: Assignment, answer: str | None) -> tuple[ReplySpec, ...]:
    return _call_topics() if read_call(answer or "") is not None else judge_topics(assignment, answer)


TURN_TEXT = GradingMethod(
    about="turns of a conversation with tools",
    flow=grade_turn,
    names=judge_names,
    evaluators=(BY_JUDGE, EVALUATOR),
    needs_judge=True,
    scale="0-1",
    topics=_topics,
)
"""A turn that was recorded in words: only an answer that calls a tool needs no judge."""
TURN_TOOL_CALL = GradingMethod(
    about="turns of a conversation that call a tool",
    flow=grade_turn,
    names=lambda _: (EVALUATOR, TOOL_CALL),
    evaluators=(EVALUATOR,),
    needs_judge=False,
    scale="0-1",
    topics=_call_topics,
)
"""A turn that was recorded as a tool call."""
