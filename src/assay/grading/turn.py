"""Turns of recorded conversations with tools: calls are compared exactly, words with the recorded words by a judge."""

from assay.core.outcome import Flow, Grade, Score
from assay.grading.assignment import Assignment, tool_call_way
from assay.grading.candidate import candidate_ask
from assay.grading.reference import judge_by_reference
from assay.grading.reply_object import REPLACED
from assay.grading.tool_call import ToolCall, expected_call, read_call


def grade_turn(assignment: Assignment) -> Flow:
    """Asks the candidate; where the recorded turn or the answer calls a tool, the two calls must be the same."""
    (reply,) = yield (candidate_ask(assignment),)
    expected, called = expected_call(assignment.case), read_call(reply.text)
    if expected is not None or called is not None:
        return compare_calls(assignment, reply.text, expected=expected, called=called)
    return (yield from judge_by_reference(assignment, reply.text))


def compare_calls(assignment: Assignment, answer: str, *, expected: ToolCall | None, called: ToolCall | None) -> Grade:
    """The grade of an answer by its tool call alone."""
    is_same = called is not None and called.is_same_as(expected)
    score, way = float(is_same), tool_call_way(assignment.policy)
    return Grade(
        score=score,
        passed=is_same,
        answer=answer,
        raw_score=score,
        # The turns of a conversation without a tool are judged on this scale, and both belong to one mean.
        scale="0-1",
        scores=(Score(criterion="tool_call", score=score, scale="0/1", normalized=score),),
        justification=f"called {called or 'no tool'}; recorded {expected or 'no tool'}",
        label="" if is_same else "tool_or_retrieval_misuse",
        evaluator=way.evaluator,
        template=way.template,
        template_sha256=way.template_sha256,
        policy=way.policy,
        flags=(*assignment.flags, REPLACED) if called and called.has_replaced else assignment.flags,
    )
