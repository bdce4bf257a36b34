"""Byte scans: they may cry wolf, they never miss; and cursors count lines and columns as one would by hand."""

import json
import re
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.narrow_text import first_not_utf8
from assay.core.strict_json import Location
from assay.datasets.parsing.checks import strings_in
from assay.datasets.parsing.scan import (
    MAX_COMBINING_RUN,
    JoinedBytes,
    LineScanner,
    LocationCursor,
    doubtful_offsets,
    has_combining_run,
    lone_surrogates,
    lossy_positions,
    may_outgrow,
    scan_texts,
)

CONTROLS = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))} - {"\t", "\n", "\r"}
odd_texts = st.text(
    st.sampled_from(
        [
            *'ab\\"/ {}[]',
            "\x00",
            "\b",
            "\f",
            "\x1f",
            "\x7f",
            "\x80",
            "\x9f",
            "\xa0",
            "é",
            "e",
            "\u0301",
            "\u0316",
            "\u212b",
            "日",
            "😀",
        ]
    ),
    max_size=12,
)


def has_control(text: str) -> bool:
    return any(character in CONTROLS for character in text)


@given(st.lists(odd_texts, min_size=1, max_size=5))
def test_no_control_character_and_no_text_outside_nfc_is_missed(texts: list[str]) -> None:
    canonical = [orjson.dumps({"t": text}) for text in texts]
    scanned = scan_texts(canonical, JoinedBytes(canonical))
    bad = {at for at, text in enumerate(texts) if has_control(text) or not unicodedata.is_normalized("NFC", text)}
    assert bad <= scanned.suspect
    assert set(scanned.astral) == {at for at, text in enumerate(texts) if "😀" in text}


@given(st.lists(st.text("ab éß日\n\t\"'/", max_size=12), min_size=1, max_size=5))
def test_ordinary_text_is_no_suspect(texts: list[str]) -> None:
    canonical = [orjson.dumps({"t": text}) for text in texts]
    assert scan_texts(canonical, JoinedBytes(canonical)).suspect == set()


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.lists(odd_texts, min_size=5, max_size=5))
def test_a_name_that_appears_twice_is_noticed_among_others(repeats: list[bool], texts: list[str]) -> None:
    pairs = list(zip(repeats, texts, strict=False))
    source = [json.dumps({"t": text}).replace("{", '{"t":1,' if twice else "{", 1).encode() for twice, text in pairs]
    written = [orjson.dumps(orjson.loads(raw)) for raw in source]
    assert {at for at, (twice, _) in enumerate(pairs) if twice} <= lossy_positions(JoinedBytes(source), JoinedBytes(written))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1, 2, 255, 256, 257, 512])), min_size=1, max_size=40))
def test_exactly_the_pieces_that_lost_a_quotation_mark_are_named(counts: list[tuple[int, int]]) -> None:
    source = JoinedBytes([b'"' * (kept + lost) + b"x" for kept, lost in counts])
    written = JoinedBytes([b'"' * kept + b"x" for kept, _ in counts])
    assert lossy_positions(source, written) == {at for at, (_, lost) in enumerate(counts) if lost}


@pytest.mark.parametrize("escape", [b"\\u0022", b"\\u0000"])
def test_an_escaped_quotation_mark_or_nul_is_noticed(escape: bytes) -> None:
    source = JoinedBytes([b'{"a":"x"}', b'{"a":"' + escape + b'"}', b'{"a":"\\u0041"}'])
    assert source.with_odd_escapes() == {1}


@pytest.mark.parametrize("element", [b"[],", b'"a",', b'{"a":1},', b"[[[]]],"])
def test_a_text_whose_values_outgrow_it_is_found(element: bytes) -> None:
    text = b"[" + element * 1_000_000 + b"1]"
    assert may_outgrow(text)
    assert not may_outgrow(text[:20_000])


def test_vectors_and_long_texts_do_not_outgrow() -> None:
    assert not may_outgrow(b"[" + b"0.12345678," * 2_000_000 + b"1]")
    assert not may_outgrow(b'["' + b"a, [b] " * 300_000 + b'"]')


@given(
    st.recursive(
        st.text('ab\\"\0 é😀') | st.integers(0, 9), lambda inner: st.lists(inner) | st.dictionaries(st.text('a\\":'), inner)
    )
)
def test_strings_are_counted_however_they_are_escaped(value: object) -> None:
    expected = sum(1 for _ in strings_in(value, ()))
    texts = (json.dumps(value).encode(), orjson.dumps(value))
    assert (
        [LineScanner(8).strings(text) for text in texts] == [LineScanner(8).scan(text).strings for text in texts] == [expected] * 2
    )


