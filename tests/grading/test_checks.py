from importlib import import_module
from typing import Any, get_args

import msgspec
import pytest

from assay.core.checks import Check, CheckResult, PassShare
from assay.core.model_call import MeasuredReply, Reply
from assay.grading.checks import _CHECKS, check_problems, decide, label_of, run_checks, summary_of
from assay.grading.similarity import MAX_CHARACTERS

PAID = {"latency_ms": 1_500.0, "cost": 0.002}


def made(**members: Any) -> Any:
    return msgspec.convert(members, Check)  # type: ignore[call-overload]  # a union of structs


def result(check: dict[str, Any], answer: str, references: tuple[str, ...] = (), **reply: Any) -> CheckResult:
    found = run_checks((made(**check),), MeasuredReply(text=answer, **reply), references)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("check", "answer", "passed"),
    [
        ({"type": "equals", "value": "Paris"}, " Paris\n", True),
        ({"type": "equals", "value": "Paris"}, "paris", False),
        ({"type": "equals", "value": "Paris", "ignore_case": True}, "PARIS", True),
        ({"type": "equals", "value": "Paris"}, "Paris.", False),
        ({"type": "equals", "value": "Paris", "expected": False}, "Lyon", True),
        ({"type": "equals", "value": "Cafe\u0301"}, "Caf\u00e9", True),
        ({"type": "equals", "value": "Paris"}, "<think>Lyon? No.</think>\nParis", True),
        ({"type": "equals", "value": 4}, "4", True),
        ({"type": "equals", "value": 4}, "4.0", True),
        ({"type": "equals", "value": True}, "1", False),
        ({"type": "equals", "value": {"a": [1, 2]}}, '{"a": [1, 2]}', True),
        ({"type": "equals", "value": {"a": [1, 2]}}, '{"a": [2, 1]}', False),
        ({"type": "equals", "value": {"a": 1}}, "no JSON", False),
        ({"type": "contains", "any": ["Lyon", "Paris"]}, "It is Paris.", True),
        ({"type": "contains", "any": ["Lyon", "Paris"]}, "It is Rome.", False),
        ({"type": "contains", "value": "Paris"}, "It is Paris.", True),
        ({"type": "contains", "all": ["a", "b"]}, "a c", False),
        ({"type": "contains", "all": ["a", "b"]}, "a b", True),
        ({"type": "contains", "none": ["a", "b"]}, "c", True),
        ({"type": "contains", "none": ["a", "b"]}, "b", False),
        ({"type": "contains", "all": ["a"], "none": ["b"]}, "a b", False),
        ({"type": "contains", "any": ["PARIS"], "ignore_case": True}, "paris", True),
        ({"type": "contains", "any": ["STRASSE"], "ignore_case": True}, "Straße", True),
        ({"type": "starts-with", "value": "The"}, "\nThe answer", True),
        ({"type": "starts-with", "value": "the"}, "The answer", False),
        ({"type": "ends-with", "value": "end."}, "the end.\n", True),
        ({"type": "ends-with", "value": "End.", "ignore_case": True}, "the end.", True),
        ({"type": "regex", "value": r"^\d{4}-\d{2}-\d{2}$"}, "2024-01-15", True),
        ({"type": "regex", "value": r"^\d{4}$"}, "in 2024", False),
        ({"type": "regex", "value": "paris", "ignore_case": True}, "PARIS", True),
        ({"type": "regex", "value": "a"}, "\ud800a", True),
        ({"type": "is-json"}, '{"a": 1}', True),
        ({"type": "is-json"}, "```json\n{}\n```", False),
        ({"type": "is-json", "extract": True}, "```json\n{}\n```", True),
        ({"type": "is-json", "extract": True}, "Here [is] one: [1, 2].", True),
        ({"type": "is-json", "extract": True}, "none {here", False),
        ({"type": "is-json"}, "NaN", False),
        ({"type": "is-json"}, "[" * 100_000, False),
        ({"type": "is-json", "extract": True}, "x" + "[" * 100_000, False),
        ({"type": "is-json"}, "", False),
        ({"type": "is-json", "expected": False}, "words", True),
        ({"type": "json-schema", "schema": {"type": "object", "required": ["city"]}}, '{"city": "Paris"}', True),
        ({"type": "json-schema", "schema": {"type": "object", "required": ["city"]}}, "{}", False),
        ({"type": "json-schema", "schema": {"properties": {"n": {"type": "integer"}}}}, '{"n": "4"}', False),
        ({"type": "json-schema", "schema": '{"properties": {"n": {"type": "integer"}}}'}, '{"n": "4"}', False),
        ({"type": "json-schema", "schema": '{"properties": {"n": {"type": "integer"}}}'}, '{"n": 4}', True),
        ({"type": "json-path", "path": "$.city", "value": "Paris"}, '{"city": "Paris"}', True),
        ({"type": "json-path", "path": "$.city", "value": "Paris"}, '{"city": "Lyon"}', False),
        ({"type": "json-path", "path": "$.town", "value": "Paris"}, '{"city": "Paris"}', False),
        (
            {"type": "json-path", "path": "$.cities[*].name", "value": ["a", "b"]},
            '{"cities": [{"name": "a"}, {"name": "b"}]}',
            True,
        ),
        ({"type": "json-path", "path": "$.n", "value": 1}, '{"n": 1.0}', True),
        ({"type": "json-path", "path": "$.ok", "value": 1}, '{"ok": true}', False),
        ({"type": "number", "value": 3.14159, "tolerance": 0.001}, "Pi is about 3.1412.", True),
        ({"type": "number", "value": 3.14159, "tolerance": 0.001}, "Pi is about 3.2.", False),
        ({"type": "number", "value": 0.3}, "0.3", True),
        ({"type": "number", "value": 0.1, "tolerance": 0.1}, "0.2", True),
        ({"type": "number", "value": 3}, "three", False),
        ({"type": "length", "max": 5}, " Paris ", True),
        ({"type": "length", "max": 4}, "Paris", False),
        ({"type": "length", "min": 2, "max": 3, "unit": "words"}, "one two", True),
        ({"type": "length", "min": 2, "unit": "words"}, "one", False),
        ({"type": "one-of", "value": ["YES", "NO"]}, "YES", True),
        ({"type": "one-of", "value": ["YES", "NO"]}, "yes", False),
        ({"type": "one-of", "value": ["YES", "NO"], "ignore_case": True}, "no", True),
        ({"type": "one-of", "value": [1, 2]}, "2", True),
        ({"type": "similarity", "measure": "token_f1", "at_least": 0.5, "value": "the city of Paris"}, "Paris city", True),
        ({"type": "similarity", "measure": "token_f1", "at_least": 0.9, "value": "the city of Paris"}, "Paris", False),
        ({"type": "similarity", "measure": "edit", "max_edits": 1, "value": "Paris"}, "Pariss", True),
        ({"type": "similarity", "measure": "edit", "max_edits": 1, "value": "Paris"}, "Pari ss", False),
        ({"type": "refusal", "expected": False}, "It is Paris.", True),
        ({"type": "refusal", "expected": False}, "I'm sorry, but I can't help with that.", False),
        ({"type": "refusal"}, "I'm sorry, but I can't help with that.", True),
        ({"type": "language", "value": "de"}, "Die Hauptstadt von Frankreich ist Paris.", True),
        ({"type": "language", "value": "de"}, "The capital of France is the city of Paris.", False),
        ({"type": "language", "value": "de"}, "Paris", False),
        ({"type": "language", "value": "de"}, "42", False),
        ({"type": "latency", "max_ms": 2000}, "x", True),
        ({"type": "latency", "max_ms": 1000}, "x", False),
        ({"type": "cost", "max_usd": 0.002}, "x", True),
        ({"type": "cost", "max_usd": 0.001}, "x", False),
        ({"type": "tool-called", "tool": "search"}, '{"tool": "search", "input": {}}', True),
        ({"type": "tool-called", "tool": "search"}, "words", False),
    ],
)
def test_a_check_passes_or_does_not(check: dict[str, Any], answer: str, *, passed: bool) -> None:
    found = result(check, answer, **PAID)
    assert (found.passed, found.name, found.type) == (passed, check["type"], check["type"])
    assert found.reason


