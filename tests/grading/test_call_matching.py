"""Comparison of calls: as JSON values, in order, parallel ones in any order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.call_rules import ArgumentRule, CallRules, RecordArgumentRule, Rule
from assay.core.tools import ExpectedCall, ToolCall, ToolCallResults, tool_call
from assay.grading.call_matching import CallComparison, compare_calls, judge_key, same_call, wrong_arguments

ANY_OF = RecordArgumentRule(any_of=(1, 2))


def calls(*names: str) -> list[ToolCall]:
    return [tool_call(name, {"n": 1}) for name in names]


def expected(*names: str, step: int | None = None) -> list[ExpectedCall]:
    return [ExpectedCall(name, {"n": 1}, step=number if step is None else step) for number, name in enumerate(names)]


def verdicts(results: ToolCallResults) -> list[tuple[str, int | None, int | None]]:
    return [(one.verdict, one.made, one.expected) for one in results.verdicts]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, True),
        ({}, {"a": None}, False),
    ],
)
def test_inputs_are_compared_as_json_values(one: dict[str, object], other: dict[str, object], *, is_same: bool) -> None:
    assert same_call(tool_call("t", one), ExpectedCall("t", other)) is is_same


def test_every_differing_argument_is_named() -> None:
    assert wrong_arguments(tool_call("t", {"a": 1, "b": 2, "d": 4}), ExpectedCall("t", {"a": 1, "b": 3, "c": 4})) == ("b", "c", "d")


def test_arguments_that_are_not_json_are_a_verdict_of_their_own() -> None:
    results = compare_calls([tool_call("t", "{"), tool_call("u", "{")], expected("t"))
    assert verdicts(results) == [("not_json", 0, 0), ("not_json", 1, None)]
    assert results.made[0].raw == "{"


def test_a_call_in_between_is_extra_and_a_left_out_one_missing() -> None:
    assert verdicts(compare_calls(calls("a", "x", "b"), expected("a", "b"))) == [
        ("correct", 0, 0),
        ("extra", 1, None),
        ("correct", 2, 1),
    ]
    assert verdicts(compare_calls(calls("b"), expected("a", "b"))) == [("missing", None, 0), ("correct", 0, 1)]


def test_order_counts_but_for_calls_of_one_step() -> None:
    assert compare_calls(calls("b", "a"), expected("a", "b")).count("correct") == 1
    parallel = compare_calls(calls("b", "a", "c"), [*expected("a", "b", step=1), *expected("c", step=2)])
    assert parallel.is_all_correct
    assert {(one.made, one.expected) for one in parallel.verdicts} == {(0, 1), (1, 0), (2, 2)}


def test_another_tool_in_the_place_of_one_is_a_wrong_name() -> None:
    assert verdicts(compare_calls(calls("x"), expected("a"))) == [("wrong_name", 0, 0)]


def test_nothing_is_known_after_the_candidate_left_the_recording() -> None:
    results = compare_calls(calls("a", "x"), expected("a", "b", "c"), unknown={2})
    assert verdicts(results) == [("correct", 0, 0), ("wrong_name", 1, 1), ("unknown", None, 2)]


def test_no_call_is_correct_where_none_is_expected() -> None:
    assert compare_calls([], []).is_all_correct
    assert verdicts(compare_calls(calls("a"), [])) == [("extra", 0, None)]


names = st.lists(st.sampled_from("abc"), max_size=6)


@given(names, names, st.integers(0, 3))
def test_every_call_made_or_expected_has_one_verdict(made: list[str], wanted: list[str], steps: int) -> None:
    asked = [ExpectedCall(name, {"n": 1}, step=number // (steps + 1)) for number, name in enumerate(wanted)]
    results = compare_calls(calls(*made), asked)
    assert sorted(one.made for one in results.verdicts if one.made is not None) == list(range(len(made)))
    assert sorted(one.expected for one in results.verdicts if one.expected is not None) == list(range(len(wanted)))


@given(names)
def test_the_expected_calls_are_all_correct(made: list[str]) -> None:
    assert compare_calls(calls(*made), expected(*made)).is_all_correct


def test_long_lists_are_compared_place_by_place() -> None:
    results = compare_calls(calls(*["a"] * 2_000), expected(*["a"] * 1_999))
    assert (results.count("correct"), results.count("extra")) == (1_999, 1)


def results_by(matching: str, made: list[ToolCall], wanted: list[ExpectedCall], **rules: dict[str, Rule]) -> ToolCallResults:
    return compare_calls(made, wanted, matching=matching, comparison=CallComparison(CallRules(rules=rules)))  # type: ignore[arg-type]


def steps(*names: str) -> list[ExpectedCall]:
    return [ExpectedCall(name, {"n": 1}, step=number) for number, name in enumerate(names)]


@pytest.mark.parametrize(
    ("matching", "made", "found"),
    [
        ("in_order", "ba", [("missing", None, 0), ("correct", 0, 1), ("extra", 1, None)]),
        ("any_order", "ba", [("correct", 1, 0), ("correct", 0, 1)]),
        ("any_order", "bx", [("wrong_name", 1, 0), ("correct", 0, 1)]),
        ("subset", "b", [("missing", None, 0), ("correct", 0, 1)]),
        ("subset", "bx", [("missing", None, 0), ("correct", 0, 1), ("extra", 1, None)]),
        ("superset", "bxa", [("correct", 2, 0), ("correct", 0, 1), ("extra", 1, None)]),
        ("bfcl", "ba", [("correct", 1, 0), ("correct", 0, 1)]),
    ],
)
def test_calls_match_in_the_way_that_is_set(matching: str, made: str, found: list[object]) -> None:
    assert sorted(verdicts(results_by(matching, calls(*made), steps("a", "b"))), key=str) == sorted(found, key=str)  # type: ignore[arg-type]


def test_as_many_calls_as_possible_find_a_partner_in_any_order() -> None:
    wanted = [ExpectedCall("t", {"n": 5}, step=0), ExpectedCall("t", {"n": 7}, step=1, rules={"n": "exact"})]
    made = [tool_call("t", {"n": 7}), tool_call("t", {"n": 5})]
    assert results_by("any_order", made, wanted, t={"n": ArgumentRule(within=2.0)}).is_all_correct


def test_bfcl_gives_each_expected_call_the_first_one_that_fits() -> None:
    wanted = [ExpectedCall("t", {"n": 1}, rules={"n": ANY_OF}), ExpectedCall("t", {"n": 1})]
    made = [tool_call("t", {"n": 1}), tool_call("t", {"n": 2})]
    assert not results_by("bfcl", made, wanted).is_all_correct
    assert results_by("any_order", made, wanted).is_all_correct


def test_any_call_is_right_where_no_particular_one_is_expected() -> None:
    results = results_by("any_call", [*calls("a"), tool_call("b", "{")], [])
    assert [one.verdict for one in results.verdicts] == ["correct", "not_json"]


def test_rules_decide_about_arguments_that_are_missing_or_further() -> None:
    wanted = ExpectedCall("t", {"a": "X", "b": 1})
    comparison = CallComparison(CallRules(rules={"t": {"a": "case"}, "*": {"id": "ignore"}}))
    assert comparison.wrong_arguments(tool_call("t", {"a": "x", "b": 1, "id": 9}), wanted) == ()
    assert comparison.wrong_arguments(tool_call("t", {"a": "y", "c": 1}), wanted) == ("a", "b", "c")


def test_a_value_that_only_a_judge_can_compare_is_undecided() -> None:
    comparison = CallComparison(CallRules(rules={"t": {"q": "judge"}}))
    made, wanted = tool_call("t", {"q": "Vienna"}), ExpectedCall("t", {"q": "Wien"})
    assert comparison.undecided(made, wanted) == ("q",)
    comparison.decided[judge_key("t", "q", "Vienna", "Wien")] = False
    assert (comparison.undecided(made, wanted), comparison.wrong_arguments(made, wanted)) == ((), ("q",))


@pytest.mark.parametrize("matching", ["in_order", "any_order", "superset"])
def test_thousands_of_other_calls_with_large_arguments_are_compared(matching: str) -> None:
    # Each argument is encoded once; comparing all pairs would take hours.
    made = [tool_call("t", {"n": number, "text": "x" * 1_000}) for number in range(5_000)]
    wanted = [ExpectedCall("t", {"n": number + 1, "text": "x" * 1_000}, step=number) for number in range(5_000)]
    assert results_by(matching, made, wanted).count("correct") == 4_999
