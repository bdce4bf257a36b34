"""A candidate's way through a turn: its tool calls, answered with recorded outputs as long as it stays with the recording."""

from collections.abc import Generator, Sequence
from itertools import count

import msgspec

from assay.core.call_rules import RecordMatching
from assay.core.canonical import canonical_json, json_text
from assay.core.case import Message
from assay.core.model_call import CANDIDATE_CALL, ModelRequest, Reply
from assay.core.outcome import Flow, Grade, Score
from assay.core.tools import ExpectedCall, ToolCall, ToolCallResults, output_text
from assay.grading.assignment import GradingAssignment, GradingMethod, GradingProvenance
from assay.grading.call_matching import TOLERATED, CallComparison, compare_calls, judge_key
from assay.grading.candidate import candidate_ask, task_text
from assay.grading.judge_call import CandidateAnswer, JudgeQuestion, ReplySpec, criterion_spec
from assay.grading.panel import ask_judges
from assay.grading.reference import EVALUATOR, judge_by_reference, judge_names, judge_topics
from assay.grading.templates import TOOL_CALL
from assay.grading.tool_call import calls_in, expected_calls, offered_tools, read_call
from assay.grading.verdict import REPLACED, RESULT, TENTHS

CALL_EVALUATOR = "tool_calls/1"
OLD_CALL_EVALUATOR = "tool_call_exact/1"
"""Evaluator of earlier versions, which compared the first call of a turn only."""
STEP = f"{CANDIDATE_CALL}:step-"
"""Prefix of the ids of a candidate's further requests."""
VALUE = "judge_value/1"
"""Template that asks whether two values of an argument mean the same."""
LEFT_RECORDING = "left_recording"
"""Flag of an answer after which the recording says nothing about the candidate's further calls."""


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """What the candidate did in one turn."""

    reply: Reply
    """The last one."""
    made: tuple[ToolCall, ...] = ()
    unknown: tuple[int, ...] = ()
    """Expected calls of which nothing is known, because the candidate left the recording before them."""
    comparison: CallComparison
    """Rules by which calls are equal, with what judges decided so far."""
    votes: tuple[Score, ...] = ()
    """Judges' votes on values of arguments."""


def follow_candidate(assignment: GradingAssignment) -> Generator[tuple[ModelRequest, ...], tuple[Reply, ...], Trajectory]:
    """Ask the candidate, and again with the recorded outputs of its calls, until it answers in words or leaves the recording."""
    settings, tools = assignment.settings, offered_tools(assignment.case, assignment.settings.tools)
    left = list(enumerate(expected_calls(assignment.case)))
    comparison = CallComparison(settings.tool_calls)
    is_ordered = matching_of(assignment) == "in_order"
    request = candidate_ask(assignment)
    made: list[ToolCall] = []
    votes: tuple[Score, ...] = ()
    # A recording has an end, so this has one too: each further request takes a recorded call.
    for step in count(2):
        (reply,) = yield (request,)
        calls = calls_in(reply, tools)
        made += calls
        # A given answer holds all of its calls.
        if not calls or settings.has_answers:
            return Trajectory(reply=reply, made=tuple(made), comparison=comparison, votes=votes)
        taken = None
        if settings.tool_outputs == "replay":
            taken, cast = yield from _take_judged(assignment, calls, left, comparison=comparison, is_ordered=is_ordered)
            votes += cast
        # A candidate that writes its calls as text was told to reply with nothing else, so that its last one ends the turn.
        if taken is not None and not left and not reply.tool_calls:
            return Trajectory(reply=reply, made=tuple(made), comparison=comparison, votes=votes)
        if taken is None:
            unknown = tuple(place for place, _ in left[len(calls) :])
            return Trajectory(reply=reply, made=tuple(made), unknown=unknown, comparison=comparison, votes=votes)
        request = _next_request(request, reply, calls=calls, recorded=taken, step=step)
    raise AssertionError("the loop ends by a return")


