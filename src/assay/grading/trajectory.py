"""A candidate's way through a turn: its tool calls, answered with recorded outputs as long as it stays with the recording."""

from collections.abc import Generator, Sequence
from itertools import count

import msgspec

from assay.core.case import Message
from assay.core.model_call import CANDIDATE_CALL, ModelRequest, Reply
from assay.core.outcome import Flow, Grade, Score
from assay.core.tools import ExpectedCall, ToolCall, ToolCallResults, output_text
from assay.grading.assignment import GradingAssignment, GradingMethod, GradingProvenance
from assay.grading.call_matching import compare_calls, same_call
from assay.grading.candidate import candidate_ask
from assay.grading.judge_call import ReplySpec, criterion_spec
from assay.grading.reference import EVALUATOR, judge_by_reference, judge_names, judge_topics
from assay.grading.templates import TOOL_CALL
from assay.grading.tool_call import calls_in, expected_calls, offered_tools, read_call
from assay.grading.verdict import REPLACED, TENTHS

CALL_EVALUATOR = "tool_calls/1"
OLD_CALL_EVALUATOR = "tool_call_exact/1"
"""Evaluator of earlier versions, which compared the first call of a turn only."""
STEP = f"{CANDIDATE_CALL}:step-"
"""Prefix of the ids of a candidate's further requests."""
LEFT_RECORDING = "left_recording"
"""Flag of an answer after which the recording says nothing about the candidate's further calls."""


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """What the candidate did in one turn."""

    reply: Reply
    """The last one."""
    made: tuple[ToolCall, ...] = ()
    unknown_from: int | None = None
    """First expected call of which nothing is known, because the candidate left the recording before it."""


def follow_candidate(assignment: GradingAssignment) -> Generator[tuple[ModelRequest, ...], tuple[Reply, ...], Trajectory]:
    """Ask the candidate, and again with the recorded outputs of its calls, until it answers in words or leaves the recording."""
    settings, tools = assignment.settings, offered_tools(assignment.case, assignment.settings.tools)
    left = list(enumerate(expected_calls(assignment.case)))
    request = candidate_ask(assignment)
    made: list[ToolCall] = []
    # A recording has an end, so this has one too: each further request takes a recorded call.
    for step in count(2):
        (reply,) = yield (request,)
        calls = calls_in(reply, tools)
        made += calls
        # A given answer holds all of its calls.
        if not calls or settings.has_answers:
            return Trajectory(reply=reply, made=tuple(made))
        taken = _take(calls, left) if settings.tool_outputs == "replay" else None
        # A candidate that writes its calls as text was told to reply with nothing else, so that its last one ends the turn.
        if taken is not None and not left and not reply.tool_calls:
            return Trajectory(reply=reply, made=tuple(made))
        if taken is None:
            return Trajectory(reply=reply, made=tuple(made), unknown_from=len(made))
        request = _next_request(request, reply, calls=calls, recorded=taken, step=step)
    raise AssertionError("the loop ends by a return")


def _take(calls: Sequence[ToolCall], left: list[tuple[int, ExpectedCall]]) -> list[ExpectedCall] | None:
    """Take the recorded calls that equal those of one reply from what is left; None when one has no equal with an output."""
    # A reply may hold parallel calls in any order, and a recording may list them one after the other.
    window = left[: len(calls)]
    if len(window) > 0:
        window = [one for one in left if one[1].step <= window[-1][1].step]
    taken: list[tuple[int, ExpectedCall]] = []
    for call in calls:
        found = next((one for one in window if one not in taken and same_call(call, one[1])), None)
        if found is None or found[1].output is msgspec.UNSET:
            return None
        taken.append(found)
    for one in taken:
        left.remove(one)
    return [expected for _, expected in taken]


def _next_request(
    request: ModelRequest, reply: Reply, *, calls: Sequence[ToolCall], recorded: Sequence[ExpectedCall], step: int
) -> ModelRequest:
    """Build the request that follows a reply: with its calls, and the recorded output of each."""
    # Outputs are told apart by the ids of their calls, which some providers leave out.
    named = tuple(
        call if call.id else msgspec.structs.replace(call, id=f"call_{step}_{position}") for position, call in enumerate(calls)
    )
    # A call that came as text is sent back as a call.
    text = reply.text if reply.tool_calls else ""
    outputs = (
        Message("tool", output_text(expected.output), tool_call_id=call.id, name=call.name)
        for call, expected in zip(named, recorded, strict=True)
    )
    turn = Message("assistant", text, named, native=reply.native)
    return msgspec.structs.replace(request, call_id=f"{STEP}{step}", messages=(*request.messages, turn, *outputs))


