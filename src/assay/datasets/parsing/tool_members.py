"""Members of records that hold tools and the calls that are expected of a candidate."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from assay.core.call_rules import BfclValue, RecordArgumentRule, RecordMatching, RecordRule, RuleWord, rule_problem
from assay.core.canonical import JsonObject
from assay.core.tools import METADATA_CALLS, ExpectedCall, ToolDefinition, expects_calls, read_chat_tool_call
from assay.datasets.parsing.checks import short, type_name
from assay.datasets.parsing.tool_definitions import read_tools

_MATCHING_WORDS = get_args(RecordMatching)


class ToolMembers(msgspec.Struct, frozen=True):
    """What a record says about tools."""

    tools: tuple[ToolDefinition, ...] | msgspec.UnsetType = msgspec.UNSET
    calls: tuple[ExpectedCall, ...] | msgspec.UnsetType = msgspec.UNSET
    """Unset for a record whose calls are not compared."""
    matching: RecordMatching | msgspec.UnsetType = msgspec.UNSET
    problems: tuple[str, ...] = ()


NO_TOOLS = ToolMembers()


def batch_tools(record: Mapping[str, Any]) -> ToolMembers:
    """Read the tools of a batch_v1 record: `input.tools`, `reference.tool_calls` and `reference.tool_matching`, or its metadata."""
    reference = record.get("reference") or {}
    if expects_calls(reference.get("tool_calls"), record["input"].get("tools"), reference.get("tool_matching")):
        return _read(
            record["input"].get("tools"), reference["tool_calls"], reference.get("tool_matching"),
            names=("input.tools", "reference.tool_calls", "reference.tool_matching"),
        )  # fmt: skip
    return metadata_tools(record.get("metadata") or {})


def metadata_tools(metadata: Mapping[str, Any]) -> ToolMembers:
    """Read the tools in a record's metadata: `tools`, `expected_tool_calls` and `tool_matching`."""
    if not expects_calls(metadata.get(METADATA_CALLS), metadata.get("tools"), metadata.get("tool_matching")):
        return NO_TOOLS
    return _read(
        metadata.get("tools"), metadata[METADATA_CALLS], metadata.get("tool_matching"),
        names=("metadata.tools", f"metadata.{METADATA_CALLS}", "metadata.tool_matching"),
    )  # fmt: skip


def _read(tools: object, calls: list[object], matching: object, *, names: tuple[str, str, str]) -> ToolMembers:
    problems: list[str] = []
    offered: tuple[ToolDefinition, ...] | msgspec.UnsetType = msgspec.UNSET
    if tools is not None:
        offered, found = read_tools(tools)
        problems += [f"{names[0]}{'' if one.startswith('[') else ': '}{one}" for one in found]
    expected = [_call(value, number, f"{names[1]}[{number}]", problems) for number, value in enumerate(calls)]
    if matching is not None and matching not in _MATCHING_WORDS:
        problems.append(f"{names[2]} must be one of {', '.join(_MATCHING_WORDS)}, not {short(str(matching))}")
        matching = None
    known = {tool.name for tool in offered} if offered else set()
    if known and not problems:
        problems += [
            f"{names[1]}[{number}]: the tool {short(call.name)} is not one of {names[0]}: {', '.join(sorted(known))[:200]}"
            for number, call in enumerate(expected)
            if call is not None and call.name not in known
        ]
    return ToolMembers(
        offered,
        tuple(call for call in expected if call is not None) if not problems else msgspec.UNSET,
        msgspec.UNSET if matching is None else matching,  # type: ignore[arg-type]
        tuple(problems),
    )


def _call(value: object, number: int, where: str, problems: list[str]) -> ExpectedCall | None:
    """Read an expected call: `{name, arguments, rules, step}`, or a call as chat completions have it."""
    if not isinstance(value, dict):
        problems.append(f"{where} must be a call such as " + '{"name": "look", "arguments": {}}' + f", not {type_name(value)}")
        return None
    read = read_chat_tool_call(value)
    if read is None:
        problems.append(f"{where} has no name of a tool")
        return None
    if read.arguments is None:
        problems.append(f"{where}.arguments must be a JSON object")
        return None
    rules, found = read_rules(value.get("rules"), f"{where}.rules")
    problems += found
    step = value.get("step", number + 1)
    if type(step) is not int:
        problems.append(f"{where}.step must be an integer, not {short(str(step))}; calls of one step are parallel")
        step = 0
    return ExpectedCall(read.name, {**_first_values(rules, read.arguments), **read.arguments}, step=step, rules=rules)


def _first_values(rules: Mapping[str, RecordRule], arguments: JsonObject) -> JsonObject:
    """Return a right value of each argument that is stated by its rule alone, for people who read the expected call."""
    values: JsonObject = {}
    for name, rule in rules.items():
        possible = _possible(rule)
        if name not in arguments and possible:
            values[name] = possible[0]
    return values


def _possible(rule: RecordRule) -> tuple[Any, ...]:
    if not isinstance(rule, RecordArgumentRule):
        return ()
    if isinstance(rule.bfcl, BfclValue):
        # What may be left out, and is not the same as a value, is better not shown as expected.
        return () if "" in rule.bfcl.values else rule.bfcl.values
    return rule.any_of or ()


def read_rules(value: object, where: str) -> tuple[dict[str, RecordRule], list[str]]:
    """Read rules by argument, with every problem."""
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        return {}, [f"{where} must be an object with rules by argument, not {type_name(value)}"]
    rules: dict[str, RecordRule] = {}
    problems = []
    for name, member in value.items():
        rule = _convert_rule(member)
        problem = "" if rule is None else rule_problem(rule)
        if rule is None or problem or _unknown_names(member):
            reason = (
                problem or f"a rule is {', '.join(get_args(RuleWord))}, or an object with one of within, within_percent and any_of"
            )
            problems.append(f"{where}.{name} is {short(str(member))}: {reason}")
        else:
            rules[name] = rule
    return rules, problems


def _convert_rule(value: object) -> RecordRule | None:
    try:
        found: RecordRule = msgspec.convert(value, RecordRule)
    except msgspec.ValidationError:
        return None
    return found


def _unknown_names(member: object) -> list[str]:
    return [name for name in member if name not in RecordArgumentRule.__struct_fields__] if isinstance(member, dict) else []