def test_every_type_of_check_can_be_run() -> None:
    assert set(_CHECKS) == set(get_args(Check))


@pytest.mark.parametrize(
    ("check", "references", "answer", "passed"),
    [
        ({"type": "equals"}, ("Paris", "Paname"), "Paname", True),
        ({"type": "contains", "ignore_case": True}, ("Paris",), "it is paris", True),
        ({"type": "starts-with"}, ("Paris",), "Paris it is", True),
        ({"type": "ends-with"}, ("Paris",), "It is Lyon", False),
        ({"type": "one-of"}, ("YES", "Yes."), "Yes.", True),
        ({"type": "number", "tolerance": 1}, ("about 41",), "The answer is 42", True),
        ({"type": "json-path", "path": "$.n"}, ("4",), '{"n": 4}', True),
        ({"type": "json-path", "path": "$.city"}, ("Paris",), '{"city": "Paris"}', True),
        ({"type": "similarity", "measure": "rouge_l", "at_least": 1}, ("a b", "c d"), "c d", True),
    ],
)
def test_without_a_value_one_of_the_references_is_enough(
    check: dict[str, Any], references: tuple[str, ...], answer: str, *, passed: bool
) -> None:
    assert result(check, answer, references).passed is passed


@pytest.mark.parametrize("references", [(), ("",)])
def test_a_check_with_nothing_to_compare_with_has_no_result(references: tuple[str, ...]) -> None:
    assert run_checks((made(type="equals"),), Reply(text="Paris"), references) == ()