def grade_turn(assignment: GradingAssignment) -> Flow:
    """Follow the candidate; calls are compared with the expected ones, and words with the recorded words by a judge."""
    trajectory = yield from follow_candidate(assignment)
    expected = expected_calls(assignment.case)
    # A call where words were recorded is as wrong as words where a call was; a judge would have to guess at both.
    if expected or trajectory.made or not assignment.case.references:
        return grade_calls(assignment, trajectory)
    return (yield from judge_by_reference(assignment, trajectory.reply))


def grade_calls(assignment: GradingAssignment, trajectory: Trajectory) -> Grade:
    """Grade an answer by its tool calls alone."""
    expected = expected_calls(assignment.case)
    results = compare_calls(trajectory.made, expected, unknown_from=trajectory.unknown_from)
    known = len(results.verdicts) - results.count("unknown")
    correct = results.count("correct")
    passed = correct == known
    score = correct / known if known else float(passed)
    has_replaced = any("\ufffd" in call.raw or "\ufffd" in call.name for call in trajectory.made)
    flags = (REPLACED,) if has_replaced else ()
    grade = Grade(
        score=score,
        passed=passed,
        answer=trajectory.reply.text,
        raw_score=score,
        # Judged turns of the conversation use this scale, and both kinds go into one mean.
        scale="0-1",
        scores=(Score(criterion="tool_calls", score=score, scale="0-1", normalized=score),),
        justification=describe_calls(results),
        label="" if passed else "tool_or_retrieval_misuse",
        flags=flags if results.count("unknown") == 0 else (*flags, LEFT_RECORDING),
        tool_calls=results,
    )
    # No judge was asked, so the grade names the comparison and not the judge's template.
    template = "" if assignment.settings.has_native_tools else TOOL_CALL
    return assignment.sign(grade, by=GradingProvenance(CALL_EVALUATOR, template, assignment.policy.id))


_WORDS = {
    "wrong_arguments": "wrong arguments",
    "wrong_name": "another tool",
    "not_json": "arguments that are not JSON",
}


def describe_calls(results: ToolCallResults) -> str:
    """Say in a line what is right and wrong about the calls."""
    if not results.made and not results.expected:
        return "no tool was called, as expected"
    parts = [f"{results.count('correct')} of {len(results.expected)} expected tool calls made"]
    for one in results.verdicts:
        wanted = results.expected[one.expected].name if one.expected is not None else ""
        made = results.made[one.made].name if one.made is not None else ""
        if one.verdict == "missing":
            parts.append(f"{wanted} was not called")
        elif one.verdict == "extra":
            parts.append(f"{made} was not expected")
        elif one.verdict == "wrong_name":
            parts.append(f"{made} was called instead of {wanted}")
        elif one.verdict in _WORDS:
            names = f" ({', '.join(one.wrong_arguments)})" if one.wrong_arguments else ""
            parts.append(f"{made} with {_WORDS[one.verdict]}{names}")
    unknown = results.count("unknown")
    if unknown:
        parts.append(
            f"{unknown} further expected {'call is' if unknown == 1 else 'calls are'} unknown, because the recording ends here"
        )
    return "; ".join(parts)


def _call_topics(*_: object) -> tuple[ReplySpec, ...]:
    return (criterion_spec("tool_calls", TENTHS),)


def _topics(assignment: GradingAssignment, answer: str | None) -> tuple[ReplySpec, ...]:
    return _call_topics() if read_call(answer or "") is not None else judge_topics(assignment, answer)


TURN_TEXT = GradingMethod(
    about="turns of a conversation with tools",
    flow=grade_turn,
    names=judge_names,
    evaluators=(EVALUATOR, CALL_EVALUATOR, OLD_CALL_EVALUATOR),
    needs_judge=True,
    scale="0-1",
    topics=_topics,
)
"""A turn that was recorded in words: only an answer that calls a tool needs no judge."""
TURN_TOOL_CALL = GradingMethod(
    about="records that expect tool calls",
    flow=grade_turn,
    names=lambda assignment: (CALL_EVALUATOR, "" if assignment.settings.has_native_tools else TOOL_CALL),
    evaluators=(CALL_EVALUATOR, OLD_CALL_EVALUATOR),
    needs_judge=False,
    scale="0-1",
    topics=_call_topics,
)
"""A record that expects tool calls, or none."""
