"""Calls of tools in answers: read exactly, compared as JSON values."""

import pytest

from assay.grading.tool_call import ToolUse, read_call
from tests.grading.test_reference import RIGHT, graded


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ],
)
def test_inputs_are_compared_as_json_values(one: dict[str, object], other: dict[str, object], *, is_same: bool) -> None:
    assert ToolUse("t", one).is_same_as(ToolUse("t", other)) is is_same


def test_a_call_without_input_has_an_empty_one() -> None:
    assert read_call('{"tool": "now"}') == ToolUse("now", {})
    assert read_call('{"tool": "now", "input": "soon"}') is None


def test_a_call_whose_members_cannot_be_told_is_no_call_without_input() -> None:
    called = read_call('{"tool": "now", "arguments": {"zone": "UTC"}}')
    assert called is not None
    assert not called.is_same_as(ToolUse("now"))
    assert str(called) == "now without input"


@pytest.mark.parametrize("change", [("search_trains", r"\ud800"), ("2026-11-20", r"\ud800"), ('"to"', r'"\u0000"')])
def test_characters_that_no_store_can_hold_are_replaced_and_flagged(change: tuple[str, str]) -> None:
    grade = graded(RIGHT.replace(*change))
    assert (grade.passed, grade.flags) == (False, ("replaced_characters",))
    assert "\ufffd" in grade.justification
    assert grade.justification.encode().count(b"\0") == 0


def test_an_input_too_deep_to_read_is_no_call() -> None:
    grade = graded('{"tool": "search_trains", "input": {"to": ' + "[" * 600 + "]" * 600 + "}}")
    assert (grade.passed, grade.label) == (False, "tool_or_retrieval_misuse")
    assert grade.justification.startswith("called no tool")
