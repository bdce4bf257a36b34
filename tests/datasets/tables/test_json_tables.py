"""Rows in JSON of every shape."""

import json
from typing import Any

import pytest

from assay.core.errors import UsageProblem
from assay.datasets.parsing.source import NoTable, open_source
from assay.datasets.tables.json_tables import JsonTable, json_document, json_lines, yaml_document

ROWS = [{"question": "Why?", "answer": "Because"}, {"question": "Who?", "answer": "Me"}]


def cells(table: JsonTable) -> list[dict[str, object]]:
    return [dict(row.cells) for row in table.rows()]


def document(value: Any, part: str = "") -> JsonTable:
    return json_document(open_source(json.dumps(value).encode(), name="x.json"), part)


@pytest.mark.parametrize(
    "value",
    [
        ROWS,
        {"data": ROWS},
        {"version": 1, "examples": ROWS, "others": [1, 2]},
        {"question": ["Why?", "Who?"], "answer": ["Because", "Me"]},
        {"question": {"0": "Why?", "1": "Who?"}, "answer": {"0": "Because", "1": "Me"}},
        {"columns": ["question", "answer"], "index": [0, 1], "data": [["Why?", "Because"], ["Who?", "Me"]]},
        [["question", "answer"], ["Why?", "Because"], ["Who?", "Me"]],
        {"features": [], "rows": [{"row_idx": 0, "row": ROWS[0]}, {"row_idx": 1, "row": ROWS[1]}]},
    ],
)
def test_rows_are_found_in_every_shape(value: Any) -> None:
    assert cells(document(value)) == ROWS


def test_objects_by_name_have_their_name_as_a_column() -> None:
    assert cells(document({"a": ROWS[0], "b": ROWS[1]})) == [{"id": "a", **ROWS[0]}, {"id": "b", **ROWS[1]}]


def test_articles_of_squad_become_questions() -> None:
    asked = {"id": "1", "question": "Why?", "answers": [{"text": "b", "answer_start": 0}, {"text": "b", "answer_start": 0}]}
    value = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [asked]}]}]}
    assert cells(document(value)) == [{"id": "1", "title": "t", "context": "c", "question": "Why?", "answers": ["b"]}]


def test_of_several_lists_one_is_named() -> None:
    value = {"train": ROWS[:1], "test": ROWS[1:]}
    with pytest.raises(NoTable, match="'train', 'test'"):
        document(value)
    assert cells(document(value, "test")) == ROWS[1:]
    with pytest.raises(UsageProblem, match="no member 'dev'"):
        document(value, "dev")


def test_members_around_the_rows_are_named() -> None:
    assert document({"canary": "x", "examples": ROWS}).syntax.others == ("canary",)


@pytest.mark.parametrize("value", [{"name": "x"}, {"a": 1, "b": [1, 2]}, [], ["text"], {"a": [1], "b": [1, 2]}, "text"])
def test_other_documents_hold_no_table(value: Any) -> None:
    with pytest.raises(NoTable):
        document(value)


def test_a_line_that_is_no_object_costs_itself_alone() -> None:
    data = b'{"q": 1}\n\n[1]\n{"q": 1, "q": 2}\n{"q": }\nnull\n{"q": NaN}\n{"q": "\xff"}\n'
    rows = list(json_lines(open_source(data, name="x.jsonl")).rows())
    assert [(row.number, row.line, row.problem[:24]) for row in rows] == [
        (1, 1, ""),
        (2, 3, "a row must be an object"),
        (3, 4, "not JSON: the name 'q' i"),
        (4, 5, "not JSON: Expecting valu"),
        (5, 6, ""),
        (6, 7, ""),
        (7, 8, "the line is not UTF-8"),
    ]


def test_cases_in_yaml_are_rows() -> None:
    text = b"name: s\ncases:\n- {name: a, inputs: 2+2?, expected_output: '4'}\nevaluators: []\n"
    table = yaml_document(open_source(text, name="x.yaml"))
    assert cells(table) == [{"name": "a", "inputs": "2+2?", "expected_output": "4"}]
    assert (table.syntax.sheet, table.syntax.others) == ("cases", ("name", "evaluators"))


def test_other_yaml_holds_no_table() -> None:
    for text in (b"a: 1\n", b"name: ci\njobs:\n  build:\n    steps: [{uses: x}]\n", b"- 1\n- 2\n", b"key: [unclosed\n"):
        with pytest.raises(NoTable):
            yaml_document(open_source(text, name="x.yaml"))