@pytest.mark.parametrize("offset", range(55, 135))
def test_bytes_are_seen_together_wherever_a_word_of_bits_ends(offset: int) -> None:
    padding = "x" * offset
    counts = [
        LineScanner(8).scan(json.dumps([padding + ending, "y"]).encode()).strings for ending in ("", '"', "\\", '\\"', "\\\\")
    ]
    assert counts == [2] * 5
    assert [LineScanner(8).scan(f'"{padding}{end}"'.encode()).may_hold_nul for end in ("\\u0000", "u0000", "\\u0001")] == [
        True,
        False,
        False,
    ]


@given(st.text('ab0u\\"\0é', max_size=12), st.integers(0, 130))
def test_no_escaped_nul_is_missed_wherever_it_begins(text: str, offset: int) -> None:
    content = b" " * offset + json.dumps([text]).encode()
    assert LineScanner(8).scan(content).may_hold_nul == (b"\\u0000" in content)


@pytest.mark.parametrize(
    ("content", "offset"),
    [(b"", None), ("é日😀".encode(), None), (b"abc\xff", 3), (b"\xed\xa0\x80", 0), (b"a\xc3", 1), (b"\xc3\xa9\xe2\x82", 2)],
    ids=range(6),
)
def test_the_first_byte_that_is_not_utf8_is_found(content: bytes, offset: int | None) -> None:
    assert first_not_utf8(memoryview(content)) == offset


@pytest.mark.parametrize("shift", range(-4, 3))
def test_a_character_across_the_seam_of_two_blocks_is_utf8(shift: int) -> None:
    content = b"a" * ((1 << 22) + shift) + "😀".encode()
    assert first_not_utf8(memoryview(content)) is None
    assert first_not_utf8(memoryview(content[:-1])) == (1 << 22) + shift


@pytest.mark.parametrize(
    ("content", "offsets"),
    [
        (rb'"\ud800"', [1]),
        (rb'"\uDFFF"', [1]),
        (rb'"\ud83d\ude00"', []),
        (rb'"\ude00\ud83d"', [1, 7]),
        (rb'"\ud83d\ud83d\ude00"', [1]),
        (rb'"\\ud800"', []),
        (rb'"\\\ud800"', [3]),
        (rb'"\ud83d\\ude00"', [1]),
        (rb'"\\ud83d\ude00"', [8]),
        (rb'"\ud7ff\ue000"', []),
        (b"\\ud80", []),
        (b"", []),
    ],
)
def test_unpaired_surrogate_escapes_are_found(content: bytes, offsets: list[int]) -> None:
    assert lone_surrogates(content, most=100) == offsets


def lone_by_hand(content: bytes) -> list[int]:
    """Offsets of the escapes that the standard library reads as lone surrogates."""
    escapes = [match for match in re.finditer(rb"\\(u....|.)", content) if match.group()[1:2] == b"u"]
    kinds = {match.start(): int(match.group()[2:], 16) >> 10 for match in escapes}
    high = {at for at, kind in kinds.items() if kind == 0xD800 >> 10}
    low = {at for at, kind in kinds.items() if kind == 0xDC00 >> 10}
    return sorted({at for at in high if at + 6 not in low} | {at for at in low if at - 6 not in high})


@given(st.lists(st.sampled_from([rb"\ud83d", rb"\uDE00", rb"\\", rb"\n", rb"\u00e9", b"ud83d", b"ude00", b"x", b'"']), max_size=12))
def test_unpaired_surrogates_are_found_among_pairs_and_backslashes(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    assert lone_surrogates(content, most=100) == lone_by_hand(content)


@pytest.mark.parametrize("shift", range(-14, 3))
def test_a_surrogate_pair_is_no_suspect_across_the_seam_of_two_blocks(shift: int) -> None:
    block = 1 << 22
    content = b" " * (block + shift) + b'\\ud83d\\ude00 \\ud83d"'
    assert lone_surrogates(content, most=100) == [block + shift + 13]


def test_the_search_for_surrogates_ends_when_there_are_too_many() -> None:
    found = lone_surrogates(b"\\ud800" * 2_000_000, most=1000)
    assert 1000 < len(found) < 1_000_000


@given(st.text("ab\n\ré日😀", max_size=60), st.data(), st.booleans())
def test_a_cursor_counts_lines_and_columns_as_one_would_by_hand(text: str, data: st.DataObject, with_mark: bool) -> None:  # noqa: FBT001  # drawn
    offsets = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    mark = b"\xef\xbb\xbf" if with_mark else b""
    cursor = LocationCursor(mark + text.encode())
    places = [cursor.place(len(mark) + len(text[:offset].encode())) for offset in offsets]
    lines = [text[:offset].split("\n") for offset in offsets]
    assert places == [Location(len(line), len(line[-1]) + 1) for line in lines]


def test_a_cursor_counts_across_blocks() -> None:
    content = ("é" * 3_000_000 + "\n" + "日" * 2_000_000).encode()
    cursor = LocationCursor(content)
    assert cursor.place(6_000_000) == (1, 3_000_001)
    assert cursor.place(6_000_001) == (2, 1)
    assert cursor.place(len(content)) == (2, 2_000_001)


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
