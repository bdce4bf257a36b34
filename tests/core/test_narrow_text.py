"""A large text read for checks has the places, names and lengths of the text itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core import narrow_text, strict_json
from assay.core.narrow_text import byte_offsets
from assay.core.strict_json import ParsedDocument, decode_for_checks, parse_json, parse_json_lines

texts = st.text(st.sampled_from([*'ab"\\/ \n\x00', "é", "あ", "\u3000", "😀", "\ud800", "\udc00"]), max_size=30)
names = st.text(st.sampled_from(["a", "é", "あ", "😀"]), max_size=6)
values = st.recursive(
    texts | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "LARGE_BYTES", 0)
    monkeypatch.setattr(strict_json, "LONG_TEXT", 5)
    monkeypatch.setattr(narrow_text, "LONG_TEXT", 5)
    monkeypatch.setattr(narrow_text, "_BLOCK", 3)


def checked(data: bytes, *, by_line: bool = False) -> ParsedDocument:
    text = decode_for_checks(data)
    return text if isinstance(text, ParsedDocument) else parse_json_lines(text) if by_line else parse_json(text)


def shape(value: Any) -> Any:
    """The value with the length, and the white space, of its texts."""
    if isinstance(value, str):
        return len(value), value.isspace(), "\x00" in value
    if isinstance(value, list):
        return [shape(member) for member in value]
    return {name: shape(member) for name, member in value.items()} if isinstance(value, dict) else value


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for step, member in steps for found in paths(member, (*path, step)))]


def agrees(data: bytes, *, by_line: bool = False) -> None:
    narrow = checked(data, by_line=by_line)
    exact = parse_json_lines(data) if by_line else parse_json(data)
    assert shape(narrow.value) == shape(exact.value)
    assert [(flaw.code, flaw.path, flaw.offset, flaw.kind) for flaw in narrow.flaws] == [
        (flaw.code, flaw.path, flaw.offset, flaw.kind) for flaw in exact.flaws
    ]
    assert len(narrow.text) == len(exact.text)
    for path in paths(exact.value):
        assert narrow.offset(path) == exact.offset(path)
        assert narrow.place(narrow.offset(path)) == exact.place(exact.offset(path))


@pytest.mark.filterwarnings("ignore")
@given(value=values, escaped=st.booleans())
def test_what_is_found_in_a_text_does_not_depend_on_its_size(value: Any, *, escaped: bool) -> None:
    agrees(json.dumps(value, ensure_ascii=escaped).encode("utf-8", "replace"))


@given(rows=st.lists(values.filter(lambda value: value is not None), max_size=4), escaped=st.booleans())
def test_nor_do_the_lines_of_one(rows: list[Any], *, escaped: bool) -> None:
    agrees("\n".join(json.dumps(row, ensure_ascii=escaped) for row in rows).encode("utf-8", "replace"), by_line=True)


@pytest.mark.parametrize(
    "data",
    [
        '["あいうえおかき\\ud83d\\ude00\\ud83d\\ude00あ", 1',
        '["あいうえおかき\\x"]',
        '["あいうえおかき\\u12"]',
        '["あいうえおかき\n"]',
        '["あいうえおかき',
        '{"あいうえおかきく": 1, "あいうえおかきく": 2, "あいうえおかきけ": 3}',
        'あ["あいうえおかき"]',
        '["' + "\\u0041" * 3000 + '\\ud83d", "あ"]',
    ],
)
def test_broken_texts_are_broken_in_the_same_place(data: str) -> None:
    agrees(data.encode())


def test_bytes_that_are_not_utf_8_are_named() -> None:
    agrees('["あいうえお😀'.encode() + b'\xff\xfe"]')


@given(st.text(st.sampled_from("aéあ😀"), max_size=20), st.integers(1, 5))
def test_characters_are_found_in_the_bytes(text: str, size: int) -> None:
    data = text.encode()
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(byte_offsets(blocks, range(len(text) + 1))) == [len(text[:at].encode()) for at in range(len(text) + 1)]
