"""Tool calls in replies, the tools that a record offers, and calls as text for judges."""

import pytest

from assay.core.case import Message
from assay.core.model_call import Reply
from assay.core.tools import ExpectedCall, ToolCall, ToolDefinition, tool_call
from assay.grading.tool_call import answer_with_calls, calls_in, described_tools, expected_calls, message_text, read_call
from tests.grading.driving import batch_case, conversation_case, replaced

TOOLS = (
    ToolDefinition("shop.open", "Say when a shop is open.", {"properties": {"day": {}, "shop": {}}}),
    ToolDefinition("now"),
)


def test_a_call_without_input_has_an_empty_one() -> None:
    assert read_call('{"tool": "now"}') == tool_call("now", {})
    assert read_call('{"tool": "now", "input": "soon"}') is None


def test_a_call_whose_members_cannot_be_told_has_no_arguments() -> None:
    called = read_call('{"tool": "now", "arguments": {"zone": "UTC"}}')
    assert called is not None
    assert (called.name, called.arguments) == ("now", None)


def test_native_calls_come_before_those_in_the_text_and_have_the_tools_own_names() -> None:
    reply = Reply(text='{"tool": "now"}', tool_calls=(ToolCall("shop_open", {"day": "mon"}),))
    assert [call.name for call in calls_in(reply, TOOLS)] == ["shop.open"]
    assert [call.name for call in calls_in(Reply(text='{"tool": "now"}'), TOOLS)] == ["now"]
    assert calls_in(Reply(text="It is noon."), TOOLS) == ()


def test_calls_that_an_earlier_version_expected_are_expected_still() -> None:
    case = replaced(conversation_case(), extra={"tools": {"now": []}, "tool_call": {"tool": "now", "input": {"zone": "UTC"}}})
    assert expected_calls(case) == (ExpectedCall("now", {"zone": "UTC"}),)
    assert expected_calls(batch_case(extra={"tool_call": "now"})) == ()


def test_tools_are_described_with_the_members_of_their_input() -> None:
    assert described_tools(TOOLS) == "- shop.open: day, shop (Say when a shop is open.)\n- now: no input"


def test_calls_and_outputs_are_text_that_a_judge_can_quote() -> None:
    call = tool_call("now", {"zone": "UTC"}, "1")
    assert message_text(Message("assistant", "I look.", (call,))) == '[assistant]\nI look.\n\n[assistant calls now]\n{"zone":"UTC"}'
    assert message_text(Message("tool", "noon", tool_call_id="1", name="now")) == "[output of now]\nnoon"
    assert message_text(Message("user", "When?")) == "[user]\nWhen?"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(text="Noon."), "Noon."),
        (Reply(text="Noon.", tool_calls=(tool_call("now", {}),)), "[assistant calls now]\n{}\n\nNoon."),
        (
            Reply(
                text="Noon.",
                tool_calls=(tool_call("now", {}),),
                steps=(
                    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]},
                    {"role": "tool", "name": "now", "content": "12:00"},
                    {"own": "step"},
                ),
            ),
            "[assistant calls now]\n{}\n\n[output of now]\n12:00\n\nNoon.",
        ),
    ],
)
def test_judges_are_shown_calls_with_their_outputs_before_the_words(reply: Reply, text: str) -> None:
    assert answer_with_calls(reply) == text
