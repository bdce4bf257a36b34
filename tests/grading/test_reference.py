"""Turns of recorded conversations: tool calls compared exactly, words judged by the recorded words."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.case import Case
from assay.engine.planning.dataset_inputs import read_dataset, recorded_replies, replayed
from assay.grading import GradingSettings, needs_judge
from assay.grading.tool_call import ToolUse, expected_call
from tests.grading.driving import drive, judged

TRAVEL = Path(__file__).parent.parent.parent / "examples" / "conversation_v1" / "travel-agent.json"
RIGHT = '{"tool": "search_trains", "input": {"date": "2026-11-20", "to": "Venezia Santa Lucia", "from": "Wien Hbf"}}'
GOOD = '{"score": 0.9, "justification": "As friendly."}'
NO_JUDGE = GradingSettings(candidate="model")


def turns(*, is_recorded: bool = False) -> list[Case]:
    return [case for case, _ in replayed(read_dataset(TRAVEL)[1].records, is_recorded=is_recorded)]


def graded(answer: str, *, turn: int = 0):
    return drive(turns()[turn], judged(GOOD, answer=answer)).grade


def test_the_recorded_turns_tool_is_expected() -> None:
    assert expected_call(turns()[1]) == ToolUse("hold_seat", {"train": "RJ 131", "position": "window"})
    assert [needs_judge(case, NO_JUDGE) for case in turns()] == [False, False, True]


def test_the_candidate_is_told_of_all_tools_and_of_no_call() -> None:
    text = drive(turns()[0], judged("", answer=RIGHT)).asks["candidate"].messages[-1].content
    assert "- hold_seat: position, train\n- search_trains: date, from, to" in text
    assert '{"tool": "name of the tool", "input": {"member": value, ...}}' in text
    assert "Wien Hbf" not in text


@pytest.mark.parametrize("answer", [RIGHT, f"```json\n{RIGHT}\n```", f"<think>A train.</think>\n{RIGHT}"])
def test_the_same_call_passes_without_a_judge(answer: str) -> None:
    driven = drive(turns()[0], judged("", answer=answer), settings=NO_JUDGE)
    assert list(driven.asks) == ["candidate"]
    assert (driven.grade.score, driven.grade.passed, driven.grade.label, driven.grade.scale) == (1.0, True, "", "0-1")
    assert (driven.grade.evaluator, driven.grade.policy) == ("tool_call_exact/1", "default")


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
    assert 'recorded search_trains {"date":"2026-11-20"' in grade.justification


def test_words_are_judged_where_the_recorded_turn_has_words_alone() -> None:
    grade = graded("My pleasure!", turn=2)
    assert (grade.score, grade.passed, grade.evaluator) == (0.9, True, "judge_reference/1")


def test_a_tool_that_nobody_used_is_misuse_as_well() -> None:
    grade = graded(RIGHT, turn=2)
    assert (grade.passed, grade.label, grade.evaluator) == (False, "tool_or_retrieval_misuse", "tool_call_exact/1")


def test_recorded_replies_are_judged_as_words_and_not_compared_with_themselves() -> None:
    case = turns(is_recorded=True)[0]
    driven = drive(
        case, judged('{"score": 4, "justification": "x"}', answer=recorded_replies(read_dataset(TRAVEL)[1].records)[case.id])
    )
    assert (case.extra, driven.grade.evaluator, driven.grade.passed) == ({}, "judge_1_5/1", True)