_Votes = Generator[tuple[ModelRequest, ...], tuple[Reply, ...], tuple[Score, ...]]
_Left = list[tuple[int, ExpectedCall]]


def _take_judged(
    assignment: GradingAssignment, calls: Sequence[ToolCall], left: _Left, *, comparison: CallComparison, is_ordered: bool
) -> Generator[tuple[ModelRequest, ...], tuple[Reply, ...], tuple[list[ExpectedCall] | None, tuple[Score, ...]]]:
    """Take the recorded calls that equal those of one reply, and ask judges where only they can tell."""
    votes: tuple[Score, ...] = ()
    while True:
        taken = _find_equal(calls, left, comparison=comparison, is_ordered=is_ordered)
        pairs = [] if taken is None else [(call, *one) for call, one in zip(calls, taken, strict=True)]
        cast = yield from _judge_values(assignment, pairs, comparison=comparison)
        # A judge may have called a pair different, so that another recorded call is the equal one.
        if not cast:
            break
        votes += cast
    if taken is None:
        return None, votes
    for one in taken:
        left.remove(one)
    return [expected for _, expected in taken], votes


def _find_equal(
    calls: Sequence[ToolCall], left: _Left, *, comparison: CallComparison, is_ordered: bool
) -> list[tuple[int, ExpectedCall]] | None:
    """Find the recorded calls that equal those of one reply; None when one has no equal with an output."""
    # A reply may hold parallel calls in any order, and a recording may list them one after the other.
    window = left[: len(calls)] if is_ordered else left
    if is_ordered and window:
        window = [one for one in left if one[1].step <= window[-1][1].step]
    taken: list[tuple[int, ExpectedCall]] = []
    for call in calls:
        found = next((one for one in window if one not in taken and comparison.same(call, one[1])), None)
        if found is None or found[1].output is msgspec.UNSET:
            return None
        taken.append(found)
    return taken


def _judge_values(
    assignment: GradingAssignment, pairs: Sequence[tuple[ToolCall, int, ExpectedCall]], *, comparison: CallComparison
) -> _Votes:
    """Ask judges about the values of these pairs that no program can compare."""
    votes: tuple[Score, ...] = ()
    for made, place, expected in pairs:
        if comparison.wrong_arguments(made, expected):
            continue
        for name in comparison.undecided(made, expected):
            given, wanted = (made.arguments or {})[name], expected.arguments[name]
            earlier = sum(key[:2] == (made.name, name) and key[3] == canonical_json(wanted) for key in comparison.decided)
            question = JudgeQuestion(
                criterion=_value_name(made.name, name, place=place) + (f" other {earlier}" if earlier else ""),
                template_id=VALUE,
                blocks={
                    "task": task_text(assignment.case),
                    "argument": _argument_text(assignment, made.name, name),
                    "reference": json_text(wanted),
                },
                shape=RESULT,
            )
            answer = CandidateAnswer(json_text(given), assignment.case.record_sha256)
            (result,) = yield from ask_judges((question,), assignment.settings, answer=answer)
            comparison.decided[judge_key(made.name, name, given, wanted)] = bool(result.value)
            votes += result.scores
    return votes


def _value_name(tool: str, argument: str, *, place: int) -> str:
    """Name a question to judges after the expected call."""
    return f"{tool}.{argument} of call {place + 1}"


def _argument_text(assignment: GradingAssignment, tool: str, argument: str) -> str:
    """Describe an argument for a judge."""
    found = next((one for one in offered_tools(assignment.case, assignment.settings.tools) if one.name == tool), None)
    about = [f"tool: {tool}{f' ({found.description})' if found and found.description else ''}"]
    schema = found.parameters.get("properties", {}).get(argument) if found else None
    described = schema.get("description") if isinstance(schema, dict) else None
    return "\n".join([*about, f"argument: {argument}{f' ({described})' if described else ''}"])


