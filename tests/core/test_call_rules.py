"""Rules of comparing tool calls: which one applies, and which cannot."""

import pytest

from assay.core.call_rules import ArgumentRule, CallRules, Rule, rule_problem

RULES = CallRules(rules={"book": {"date": "date", "*": "case"}, "*": {"id": "ignore", "date": "set"}})


@pytest.mark.parametrize(
    ("tool", "argument", "rule"),
    [("book", "date", "date"), ("book", "id", "case"), ("find", "id", "ignore"), ("find", "date", "set"), ("find", "x", "exact")],
)
def test_the_rule_of_the_tool_counts_before_that_of_all_tools(tool: str, argument: str, rule: Rule) -> None:
    assert RULES.of(tool, argument) == rule


def test_rules_say_whether_they_ask_judges() -> None:
    assert not RULES.asks_judges
    assert CallRules(rules={"*": {"query": "judge"}}).asks_judges


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (ArgumentRule(), "a rule is a word, or has one of"),
        (ArgumentRule(within=1.0, any_of=(1,)), "not within and any_of"),
        (ArgumentRule(any_of=()), "no value would be right"),
    ],
)
def test_a_rule_that_cannot_be_applied_says_why(rule: Rule, words: str) -> None:
    assert words in rule_problem(rule)


@pytest.mark.parametrize("rule", ["judge", ArgumentRule(within=0.0), ArgumentRule(optional=True), ArgumentRule(any_of=(1,))])
def test_other_rules_have_no_problem(rule: Rule) -> None:
    assert rule_problem(rule) == ""
