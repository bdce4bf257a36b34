"""Counts and rates of tool calls."""

from assay.core.tools import CallResult, MadeCall, ToolCallResults
from assay.metrics.tool_calls import ToolCallCounter

RESULTS = ToolCallResults(
    made=(MadeCall("look", {}), MadeCall("book", {}), MadeCall("pay", None, "{"), MadeCall("look", {})),
    expected=(MadeCall("look", {}), MadeCall("pay", {}), MadeCall("pay", {}), MadeCall("send", {}), MadeCall("send", {})),
    verdicts=(
        CallResult(verdict="correct", made=0, expected=0),
        CallResult(verdict="wrong_name", made=1, expected=1),
        CallResult(verdict="not_json", made=2, expected=2),
        CallResult(verdict="extra", made=3),
        CallResult(verdict="missing", expected=3),
        CallResult(verdict="unknown", expected=4),
    ),
)


def test_every_kind_of_verdict_is_counted() -> None:
    counter = ToolCallCounter()
    counter.add(RESULTS)
    summary = counter.summary()
    assert (summary.records, summary.expected, summary.scored, summary.unknown, summary.made) == (1, 5, 4, 1, 4)
    assert (summary.name_correct, summary.arguments_correct, summary.missing, summary.extra, summary.not_json) == (2, 1, 1, 1, 1)
    assert (summary.called_rate, summary.correct_rate, summary.wanted_rate) == (0.5, 0.25, 0.5)
    assert (summary.correct_rate_bounds.worst, summary.correct_rate_bounds.best) == (0.2, 0.4)
    assert summary.called_rate_interval is not None


def test_a_wrong_tool_is_missing_for_one_tool_and_extra_for_the_other() -> None:
    counter = ToolCallCounter()
    counter.add(RESULTS)
    tools = counter.summary().tools
    assert list(tools) == ["book", "look", "pay", "send"]
    assert (tools["pay"].expected, tools["pay"].name_correct, tools["pay"].missing, tools["pay"].not_json) == (2, 1, 1, 1)
    assert (tools["book"].expected, tools["book"].extra, tools["book"].called_rate, tools["book"].wanted_rate) == (0, 1, None, 0.0)
    assert (tools["send"].missing, tools["send"].unknown, tools["send"].scored) == (1, 1, 1)
