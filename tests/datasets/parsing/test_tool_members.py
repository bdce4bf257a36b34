"""Tools and expected calls in records."""

from typing import Any

import msgspec
import pytest

from assay.core.call_rules import BfclValue, RecordArgumentRule
from assay.core.tools import ExpectedCall, ToolDefinition
from assay.datasets.parsing.tool_members import NO_TOOLS, batch_tools, metadata_tools, read_rules

TOOL = {"name": "book", "parameters": {"type": "object", "properties": {"train": {"type": "string"}}}}
CALL = {"name": "book", "arguments": {"train": "9:15"}}


def record(calls: object, *, tools: object = (TOOL,), **reference: object) -> dict[str, Any]:
    given = {
        "prompt": "?",
        **({"tools": list(tools)} if isinstance(tools, tuple) else {"tools": tools} if tools is not None else {}),
    }
    return {"record_id": "r", "input": given, "reference": {"tool_calls": calls, **reference}}


def test_a_record_offers_tools_and_expects_calls() -> None:
    found = batch_tools(record([CALL, {"function": {"name": "book", "arguments": '{"train": "9:45"}'}}], tool_matching="superset"))
    assert found.tools == (ToolDefinition("book", "", TOOL["parameters"]),)  # type: ignore[arg-type]
    assert found.calls == (ExpectedCall("book", {"train": "9:15"}, step=1), ExpectedCall("book", {"train": "9:45"}, step=2))
    assert (found.matching, found.problems) == ("superset", ())


def test_steps_make_calls_parallel() -> None:
    found = batch_tools(record([CALL | {"step": 1}, CALL | {"step": 1}]))
    assert isinstance(found.calls, tuple)
    assert [call.step for call in found.calls] == [1, 1]


def test_legal_rows_have_the_same_in_their_metadata() -> None:
    found = metadata_tools({"tools": [TOOL], "expected_tool_calls": [CALL]})
    assert found.calls == (ExpectedCall("book", {"train": "9:15"}, step=1),)


@pytest.mark.parametrize(
    "given",
    [
        record("book"),
        record(["book"]),
        record([], tools=None),
        {"input": {"prompt": "?", "tools": [TOOL]}, "reference": {}},
        {"input": {"prompt": "?"}, "reference": None},
    ],
)
def test_other_members_of_these_names_are_what_they_were(given: dict[str, Any]) -> None:
    assert batch_tools(given) is NO_TOOLS


def test_an_empty_list_next_to_tools_expects_no_call() -> None:
    assert batch_tools(record([])).calls == ()
    assert batch_tools(record([], tools=None, tool_matching="bfcl")).calls == ()


def test_a_call_that_is_stated_by_its_rules_shows_a_right_value() -> None:
    rules = {"n": {"bfcl": {"values": [5, 6], "type": "integer"}}, "unit": {"bfcl": {"values": ["m", ""], "type": "string"}}}
    found = batch_tools(record([{"name": "book", "arguments": {}, "rules": rules}]))
    assert isinstance(found.calls, tuple)
    assert found.calls[0].arguments == {"n": 5}
    assert found.calls[0].rules["n"] == RecordArgumentRule(bfcl=BfclValue((5, 6), "integer"))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (record([CALL, "book"]), "reference.tool_calls[1] must be a call such as"),
        (record([CALL, {"tool": "book"}]), "reference.tool_calls[1] has no name of a tool"),
        (record([{"name": "book", "arguments": "{"}]), "reference.tool_calls[0].arguments must be a JSON object"),
        (record([{"name": "book", "arguments": [1]}]), "reference.tool_calls[0].arguments must be a JSON object"),
        (record([CALL | {"step": "one"}]), "reference.tool_calls[0].step must be an integer, not 'one'"),
        (record([CALL | {"rules": ["case"]}]), "reference.tool_calls[0].rules must be an object"),
        (record([CALL | {"rules": {"train": "loose"}}]), "reference.tool_calls[0].rules.train is 'loose': a rule is exact, set"),
        (record([CALL], tool_matching="loose"), "reference.tool_matching must be one of in_order"),
        (record([{"name": "cook"}]), "the tool 'cook' is not one of input.tools: book"),
        (record([CALL], tools=(TOOL, {"name": "x", "parameters": {"type": "dict"}})), "input.tools[1] parameters.type is 'dict'"),
        (record([CALL], tools={"book": 1}), "input.tools: it must be a list of tools"),
        (record([CALL], tools=(TOOL, TOOL)), "input.tools: tool 'book' is defined 2 times"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_compares_nothing(given: dict[str, Any], problem: str) -> None:
    found = batch_tools(given)
    assert any(problem in one for one in found.problems), found.problems
    assert found.calls is msgspec.UNSET


def test_every_bad_rule_is_reported() -> None:
    rules, problems = read_rules({"a": {"within": -1}, "b": {"wihtin": 1}, "c": {}, "d": "date", "e": {"any_of": []}}, "rules")
    assert rules == {"d": "date"}
    assert [problem.split(" ")[0] for problem in problems] == ["rules.a", "rules.b", "rules.c", "rules.e"]
