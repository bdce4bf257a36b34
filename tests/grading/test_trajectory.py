"""Turns of recorded conversations: calls compared with the recorded ones and answered by them, words judged by recorded words."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay.core.case import Case
from assay.core.model_call import ModelRequest, Reply
from assay.core.tools import ExpectedCall, infer_tools, tool_call
from assay.engine.planning.dataset_inputs import read_dataset
from assay.engine.planning.trajectories import recorded_answers, recorded_calls, replayed
from assay.grading import GradingSettings, needs_judge, start
from assay.grading.tool_call import expected_calls
from tests.grading.driving import SETTINGS, Driven, drive, judged, replaced

TRAVEL = Path(__file__).parent.parent.parent / "examples" / "conversation_v1" / "travel-agent.json"
RIGHT = '{"tool": "search_trains", "input": {"date": "2026-11-20", "to": "Venezia Santa Lucia", "from": "Wien Hbf"}}'
GOOD = '{"score": 0.9, "justification": "As friendly."}'
TOOLS, _ = infer_tools(recorded_calls(read_dataset(TRAVEL)[1].cases))
NO_JUDGE = GradingSettings(candidate="model", tools=TOOLS)
WITH_TOOLS = msgspec.structs.replace(SETTINGS, tools=TOOLS)
NATIVE = msgspec.structs.replace(WITH_TOOLS, has_native_tools=True)
TWO_CALLS = (
    ExpectedCall("find", {"name": "Ada"}, {"id": 7}, step=2),
    ExpectedCall("book", {"id": 7}, None, step=4),
)


def turns(*, is_recorded: bool = False) -> list[Case]:
    return [case for case, _ in replayed(read_dataset(TRAVEL)[1].records, is_recorded=is_recorded)]


def graded(answer: str, *, turn: int = 0):
    return drive(turns()[turn], judged(GOOD, answer=answer), settings=WITH_TOOLS).grade


def case_of(*calls: ExpectedCall, **changes: object) -> Case:
    return replaced(turns()[2], expected_calls=calls, **changes)


def follow(case: Case, replies: list[Reply], settings: GradingSettings = NATIVE) -> Driven:
    """Drives the flow of a candidate that replies so, and of no judge."""
    flow = start(case, settings)
    rounds = [next(flow)]
    left = iter(replies)
    while True:
        try:
            rounds.append(flow.send((next(left),)))
        except StopIteration as end:
            return Driven(end.value, rounds)


def calling(*calls: tuple[str, dict[str, object]], text: str = "") -> Reply:
    return Reply(text=text, tool_calls=tuple(tool_call(name, given, f"id-{name}") for name, given in calls))


FIND, BOOK = ("find", {"name": "Ada"}), ("book", {"id": 7})
DONE = Reply(text="It is booked.")


def test_the_recorded_turns_tool_is_expected() -> None:
    (call,) = expected_calls(turns()[1])
    assert (call.name, call.arguments, call.output) == ("hold_seat", {"train": "RJ 131", "position": "window"}, None)
    assert [needs_judge(case, NO_JUDGE) for case in turns()] == [False, False, True]


def test_a_candidate_without_native_tools_is_told_of_all_tools_and_of_no_call() -> None:
    text = drive(turns()[0], judged("", answer=RIGHT), settings=WITH_TOOLS).asks["candidate"].messages[-1].content
    assert "- hold_seat: position, train\n- search_trains: date, from, to" in text
    assert '{"tool": "name of the tool", "input": {"member": value, ...}}' in text
    assert "Wien Hbf" not in text


def test_a_candidate_with_native_tools_is_offered_them_and_told_nothing() -> None:
    request = follow(turns()[0], [Reply(text="No.")]).asks["candidate"]
    assert [tool.name for tool in request.tools] == ["hold_seat", "search_trains"]
    assert request.takes_tool_calls
    assert request.messages[-1].content == turns()[0].prompt


@pytest.mark.parametrize("answer", [RIGHT, f"```json\n{RIGHT}\n```", f"<think>A train.</think>\n{RIGHT}"])
def test_the_same_call_passes_without_a_judge(answer: str) -> None:
    driven = drive(turns()[0], judged("", answer=answer), settings=NO_JUDGE)
    assert list(driven.asks) == ["candidate"]
    assert (driven.grade.score, driven.grade.passed, driven.grade.label, driven.grade.scale) == (1.0, True, "", "0-1")
    assert (driven.grade.evaluator, driven.grade.policy) == ("tool_calls/1", "default")


@pytest.mark.parametrize(
    "change",
    [
        lambda call: call.replace("search_trains", "search_flights"),
        lambda call: call.replace("2026-11-20", "2026-11-21"),
        lambda call: call.replace(', "from": "Wien Hbf"', ""),
        lambda call: call.replace('"from"', '"class": 1, "from"'),
        lambda call: call.replace('"tool"', '"name"'),
        lambda call: call.replace('"input"', '"arguments"'),
        lambda call: call[:-2],
        lambda call: f"{call}\n{call}",
        lambda _: "There is a train at 06:25.",
        lambda _: "",
    ],
)
def test_another_call_or_none_is_misuse_of_a_tool(change: Callable[[str], str]) -> None:
    grade = graded(change(RIGHT))
    assert (grade.score, grade.passed, grade.label) == (0.0, False, "tool_or_retrieval_misuse")
    assert grade.justification.startswith("0 of 1 expected tool calls made")


def test_words_are_judged_where_the_recorded_turn_has_words_alone() -> None:
    grade = graded("My pleasure!", turn=2)
    assert (grade.score, grade.passed, grade.evaluator, grade.tool_calls) == (0.9, True, "judge_reference/1", None)


def test_a_tool_that_the_recording_does_not_use_is_misuse_as_well() -> None:
    grade = graded(RIGHT, turn=2)
    assert (grade.passed, grade.label, grade.evaluator) == (False, "tool_or_retrieval_misuse", "tool_calls/1")
    assert grade.justification == "0 of 0 expected tool calls made; search_trains was not expected"


def test_the_judge_of_words_sees_the_calls_and_outputs_of_earlier_turns() -> None:
    prompt = (
        drive(turns()[2], judged(GOOD, answer="My pleasure!"), settings=WITH_TOOLS).asks["judge:reference"].messages[-1].content
    )
    assert "[assistant calls hold_seat]\n" in prompt
    assert '[output of search_trains]\n[{"train":"RJ 131"' in prompt


def test_recorded_replies_are_judged_with_their_calls_and_not_compared_with_themselves() -> None:
    case = turns(is_recorded=True)[0]
    answer = recorded_answers(read_dataset(TRAVEL)[1].records)[case.id]
    given = Reply(text=answer.text, tool_calls=answer.tool_calls, steps=answer.steps)
    flow = start(case, msgspec.structs.replace(WITH_TOOLS, has_answers=True))
    next(flow)
    (ask,) = flow.send((given,))
    assert (case.expected_calls, ask.stage) == (msgspec.UNSET, "judge")
    assert '[assistant calls search_trains]\n{"from":"Wien Hbf"' in ask.messages[-1].content
    assert "[output of search_trains]" in ask.messages[-1].content


def test_a_recorded_call_gets_its_recorded_output_and_the_candidate_goes_on() -> None:
    driven = follow(case_of(*TWO_CALLS), [calling(FIND, text="I look."), calling(BOOK), DONE])
    assert (driven.grade.passed, driven.grade.score, driven.grade.answer) == (True, 1.0, "It is booked.")
    assert list(driven.asks) == ["candidate", "candidate:step-2", "candidate:step-3"]
    turn, output = driven.asks["candidate:step-2"].messages[-2:]
    assert (turn.content, turn.tool_calls[0].id) == ("I look.", "id-find")
    assert (output.role, output.content, output.tool_call_id, output.name) == ("tool", '{"id":7}', "id-find", "find")
    assert driven.asks["candidate:step-3"].messages[-1].content == "null"


def test_calls_that_were_recorded_one_after_the_other_may_come_in_one_reply() -> None:
    driven = follow(case_of(*TWO_CALLS), [calling(FIND, BOOK), DONE])
    assert (driven.grade.passed, len(driven.rounds)) == (True, 2)


def test_what_follows_a_call_that_was_not_recorded_is_unknown() -> None:
    third = ExpectedCall("pay", {}, None, step=6)
    driven = follow(case_of(*TWO_CALLS, third), [calling(FIND), calling(("book", {"id": 8}))])
    assert driven.grade.tool_calls is not None
    assert [one.verdict for one in driven.grade.tool_calls.verdicts] == ["correct", "wrong_arguments", "unknown"]
    assert (driven.grade.score, driven.grade.passed, driven.grade.flags) == (0.5, False, ("left_recording",))
    assert "1 further expected call is unknown" in driven.grade.justification


def test_a_call_whose_output_was_not_recorded_ends_what_is_known() -> None:
    first, second = TWO_CALLS
    driven = follow(case_of(ExpectedCall(first.name, first.arguments, step=2), second), [calling(FIND)])
    assert (driven.grade.score, driven.grade.passed, driven.grade.flags) == (1.0, True, ("left_recording",))


def test_an_answer_in_words_ends_the_turn_and_what_was_not_called_is_missing() -> None:
    driven = follow(case_of(*TWO_CALLS), [calling(FIND), DONE])
    assert (driven.grade.score, driven.grade.passed) == (0.5, False)
    assert driven.grade.justification == "1 of 2 expected tool calls made; book was not called"


def test_a_call_too_many_is_extra() -> None:
    driven = follow(case_of(TWO_CALLS[0]), [calling(FIND), calling(FIND)])
    assert (driven.grade.score, driven.grade.passed) == (0.5, False)


def test_without_replay_only_the_first_calls_are_known() -> None:
    driven = follow(case_of(*TWO_CALLS), [calling(FIND)], msgspec.structs.replace(NATIVE, tool_outputs="stop"))
    assert driven.grade.tool_calls is not None
    assert [one.verdict for one in driven.grade.tool_calls.verdicts] == ["correct", "unknown"]


def test_given_answers_hold_all_their_calls() -> None:
    driven = follow(case_of(*TWO_CALLS), [calling(FIND, BOOK)], msgspec.structs.replace(NATIVE, has_answers=True))
    assert (driven.grade.passed, len(driven.rounds)) == (True, 1)


def test_no_call_passes_where_none_is_expected_and_nothing_was_said() -> None:
    case = case_of(references=())
    assert not needs_judge(case, NO_JUDGE)
    assert follow(case, [DONE]).grade.passed
    assert not follow(case, [calling(FIND)]).grade.passed


@pytest.mark.parametrize("change", [("search_trains", r"\ud800"), ("2026-11-20", r"\ud800"), ('"to"', r'"\u0000"')])
def test_characters_that_no_store_can_hold_are_replaced_and_flagged(change: tuple[str, str]) -> None:
    grade = graded(RIGHT.replace(*change))
    assert (grade.passed, "replaced_characters" in grade.flags) == (False, True)
    assert msgspec.json.encode(grade.tool_calls).count(b"\\u0000") == 0


def test_an_input_too_deep_to_read_is_no_call() -> None:
    grade = graded('{"tool": "search_trains", "input": {"to": ' + "[" * 600 + "]" * 600 + "}}")
    assert (grade.passed, grade.label) == (False, "tool_or_retrieval_misuse")
    assert grade.justification == "0 of 1 expected tool calls made; search_trains was not called"


def requests_of(driven: Driven) -> list[ModelRequest]:
    return [ask for asks in driven.rounds for ask in asks]


def test_calls_without_ids_get_some_and_thoughts_are_sent_back() -> None:
    reply = Reply(text="", tool_calls=(tool_call(*FIND),), native=[{"type": "thinking"}])
    turn, output = requests_of(follow(case_of(*TWO_CALLS), [reply, DONE]))[1].messages[-2:]
    assert turn.tool_calls[0].id == output.tool_call_id != ""
    assert turn.native == [{"type": "thinking"}]
