"""Places and excerpts of a document's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.issue import path_text
from assay.core.strict_json import EXCERPT_LENGTH, Location, excerpt, parse_json

TEXT = '{\n  "a": [1, {"é😀": "x"}],\r\n  "b": null\n}\n'


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (1, 1)),
        (("a",), (2, 8)),
        (("a", 0), (2, 9)),
        (("a", 1), (2, 12)),
        (("a", 1, "é😀"), (2, 19)),
        (("b",), (3, 8)),
        (("a", 7), (2, 8)),
        (("a", "x"), (2, 8)),
        (("a", 1, "missing", "deeper"), (2, 12)),
        (("nothing",), (1, 1)),
        (("b", "inside"), (3, 8)),
    ],
)
def test_a_path_leads_to_its_value_or_to_the_nearest_one_around_it(path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    document = parse_json(TEXT)
    assert document.place(document.offset(path)) == place


@pytest.mark.parametrize(("path", "place"), [(("a",), (2, 3)), (("a", 1, "é😀"), (2, 13)), (("b",), (3, 3)), (("a", 1), (2, 12))])
def test_a_path_can_lead_to_the_name(path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    document = parse_json(TEXT)
    assert document.place(document.offset(path, on_key=True)) == place


def test_a_name_inside_an_object_of_the_same_name_is_found() -> None:
    document = parse_json('{"a": {"a": 1}}')
    assert document.offset(("a", "a"), on_key=True) == 7
    assert document.offset(("a", "b"), on_key=True) == 6


@given(st.text("ab\n\ré😀", max_size=40), st.data())
def test_a_place_is_the_line_and_the_column_that_one_would_count(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    before = text[:offset]
    expected = Location(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    assert parse_json(text).place(offset) == expected


@given(st.text("ab\né", max_size=20), st.integers(1, 9), st.integers(1, 9))
def test_a_text_that_begins_elsewhere_shifts_only_its_first_line(text: str, line: int, column: int) -> None:
    document = parse_json(text)
    alone = [document.place(offset) for offset in range(len(text) + 1)]
    shifted = [document.place(offset, start=Location(line, column)) for offset in range(len(text) + 1)]
    assert shifted == [Location(at.line + line - 1, at.column + (column - 1) * (at.line == 1)) for at in alone]


@given(st.text(max_size=400), st.data())
def test_an_excerpt_is_one_printable_line_with_the_caret_inside(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text) + 5))
    shown = excerpt(text, offset)
    assert len(shown.text) <= EXCERPT_LENGTH
    assert shown.text.isprintable()
    assert 0 <= shown.caret <= len(shown.text)


@pytest.mark.parametrize(
    ("text", "offset", "shown", "caret"),
    [
        ("one\ntwo\nthree", 5, "two", 1),
        ("one\r\ntwo\r\n", 0, "one", 0),
        ("a\tb\x07c", 2, "a·b·c", 2),
        ("x" * 500, 250, "x" * 120, 60),
        ("", 0, "", 0),
        ("end", 3, "end", 3),
        ("a\nb", 1, "a", 1),
        ("a\r", 2, "a", 1),
    ],
)
def test_an_excerpt_shows_the_line_around_an_offset(text: str, offset: int, shown: str, caret: int) -> None:
    assert excerpt(text, offset) == (shown, caret)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("records", 1, "input", "prompt"), "records[1].input.prompt"),
        ((0, "a"), "[0].a"),
        ((1, 2), "[1][2]"),
        (("a.b",), '["a.b"]'),
        (("a", ""), 'a[""]'),
        (("a", "it's"), 'a["it\'s"]'),
        (("a", 'say "x"'), 'a["say \\"x\\""]'),
        (("a", "tab\t"), 'a["tab\\t"]'),
        (("a", "[0]"), 'a["[0]"]'),
        (("é", "日本"), "é.日本"),
        (("a b",), "a b"),
        (("half \ud800",), '["half \ufffd"]'),
    ],
)
def test_a_path_is_written_without_ambiguity(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text