def test_a_number_check_needs_a_reference_with_a_number() -> None:
    assert run_checks((made(type="number"),), Reply(text="4"), ("four",)) == ()


@pytest.mark.parametrize("check", [{"type": "latency", "max_ms": 1}, {"type": "cost", "max_usd": 1}])
@pytest.mark.parametrize("expected", [True, False])
def test_what_is_not_known_of_an_answer_is_no_result(check: dict[str, Any], *, expected: bool) -> None:
    found = result({**check, "expected": expected}, "x")
    assert (found.passed, found.score) == (None, None)
    assert "is not known" in found.reason


def test_a_similarity_is_the_score_of_its_check() -> None:
    check = {"type": "similarity", "measure": "token_f1", "at_least": 0.8, "value": "Paris France"}
    found = result(check, "Paris")
    assert (found.score, found.passed) == (pytest.approx(2 / 3), False)
    assert found.reason == "token_f1 0.67 to 'Paris France', at least 0.8"
    assert result({**check, "expected": False}, "Paris").score == 1.0


def test_a_text_that_is_too_long_is_not_compared_and_does_not_pass() -> None:
    check = {"type": "similarity", "measure": "edit", "at_least": 0, "value": "Paris"}
    assert result(check, "x" * (MAX_CHARACTERS + 1)).passed is False
    assert result({**check, "value": "x" * MAX_CHARACTERS}, "x" * MAX_CHARACTERS).passed is True


def test_a_regular_expression_takes_a_megabyte_in_one_pass() -> None:
    # With the expressions of Python this would take longer than the universe is old.
    assert result({"type": "regex", "value": "(a*)*b"}, "a" * 1_000_000).passed is False
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    assert result({"type": "json-schema", "schema": schema}, '{"a": "' + "a" * 100_000 + '!"}').passed is False


def test_tools_are_read_from_the_steps_of_agents_of_several_kinds() -> None:
    steps = (
        {"type": "tool_call", "tool_name": "search_trains", "input": {"from": "Bern"}},
        {"tool_calls": [{"id": "1", "function": {"name": "book", "arguments": "{}"}}]},
        "plan",
    )
    found = result({"type": "tool-called", "tool": "book"}, "done", steps=steps)
    assert (found.passed, found.reason) == (True, "called 'search_trains', 'book', 'plan'")


def test_a_provider_that_ends_an_answer_for_its_content_refuses() -> None:
    assert result({"type": "refusal"}, "The", finish_reason="content_filter").passed is True


def weighted(*pairs: tuple[float, bool | None]) -> tuple[list[Any], list[CheckResult]]:
    checks = [made(type="is-json", name=str(number), weight=weight) for number, (weight, _) in enumerate(pairs)]
    results = [
        CheckResult(name=str(number), type="is-json", passed=passed, score=None if passed is None else float(passed), reason="r")
        for number, (_, passed) in enumerate(pairs)
    ]
    return checks, results


