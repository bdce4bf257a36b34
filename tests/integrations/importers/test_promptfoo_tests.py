"""Tests of promptfoo in all their forms, and the combinations of their values."""

from pathlib import Path
from typing import Any

import pytest

from assay.datasets.imports.items import ImportSource, ImportState
from assay.integrations.importers.promptfoo_files import ConfigFiles
from assay.integrations.importers.promptfoo_prompts import UnreadValue
from assay.integrations.importers.promptfoo_tests import (
    MAX_COMBINATIONS,
    ConfigTest,
    ConfigTestReader,
    combinations,
    is_known_type,
    parse_expected,
)
from tests.integrations.importers.promptfoo_types import TYPES


def opened() -> tuple[ConfigFiles, ImportState]:
    Path("promptfooconfig.yaml").touch()
    reading = ImportState()
    return ConfigFiles(ImportSource("promptfooconfig.yaml"), reading), reading


def read(given: object) -> tuple[list[dict[str, Any]], dict[str, int]]:
    files, reading = opened()
    return list(ConfigTestReader(files, reading).read(given)), dict(reading.left_out)


def combined(test: dict[str, Any], shared: dict[str, Any] | None = None) -> tuple[list[dict[str, object]], dict[str, int]]:
    files, reading = opened()
    return list(combinations(ConfigTest(test, shared or {}), files, reading)), dict(reading.left_out)


def test_tests_are_read_from_files_of_every_form() -> None:
    Path("tests.yaml").write_text("- {vars: {a: '1'}}\n- not a test\n")
    Path("one.yaml").write_text("vars: {a: '2'}\n")
    Path("tests.json").write_text('[{"vars": {"a": "3"}}, {"a": "4", "__expected": "x"}]')
    Path("tests.jsonl").write_text('{"vars": {"a": "5"}}\n')
    Path("tests.csv").write_text("a\n6\n")
    found, left_out = read(
        ["file://tests.yaml", "one.yaml", {"path": "file://tests.json"}, "file://tests.{jsonl,csv}", {"vars": {"a": "7"}}]
    )
    assert [test["vars"]["a"] for test in found] == ["1", "2", "3", "4", "5", "6", "7"]
    assert found[3]["assert"] == [{"type": "equals", "value": "x"}]
    assert left_out == {"test in a file that is no object": 1}


def test_variables_and_assertions_of_a_test_may_be_in_files_next_to_it() -> None:
    Path("deep").mkdir()
    Path("deep/vars.yaml").write_text("{a: x, b: y}")
    Path("deep/more.json").write_text('{"b": "z"}')
    Path("deep/tests.yaml").write_text("- {vars: vars.yaml}\n- {vars: ['vars.yaml', 'more.json']}\n")
    Path("asserts.yaml").write_text("- {type: is-json}\n")
    found, _ = read(["file://deep/tests.yaml", {"vars": {}, "assert": "file://asserts.yaml"}])
    assert [test["vars"] for test in found] == [{"a": "x", "b": "y"}, {"a": "x", "b": "z"}, {}]
    assert found[2]["assert"] == [{"type": "is-json"}]


def test_columns_with_two_underscores_are_about_the_test() -> None:
    columns = [
        "__expected1",
        "__expected2",
        "__prefix",
        "__description",
        "__metric",
        "__threshold",
        "__metadata:k",
        "__metadata:l[]",
    ]
    header = ",".join([" a ", *columns, "__config:__expected2:threshold", "__x"])
    Path("t.csv").write_text(f'{header}\nv,is-json,similar(0.6): b,P,d,m,0.5,1,"x, y\\, z",0.9,?\n')
    [test], left_out = read("file://t.csv")
    assert test == {
        "vars": {"a": "v"},
        "assert": [{"type": "is-json", "metric": "m"}, {"type": "similar", "value": "b", "threshold": 0.9, "metric": "m"}],
        "options": {"prefix": "P"},
        "description": "d",
        "threshold": 0.5,
        "metadata": {"k": "1", "l": ["x", "y, z"]},
    }
    assert left_out == {"column __x": 1}


EXPECTED = [
    ("Paris", {"type": "equals", "value": "Paris"}),
    ("Note: this is text", {"type": "equals", "value": "Note: this is text"}),
    ("time: 12:30", {"type": "equals", "value": "time: 12:30"}),
    ("contains: a: b", {"type": "contains", "value": "a: b"}),
    ("not-icontains:a", {"type": "not-icontains", "value": "a"}),
    ("similar(0.9): a", {"type": "similar", "value": "a", "threshold": 0.9}),
    ("similar: a", {"type": "similar", "value": "a", "threshold": 0.8}),
    ("levenshtein: a", {"type": "levenshtein", "value": "a", "threshold": 0.75}),
    ("latency(500)", {"type": "latency", "threshold": 500.0}),
    ("is-json", {"type": "is-json"}),
    ("trajectory:tool-used: look", {"type": "trajectory:tool-used", "value": "look"}),
    ("python", {"type": "equals", "value": "python"}),
    ("grade: Is kind", {"type": "llm-rubric", "value": "Is kind"}),
    ("fn: output.a", {"type": "javascript", "value": "output.a"}),
    ("python: 'a' in output", {"type": "python", "value": "'a' in output"}),
    ("file://check.py", {"type": "python", "value": "file://check.py"}),
]


@pytest.mark.parametrize(("cell", "assertion"), EXPECTED, ids=[cell for cell, _ in EXPECTED])
def test_an_expected_cell_is_an_assertion_or_the_answer(cell: str, assertion: dict[str, Any]) -> None:
    assert parse_expected(cell) == assertion


def test_every_type_of_promptfoo_is_known() -> None:
    assert [form for form in TYPES if not is_known_type(form)] == []


def test_lists_of_texts_are_alternatives_unless_a_test_keeps_them() -> None:
    test = {"vars": {"a": ["1", "2"], "b": [1, 2], "c": []}}
    assert combined(test)[0] == [{"a": "1", "b": [1, 2], "c": []}, {"a": "2", "b": [1, 2], "c": []}]
    assert len(combined({**test, "options": {"disableVarExpansion": True}})[0]) == 1


def test_values_of_all_tests_are_replaced_by_those_of_one() -> None:
    assert combined({"vars": {"a": "x"}}, {"vars": {"a": "d", "b": "e"}})[0] == [{"a": "x", "b": "e"}]


def test_values_may_be_files_and_each_file_of_a_pattern_is_one() -> None:
    for name, text in {"a.txt": " one\n", "b.txt": "two", "c.yaml": "k: [1]", "d.py": "raise SystemExit"}.items():
        Path(name).write_text(text)
    assert combined({"vars": {"x": "file://*.txt"}})[0] == [{"x": "one"}, {"x": "two"}]
    assert combined({"vars": {"x": ["file://c.yaml", "plain"]}})[0] == [{"x": '{"k":[1]}'}, {"x": "plain"}]
    [found], left_out = combined({"vars": {"x": "file://d.py"}})
    assert found == {"x": UnreadValue("'d.py' is a program, which is not run")}
    assert left_out == {"value from code": 1}


def test_more_combinations_than_the_limit_are_listed() -> None:
    values = [str(number) for number in range(150)]
    found, left_out = combined({"vars": {"a": values, "b": values}})
    assert (len(found), left_out) == (MAX_COMBINATIONS, {f"combinations of variables beyond {MAX_COMBINATIONS:,}": 1})
