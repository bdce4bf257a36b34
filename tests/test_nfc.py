"""Texts outside NFC and runs of combining marks: a table may cry wolf, it never misses."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.datasets.parsing.nfc import MAX_COMBINING_RUN, doubtful_offsets, has_combining_run

CHARACTERS = [chr(point) for point in range(0x300, 0x110000) if not 0xD800 <= point < 0xE000]
BASES = "aoAK\u00e4\u03b9\u0928\u1100\uac00\u304b\u0627"
texts = st.text(
    st.sampled_from([*BASES, *"\u0301\u0308\u0316\u0345\u093c\u3099\u0653\u1161\u11a8\u0e35\u0e48\u212b\ufb1d"]), max_size=8
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("a" + "\u0316" * MAX_COMBINING_RUN, False),
        ("a" + "\u0316" * (MAX_COMBINING_RUN + 1), True),
        (("a" + "\u0316" * MAX_COMBINING_RUN) * 3, False),
        ("\u0301\u0316" * 16, True),
        ("\U0001d165" * 31, True),
        ("\u1161" * 40, False),
        ("😀" * 40, False),
        ("\ud800" * 40, False),
    ],
)
def test_a_run_of_more_than_thirty_combining_marks_is_found(text: str, expected: bool) -> None:  # noqa: FBT001  # a table's column
    assert has_combining_run(text) is expected


def test_every_combining_mark_counts() -> None:
    marks = [chr(point) for point in range(0x110000) if unicodedata.combining(chr(point))]
    assert len(marks) > 800
    assert [mark for mark in marks if not has_combining_run("a" + mark * 31)] == []


@given(texts)
def test_no_text_outside_nfc_is_missed(text: str) -> None:
    bare = "".join(character for character in text if not character.isascii())
    assert doubtful_offsets(bare).size or unicodedata.is_normalized("NFC", text)


def test_no_character_that_nfc_changes_is_missed() -> None:
    changed = [character for character in CHARACTERS if not unicodedata.is_normalized("NFC", character)]
    assert len(changed) > 1000
    assert [character for character in changed if not doubtful_offsets(character).size] == []


def test_no_character_that_nfc_joins_to_another_is_missed() -> None:
    pairs = [unicodedata.normalize("NFD", character) for character in CHARACTERS if unicodedata.is_normalized("NFC", character)]
    seconds = {pair[-1] for pair in pairs if len(pair) > 1}
    assert len(seconds) > 100
    assert [second for second in seconds if not doubtful_offsets(second).size] == []


@pytest.mark.parametrize("text", ["", "日本語", "ががが", "한국어", "Việt", "ที่นี่", "שלום", "दिल्ली", "привет"])
def test_ordinary_text_is_not_doubtful(text: str) -> None:
    assert doubtful_offsets(text).size == 0


@pytest.mark.parametrize(
    ("text", "offsets"), [("日e\u0301", [2]), ("日\u0301\u0316", [1, 2]), ("\u05b8\u0e48\u05b4x\u212b", [2, 4])]
)
def test_doubtful_characters_are_found_where_they_stand(text: str, offsets: list[int]) -> None:
    assert doubtful_offsets(text).tolist() == offsets


def test_a_run_of_marks_is_doubtful() -> None:
    assert doubtful_offsets("日" + "\u0316" * (MAX_COMBINING_RUN + 1)).size
    assert not doubtful_offsets("日" + "\u0316" * MAX_COMBINING_RUN).size
