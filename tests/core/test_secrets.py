"""Custom redaction rules: what they replace, and which of them are refused."""

import pytest

from assay.core.secrets import RedactRule
from assay.store.redact import Redactor, StructureFields, rule_problem, rule_problems

EMPLOYEE = RedactRule(name="employee", pattern=r"\bEMP-\d{4}\b")


def test_a_custom_rule_replaces_what_it_finds_and_counts_it() -> None:
    redactor = Redactor(custom=[EMPLOYEE])
    assert redactor.text("EMP-1234 and EMP-9876, EMP-12345") == "[REDACTED:employee] and [REDACTED:employee], EMP-12345"
    assert redactor.counts == {"employee": 2}


def test_a_custom_rule_comes_before_the_built_in_ones() -> None:
    rule = RedactRule(name="staff", pattern=r"\w+@corp[.]example")
    assert Redactor(custom=[rule]).text("jane@corp.example, joe@other.example") == "[REDACTED:staff], [REDACTED:email]"


def test_custom_rules_find_the_same_in_texts_values_and_json() -> None:
    redactor = Redactor(custom=[RedactRule(name="whole", pattern=r"^say \"x\"$"), EMPLOYEE])
    value = {"a": ['say "x"', "EMP-1234"], "EMP-4321": 1}
    assert redactor.value(value) == {"a": ["[REDACTED:whole]", "[REDACTED:employee]"], "[REDACTED:employee]": 1}
    assert b"EMP-" not in redactor.encoded(value)
    assert b"say" not in redactor.encoded(value)
    assert not redactor.is_clean(["fine", 'say "x"'])
    assert redactor.is_clean(["fine", 'we say "x"'])


def test_a_number_that_a_custom_rule_finds_is_redacted() -> None:
    redactor = Redactor(custom=[RedactRule(name="member", pattern=r"^77\d{5}$")])
    assert redactor.value({"id": 7712345, "n": 12345, "yes": True}) == {"id": "[REDACTED:member]", "n": 12345, "yes": True}


def test_a_number_of_the_program_is_left_alone_however_long() -> None:
    redactor = Redactor(custom=[RedactRule(name="digit", pattern=r"\d")])
    assert redactor.structure({"size": 123456789012}, StructureFields(terms=frozenset(("size",)))) == {"size": 123456789012}


def test_groups_of_a_pattern_do_not_change_what_is_replaced() -> None:
    rule = RedactRule(name="project", pattern=r"(Project) (Falcon|Eagle)(s)?")
    assert Redactor(custom=[rule]).text("Project Falcon ends") == "[REDACTED:project] ends"


def test_the_pattern_of_a_sealed_run_that_found_itself_is_not_used_again() -> None:
    rule = RedactRule(name="project", pattern="[REDACTED:project]")
    assert Redactor(custom=[rule]).text("The eagle") == "The eagle"


@pytest.mark.parametrize(
    ("name", "pattern", "member", "reason"),
    [
        ("a", "(open", "pattern", "missing"),
        ("a", r"(?<=x)y", "pattern", "invalid"),
        ("a", "x*", "pattern", "empty text"),
        ("a", r"\b", "pattern", "empty text"),
        ("a", r"\B", "pattern", "empty text"),
        ("a", r"x|\b", "pattern", "empty text"),
        ("a", r"\C", "pattern", "single bytes"),
        ("a", r"a\\\C", "pattern", "single bytes"),
        ("email", "x", "name", "built-in"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_with_its_reason(name: str, pattern: str, member: str, reason: str) -> None:
    problem = rule_problem(RedactRule(name=name, pattern=pattern))
    assert problem is not None
    assert problem.member == member
    assert reason in problem.message


def test_every_problem_of_a_list_is_reported_with_its_location() -> None:
    rules = [EMPLOYEE, RedactRule(name="employee", pattern="x"), RedactRule(name="open", pattern="(")]
    first, second = rule_problems(rules)
    assert first.startswith("redact[1].name: two rules have the name 'employee'")
    assert second.startswith("redact[2].pattern: the pattern cannot be used")
