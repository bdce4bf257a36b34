"""The rules of conversation_v1: limits, turns and messages, and what Python data is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import ValidationConfig, validate
from tests.datasets.findings import ABSENT, Found, changed, errors_of, issue_of


@pytest.mark.parametrize(("size", "errors"), [(5000, []), (5001, [("string_too_long", "[0].message")])])
def test_a_message_has_up_to_5000_characters(size: int, errors: Found) -> None:
    turns = [{"turn_id": 1, "speaker": "user", "message": "😀" * size}]
    assert errors_of(validate(json.dumps(turns).encode(), "conversation_v1")) == errors
    assert errors_of(validate(json.dumps(turns, ensure_ascii=False).encode(), "conversation_v1")) == errors


@pytest.mark.parametrize(("count", "errors"), [(100, []), (101, [("value_out_of_range", "")])])
def test_a_conversation_has_up_to_100_turns(count: int, errors: Found) -> None:
    turns = [{"turn_id": number, "speaker": "user", "message": "m"} for number in range(1, count + 1)]
    assert errors_of(validate(json.dumps(turns).encode(), "conversation_v1")) == errors


def test_null_is_no_list_of_turns() -> None:
    assert [issue.name for issue in validate(b"null", "conversation_v1").issues] == ["Invalid root type"]


def test_an_empty_message_needs_the_setting_that_allows_it() -> None:
    report = validate(
        [{"turn_id": 1, "speaker": "user", "message": ""}], "conversation_v1", config=ValidationConfig(min_message_length=0)
    )
    assert [issue.name for issue in report.issues] == ["Empty message"]


def test_a_case_keeps_the_fields_that_a_turn_has_beside_the_known_ones() -> None:
    turn = {"turn_id": 1, "speaker": "user", "message": "x", "timestamp": "t", "tool_output": None}
    [case] = validate([turn], "conversation_v1").cases
    assert (case.turns[0].extra, case.turns[0].has_tool_output) == ({"timestamp": "t"}, True)


TURNS = [{"turn_id": 1, "speaker": "user", "message": "Hello there"}]


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ((), {"turns": TURNS}, "write the turns as a list at the top of the file"),
        ((0,), "Hello there", 'write it like {"turn_id": 1, "speaker": "user", "message": "..."}'),
        ((0, "turn_id"), "1", "leave the quotes out"),
        ((0, "speaker"), None, 'write it like "user" or "assistant"'),
        ((0, "message"), None, ""),
        ((0, "assistant_reply"), None, ABSENT),
        ((0, "confidence_score"), "high", "write it like 0.9"),
        ((0, "tool_input"), '{"city": "Berlin"}', "write the value itself, not a text that holds it"),
        ((0, "tool_input"), None, 'write it like {"city": "Berlin"}, or {} for a tool without arguments'),
    ],
)
def test_a_wrong_type_in_conversation_v1(tmp_path: Path, path: tuple[str | int, ...], value: Any, hint: str) -> None:
    assert issue_of(tmp_path, "conversation_v1", changed(TURNS, path, value)).hint == hint
