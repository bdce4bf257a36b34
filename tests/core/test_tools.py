"""Tool calls as values."""

import pytest

from assay.core.tools import ToolCall, ToolNames, arguments_object, arguments_text, output_text, read_chat_tool_call, tool_call


@pytest.mark.parametrize(
    ("given", "arguments", "raw"),
    [
        ({"a": 1}, {"a": 1}, '{"a":1}'),
        ('{"a": 1}', {"a": 1}, '{"a": 1}'),
        ("", {}, ""),
        (None, {}, ""),
        ("[1]", None, "[1]"),
        ('{"a":', None, '{"a":'),
        ([1], None, "[1]"),
        ("[" * 100_000, None, "[" * 100_000),
    ],
)
def test_arguments_are_parsed_and_kept_as_sent(given: object, arguments: object, raw: str) -> None:
    call = tool_call("look", given, "1")
    assert (call.arguments, call.raw) == (arguments, raw)


def test_what_no_store_can_hold_is_replaced_at_any_depth() -> None:
    call = tool_call("lo\x00ok", {"a": ["\x00", {"b\x00": "c"}]})
    assert call == ToolCall("lo\ufffdok", {"a": ["\ufffd", {"b\ufffd": "c"}]}, '{"a":["\ufffd",{"b\ufffd":"c"}]}')


def test_arguments_that_are_no_object_can_still_be_sent_back() -> None:
    call = tool_call("look", "not json")
    assert (arguments_text(call), arguments_object(call)) == ("not json", {"arguments": "not json"})


def test_outputs_are_sent_as_text_or_json() -> None:
    assert [output_text(value) for value in ("a", {"b": None}, None, 1.5)] == ["a", '{"b":null}', "null", "1.5"]


@pytest.mark.parametrize("value", [None, [], "look", {}, {"function": "look"}, {"name": ""}, {"function": {"arguments": "{}"}}])
def test_what_is_no_call_in_the_format_of_chat_completions_is_none(value: object) -> None:
    assert read_chat_tool_call(value) is None


def test_calls_are_read_with_and_without_their_function() -> None:
    nested = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    assert read_chat_tool_call(nested) == ToolCall("look", {}, "{}", "1")
    assert read_chat_tool_call({"name": "look", "arguments": {"a": 1}}) == ToolCall("look", {"a": 1}, '{"a":1}')


def test_names_come_back_as_they_were_whatever_a_provider_takes() -> None:
    own = ["shop.open", "shop_open", "shop open", "9lives", "über", "a" * 100, "a" * 99]
    names = ToolNames(own)
    sent = [names.sent(name) for name in own]
    assert [names.own(name) for name in sent] == own
    assert len(set(sent)) == len(own)
    assert all(name.isascii() and len(name) <= 64 and name[0].isalpha() | (name[0] == "_") for name in sent)
