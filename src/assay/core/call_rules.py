"""Rules by which tool calls are compared: one per tool and argument, and how calls are matched with the expected ones."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from assay.core.exposure import described

RuleWord = Literal["exact", "set", "case", "date", "ignore", "judge"]
"""Rules that need no further value."""
Matching = Literal["in_order", "any_order", "subset", "superset"]
RecordMatching = Literal["in_order", "any_order", "subset", "superset", "any_call", "bfcl"]
"""Ways of matching that a record may name: `any_call` expects a call and no particular one, `bfcl` is BFCL's own way."""
ANY = "*"
"""Name of every tool, or of every argument, that has no rule of its own."""

_NotNegative = Annotated[float, Meta(ge=0)]


class BfclValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """What BFCL accepts as one argument."""

    values: tuple[Any, ...] = ()
    """Possible values; an empty text among them means that the argument may be left out."""
    type: str = ""
    """Type in the words of BFCL; empty for an argument that the tool does not have."""
    items: str = ""
    """Type of the members of a list."""
    language: Literal["python", "java", "javascript"] = "python"
    """Language in which the argument is written: in Java and JavaScript it is a text that holds source code."""
    is_required: bool = False
    """It may not be left out, whatever the possible values say."""


# Without `forbid_unknown_fields`, because plans hold rules, and a plan of a later version must stay readable.
class ArgumentRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule with a value of its own; one of the members is enough."""

    within: Annotated[_NotNegative | UnsetType, described("Largest difference between the two numbers.")] = UNSET
    within_percent: Annotated[_NotNegative | UnsetType, described("Largest difference in percent of the expected number.")] = UNSET
    any_of: Annotated[tuple[Any, ...] | UnsetType, described("Values that are right, instead of the expected one.")] = UNSET
    optional: Annotated[bool, described("Whether the argument may be left out; alone, it is compared exactly otherwise.")] = False


class RecordArgumentRule(ArgumentRule, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of a record, which may be one of BFCL."""

    bfcl: BfclValue | UnsetType = UNSET


Rule = RuleWord | ArgumentRule
RecordRule = RuleWord | RecordArgumentRule


class CallRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Comparison of tool calls with the expected ones."""

    matching: Annotated[
        Matching,
        described(
            "`in_order` expects all calls and no others, in their order; `any_order` in any; `subset` allows calls to be missing, "
            "`superset` further ones. Parallel calls match in any order."
        ),
    ] = "in_order"
    rules: Annotated[
        dict[str, dict[str, Rule]],
        described(
            "Rules by tool and argument, such as `{book: {price: {within: 0.5}, note: ignore}}`; `*` stands for all others. Words: "
            "`exact` (the default), `set` (order and repeats in a list do not count), `case` (upper and lower case and spaces do "
            "not count), `date` (the same date in another form), `ignore`, `judge` (a judge decides if two values mean the same)."
        ),
    ] = {}

    def of(self, tool: str, argument: str) -> Rule:
        """Return the rule for an argument: of the tool before that of all tools, of the argument before that of all arguments."""
        for rules in (self.rules.get(tool), self.rules.get(ANY)):
            if rules:
                found = rules.get(argument, rules.get(ANY))
                if found is not None:
                    return found
        return "exact"

    @property
    def asks_judges(self) -> bool:
        """Return whether a rule asks a judge."""
        return any(has_judge_rule(rules) for rules in self.rules.values())


NO_RULES = CallRules()


def has_judge_rule(rules: Mapping[str, Rule]) -> bool:
    """Return whether one of the rules asks a judge."""
    return "judge" in rules.values()


def rule_problem(rule: Rule) -> str:
    """Say why a rule cannot be applied; empty when it can."""
    if not isinstance(rule, ArgumentRule):
        return ""
    named = [name for name in ("within", "within_percent", "any_of", "bfcl") if getattr(rule, name, UNSET) is not UNSET]
    if len(named) > 1:
        return f"a rule has one of within, within_percent and any_of, not {' and '.join(named)}"
    if not named and not rule.optional:
        return "a rule is a word, or has one of within, within_percent, any_of and optional"
    return "any_of is empty, so that no value would be right" if rule.any_of == () else ""