def matching_of(assignment: GradingAssignment) -> RecordMatching:
    """Return how the calls of a record are matched: its own way, or else the run's."""
    own = assignment.case.call_matching
    return assignment.settings.tool_calls.matching if own is msgspec.UNSET else own


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
    if expected or trajectory.made or not assignment.case.references or assignment.case.call_matching == "any_call":
        return (yield from grade_calls(assignment, trajectory))
    return (yield from judge_by_reference(assignment, trajectory.reply))


def grade_calls(assignment: GradingAssignment, trajectory: Trajectory) -> Flow:
    """Grade an answer by its tool calls; judges are asked only about values in calls that are right otherwise."""
    expected, matching, comparison = expected_calls(assignment.case), matching_of(assignment), trajectory.comparison
    votes = trajectory.votes
    while True:
        results = compare_calls(trajectory.made, expected, unknown=trajectory.unknown, comparison=comparison, matching=matching)
        correct_pairs = [
            (trajectory.made[one.made], one.expected, expected[one.expected])
            for one in results.verdicts
            if one.verdict == "correct" and one.made is not None and one.expected is not None
        ]
        cast = yield from _judge_values(assignment, correct_pairs, comparison=comparison)
        if not cast:
            break
        votes += cast
    tolerated = TOLERATED.get(matching, ())
    known = len(results.verdicts) - results.count("unknown", *tolerated)
    correct = results.count("correct")
    passed = _is_any_call_right(matching, expected, trajectory.made)
    score = float(passed) if passed is not None else correct / known if known else 1.0
    passed = correct == known if passed is None else passed
    has_replaced = any("\ufffd" in call.raw or "\ufffd" in call.name for call in trajectory.made)
    flags = (REPLACED,) if has_replaced else ()
    grade = Grade(
        score=score,
        passed=passed,
        answer=trajectory.reply.text,
        raw_score=score,
        # Judged turns of the conversation use this scale, and both kinds go into one mean.
        scale="0-1",
        scores=(Score(criterion="tool_calls", score=score, scale="0-1", normalized=score), *votes),
        justification=describe_calls(results, matching=matching),
        label="" if passed else "tool_or_retrieval_misuse",
        flags=flags if results.count("unknown") == 0 else (*flags, LEFT_RECORDING),
        tool_calls=results,
    )
    # Without a vote no judge was asked, and the grade names the comparison and not the judge's template.
    template = VALUE if votes else "" if assignment.settings.has_native_tools else TOOL_CALL
    return assignment.sign(grade, by=GradingProvenance(CALL_EVALUATOR, template, assignment.policy.id))


def _is_any_call_right(matching: RecordMatching, expected: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> bool | None:
    """Return whether an answer is right where it only matters that a tool is called, or that none is; None elsewhere."""
    # BFCL takes an answer with a call that it cannot read for one without calls.
    calls_tools = bool(made) and all(call.arguments is not None for call in made)
    if matching == "any_call":
        return calls_tools
    return not calls_tools if matching == "bfcl" and not expected else None


_WORDS = {
    "wrong_arguments": "wrong arguments",
    "wrong_name": "another tool",
    "not_json": "arguments that are not JSON",
}


def describe_calls(results: ToolCallResults, *, matching: RecordMatching = "in_order") -> str:
    """Say in a line what is right and wrong about the calls."""
    if matching == "any_call":
        names = ", ".join(dict.fromkeys(call.name for call in results.made))
        return f"a tool was called, as expected: {names}" if names else "no tool was called, and one was expected"
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


def _value_topics(assignment: GradingAssignment, _: str | None) -> tuple[ReplySpec, ...]:
    rules = assignment.settings.tool_calls
    return tuple(
        criterion_spec(_value_name(call.name, name, place=place), RESULT)
        for place, call in enumerate(expected_calls(assignment.case))
        for name in call.arguments
        if (call.rules.get(name) or rules.of(call.name, name)) == "judge"
    )


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
JUDGED_TOOL_CALL = msgspec.structs.replace(
    TURN_TOOL_CALL,
    about="records that expect tool calls, with values that a judge compares",
    needs_judge=True,
    topics=_value_topics,
    texts=lambda _: (VALUE,),
)
"""A record with a rule that asks a judge."""