@pytest.mark.parametrize(
    ("pairs", "rule", "share", "passed"),
    [
        (((1, True), (1, True)), "all", 1.0, True),
        (((1, True), (1, False)), "all", 0.5, False),
        (((1, True), (1, False)), "any", 0.5, True),
        (((1, False), (1, False)), "any", 0.0, False),
        (((1, True), (1, False)), PassShare(at_least=0.5), 0.5, True),
        (((0.7, True), (0.3, False)), PassShare(at_least=0.7), 0.7, True),
        (((2, False), (1, True)), PassShare(at_least=0.5), 1 / 3, False),
        (((1, False), (1, False)), PassShare(at_least=0), 0.0, True),
        (((0, False), (1, True)), "all", 1.0, True),
        (((1, None), (1, True)), "all", 1.0, True),
    ],
)
def test_checks_decide_together(pairs: Any, rule: Any, share: float, *, passed: bool) -> None:
    decision = decide(*weighted(*pairs), rule)
    assert decision is not None
    assert (decision.share, decision.passed) == (pytest.approx(share), passed)


@pytest.mark.parametrize("pairs", [((0, True),), ((1, None),), ()])
def test_checks_without_a_weight_or_a_result_decide_nothing(pairs: Any) -> None:
    assert decide(*weighted(*pairs), "all") is None


def test_the_first_check_that_counts_names_the_kind_of_failure() -> None:
    checks = [made(type="length", max=1, weight=0), made(type="contains", any=["x"]), made(type="is-json")]
    results = run_checks(checks, Reply(text="Paris"), ())
    assert label_of(checks, results) == "missing_required_content"
    assert summary_of(results).startswith("0 of 3 checks passed; length: the answer has 5 characters, more than 1; contains: ")


@pytest.mark.parametrize(
    ("check", "member", "words"),
    [
        ({"type": "contains", "value": "a", "any": ["b"]}, "value", "say the same"),
        ({"type": "regex", "value": "(?=a)"}, "value", "invalid perl operator"),
        ({"type": "length"}, "", "needs min, max or both"),
        ({"type": "length", "min": 3, "max": 2}, "min", "min 3 is above max 2"),
        ({"type": "json-path", "path": "city", "value": 1}, "path", "does not begin with $"),
        ({"type": "json-schema", "schema": {"type": "objekt"}}, "schema", "not a JSON Schema"),
        ({"type": "json-schema", "schema": "{"}, "schema", "not a JSON Schema"),
        ({"type": "json-schema", "schema": {"$ref": "http://localhost:1/x"}}, "schema", "another document"),
        ({"type": "json-schema", "schema": {"pattern": "(?=a)"}}, "schema", "not a JSON Schema"),
        ({"type": "similarity", "measure": "edit"}, "", "needs at_least"),
        ({"type": "similarity", "measure": "bleu", "max_edits": 1}, "max_edits", "for the measure 'edit'"),
        ({"type": "similarity", "measure": "edit", "max_edits": 1, "at_least": 0.5}, "max_edits", "two thresholds"),
        ({"type": "language", "value": "xq"}, "value", "not recognised"),
        ({"type": "number", "value": float("inf")}, "value", "finite"),
    ],
)
def test_a_check_that_cannot_be_run_is_refused(check: dict[str, Any], member: str, words: str) -> None:
    (problem,) = check_problems(made(**check))
    assert problem.member == member
    assert words in problem.message


def test_one_check_of_each_type_is_fine() -> None:
    yaml = import_module("yaml")
    checks = yaml.safe_load("""
- {name: exact, type: equals, value: Paris, ignore_case: true}
- {name: city, type: contains, any: [Lyon, Paris]}
- {name: opens, type: starts-with, value: The}
- {name: date, type: regex, value: '^\\d{4}-\\d{2}-\\d{2}$'}
- {name: json, type: is-json}
- {name: shape, type: json-schema, schema: {type: object, required: [city]}}
- {name: at, type: json-path, path: $.city, value: Paris}
- {name: pi, type: number, value: 3.14159, tolerance: 0.001}
- {name: short, type: length, max: 10}
- {name: one, type: one-of, value: [YES, NO]}
- {name: kin, type: similarity, measure: token_f1, at_least: 0.5}
- {name: polite, type: refusal, expected: false}
- {name: german, type: language, value: de}
- {name: quick, type: latency, max_ms: 2000}
- {name: cheap, type: cost, max_usd: 0.01}
- {name: looked, type: tool-called, tool: search_trains}
""")
    assert [problem for check in checks for problem in check_problems(made(**check))] == []
