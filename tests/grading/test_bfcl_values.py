"""Values of arguments by the rules of BFCL; the verdicts were taken from the benchmark's own checker."""

from typing import Any

import pytest

from assay.core.call_rules import BfclValue
from assay.grading.bfcl_values import MAX_SOURCE, fits_bfcl, read_java, read_javascript


def rule(kind: str, *values: Any, **members: Any) -> BfclValue:
    return BfclValue(values=values, type=kind, **members)


@pytest.mark.parametrize(
    ("expected", "given", "is_right"),
    [
        (rule("integer", 10), 10, True),
        (rule("integer", 10), 10.0, False),
        (rule("integer", 1), True, False),
        (rule("float", 10), 10, True),
        (rule("float", 10.5), 10.5, True),
        (rule("string", "San Francisco, CA", ""), "san francisco CA", True),
        (rule("string", "April 1, 2024"), "April-1/2024", True),
        (rule("string", "it's"), 'it"s', True),
        (rule("string", "Graz"), "Graz!", False),
        # The possible value names a variable: then it is compared letter by letter.
        (rule("integer", "count"), "count", True),
        (rule("integer", "count"), "Count", False),
        (rule("boolean", True), True, True),
        (rule("boolean", True), 1, False),
        (rule("array", ["New York", "Graz"], items="string"), ["new york", "graz"], True),
        (rule("array", ["a", "b"], items="string"), ["b", "a"], False),
        (rule("array", [1, 2], items="integer"), [1, "2"], False),
        (rule("array", [1, 2], "", items="integer"), [], True),
        (rule("dict", {"city": ["Graz", "Wien"], "zip": ["", 8010]}), {"city": "graz"}, True),
        (rule("dict", {"city": ["Graz"], "zip": [8010]}), {"city": "graz"}, False),
        (rule("dict", {"city": ["Graz"]}), {"city": "Graz", "land": "A"}, False),
        (rule("array", [{"id": [1]}, {"id": [2]}], items="dict"), [{"id": 1}, {"id": 2}], True),
        (rule("array", [{"id": [1]}, {"id": [2]}], items="dict"), [{"id": 2}, {"id": 1}], False),
        (rule("tuple", [1.5, 2.5], items="float"), [1.5, 2.5], True),
        (rule("array", [1], items="unheard of"), [1], False),
        (rule("", 1), 1, False),
        (rule("dict", 5), {"a": 1}, False),
    ],
)
def test_a_value_is_right_where_bfcl_says_so(expected: BfclValue, given: object, *, is_right: bool) -> None:
    assert fits_bfcl(expected, given) is is_right


@pytest.mark.parametrize(
    ("expected", "is_right"),
    [(rule("string", "a", ""), True), (rule("string", "a"), False), (rule("string", "a", "", is_required=True), False)],
)
def test_an_argument_may_be_left_out_where_an_empty_text_is_possible(expected: BfclValue, *, is_right: bool) -> None:
    assert fits_bfcl(expected, None, is_given=False) is is_right


@pytest.mark.parametrize(
    ("text", "kind", "items", "value"),
    [
        ("5", "integer", "", 5),
        ("5.5", "integer", "", "5.5"),
        ("5L", "long", "", 5),
        ("1.5f", "float", "", 1.5),
        ("1.5", "double", "", 1.5),
        ("true", "boolean", "", True),
        ("yes", "boolean", "", "yes"),
        ('new ArrayList<String>(Arrays.asList("a", "b"))', "ArrayList", "String", ["a", "b"]),
        ("new ArrayList<Integer>() {{ add(1); add(2); }}", "ArrayList", "integer", [1, 2]),
        ("new ArrayList<>()", "ArrayList", "String", []),
        ("new int[]{1, 2}", "Array", "integer", [1, 2]),
        ("nothing", "Array", "integer", "nothing"),
        ('new HashMap<String, Object>() {{ put("a", 1); put("b", "x"); }}', "HashMap", "", {"a": 1, "b": "x"}),
        ("new HashMap<>()", "HashMap", "", {}),
    ],
)
def test_java_source_is_read(text: str, kind: str, items: str, value: object) -> None:
    assert read_java(text, kind, items) == value
    # Possible values of an object are lists for each of its members.
    possible = {name: [member] for name, member in value.items()} if isinstance(value, dict) else value
    assert fits_bfcl(rule(kind, possible, items=items, language="java"), text)


@pytest.mark.parametrize(
    ("text", "kind", "items", "value"),
    [
        ("'a'", "String", "", "a"),
        ("5", "integer", "", 5),
        ("12n", "Bigint", "", 12),
        ("-1.5", "float", "", -1.5),
        ("false", "Boolean", "", False),
        ("[1, 2]", "array", "integer", [1, 2]),
        ("new Array('a', \"b\")", "array", "String", ["a", "b"]),
        ("[[1, 2], [3]]", "array", "array", [[1, 2], [3]]),
        ("{}", "dict", "", {}),
    ],
)
def test_javascript_source_is_read(text: str, kind: str, items: str, value: object) -> None:
    assert read_javascript(text, kind, items) == value
    assert fits_bfcl(rule(kind, value, items=items, language="javascript"), text)


def test_source_code_is_expected_as_text() -> None:
    assert not fits_bfcl(rule("integer", 5, language="java"), 5)


def test_very_long_source_stays_a_text() -> None:
    long = "[" * (MAX_SOURCE + 1)
    assert fits_bfcl(rule("array", long, items="integer", language="javascript"), long)
    assert not fits_bfcl(rule("array", [1], items="integer", language="javascript"), long)
