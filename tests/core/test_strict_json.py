"""Claims about the JSON door: RFC 8259 and nothing more, every flaw with its place, limits instead of crashes."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.core.issue import MAX_LISTED, Path, path_text
from assay.core.strict_json import (
    EXCERPT_LENGTH,
    MAX_BRACKETS,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    MAX_LENGTH,
    MAX_VALUE_BYTES,
    Location,
    ParsedDocument,
    ParseProblem,
    excerpt,
    parse_json,
    parse_json_lines,
    plain_document,
    read_exactly,
)
from tests.mutants import mutant_of

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def only_flaw(text: str | bytes) -> ParseProblem:
    [flaw] = parse_json(text).flaws
    return flaw


def refusal(text: str | bytes) -> tuple[str, Location]:
    """Message and place of the flaw that stopped the reading."""
    document = parse_json(text)
    assert document.value is None
    assert not document.is_readable
    return document.flaws[-1].message, document.place(document.flaws[-1].offset)


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    steps = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [path, *(found for step, member in steps for found in paths_of(member, (*path, step)))]


@given(documents, st.booleans(), st.sampled_from([None, 0, 2]))
def test_every_value_is_read_as_the_standard_library_reads_it(value: Any, ascii_only: bool, indent: int | None) -> None:  # noqa: FBT001  # drawn
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    document = parse_json(text)
    assert (document.value, document.flaws) == (json.loads(text), ())


@given(documents, st.sampled_from([None, 1]))
def test_every_value_is_found_where_it_stands(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    document = parse_json(text)
    for path in paths_of(value):
        inner, _ = json.JSONDecoder().raw_decode(text[document.offset(path) :])
        wanted = value
        for step in path:
            wanted = wanted[step]
        assert inner == wanted


@given(
    st.lists(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=3))),
    st.sampled_from(["", " ", "\n\t"]),
)
def test_numbers_in_a_row_are_read_and_found_like_any_others(values: list[Any], white: str) -> None:
    text = json.dumps(values, separators=("," + white, ":"))
    document = read_exactly(text)
    assert (document.value, document.flaws) == (values, ())
    assert [json.JSONDecoder().raw_decode(text[document.offset((index,)) :])[0] for index in range(len(values))] == values


@given(documents.filter(lambda value: isinstance(value, dict) and value))
def test_every_name_is_found_where_it_stands(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    document = parse_json(text)
    names = [json.JSONDecoder().raw_decode(text[document.offset((name,), on_key=True) :])[0] for name in value]
    assert names == list(value)


def seen_in(document: ParsedDocument) -> tuple[str, tuple[ParseProblem, ...], list[int]]:
    """The value with its types, the flaws, and where every value and name stands, and some that are not there."""
    paths = [longer for path in paths_of(document.value) for longer in (path, (*path, "nowhere"), (*path, 99, "x"))]
    return (
        repr(document.value),
        document.flaws,
        [document.offset(path, on_key=on_key) for path in paths for on_key in (False, True)],
    )


@given(documents, st.booleans(), st.sampled_from([None, 0, 2]), st.randoms())
def test_the_quick_reader_finds_the_places_of_the_exact_one_in_any_order(
    value: Any,
    ascii_only: bool,  # noqa: FBT001  # drawn
    indent: int | None,
    random: Random,
) -> None:
    text = json.dumps({"": value}, ensure_ascii=ascii_only, indent=indent)
    # What may be an escaped quotation mark is left to the exact reader, also where the backslash is itself escaped.
    assume("\\u0022" not in text)
    quick, exact = plain_document(text), read_exactly(text)
    paths = random.sample(every := paths_of(exact.value), len(every))
    assert quick is not None
    assert [quick.offset(path) for path in paths] == [exact.offset(path) for path in paths]
    assert seen_in(quick) == seen_in(exact)


@pytest.mark.parametrize("read", [parse_json, read_exactly])
def test_a_name_is_found_where_it_stood_when_the_value_has_it_no_longer(read: Callable[[str], ParsedDocument]) -> None:
    document = read('{"first": 1,\n "second": 2}')
    document.value.pop("second")
    assert document.place(document.offset(("second",), on_key=True)) == (2, 2)


@given(st.integers(0, 2**32 - 1))
def test_whatever_the_quick_reader_takes_is_read_as_by_the_exact_one(seed: int) -> None:
    random = Random(seed)
    tree = {"id": "é\\", "tags": ["a", {}, []], "level": {"n": [1, 2.5, None, True]}, "more": "😀"}
    texts = [mutant_of(tree, random).decode("utf-8", "replace") for _ in range(8)]
    assert [seen_in(parse_json(text)) for text in texts] == [seen_in(read_exactly(text)) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "\\u0061": 2}',
        '{"\\u0022\\u0022": 1, "": 2, "": 3}',
        '"\\ud83d"',
        '"\\ude00\\ud83d"',
        '"\\\\ud83d\\ude00"',
        '"\\ud83d\\\\ude00"',
        '"\ud83d"',
        "[NaN]",
        "[1e400]",
        "9" * (MAX_INTEGER_DIGITS + 1),
        "[" * (MAX_BRACKETS + 1) + "]" * (MAX_BRACKETS + 1),
        '"' + "x" * MAX_LENGTH + '"',
        "1 2",
        "",
        "\ufeff1",
        "[1,]",
    ],
    ids=range(16),
)
def test_the_quick_reader_leaves_what_is_in_doubt_to_the_exact_one(text: str) -> None:
    assert plain_document(text) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, 1)),
        (" \n ", (2, 2)),
        ("[1,", (1, 4)),
        ("[1 2]", (1, 4)),
        ("[1,]", (1, 3)),
        ("[,1]", (1, 2)),
        ("[1}", (1, 3)),
        ("{", (1, 2)),
        ('{"a"}', (1, 5)),
        ('{"a":}', (1, 6)),
        ('{"a":1,}', (1, 7)),
        ('{"a":1]', (1, 7)),
        ("{a:1}", (1, 2)),
        ("{'a':1}", (1, 2)),
        ("{1:2}", (1, 2)),
        ('"a', (1, 1)),
        ('["a\nb"]', (1, 4)),
        ('"\\x"', (1, 2)),
        ('"\\u12G4"', (1, 3)),
        ("nul", (1, 1)),
        ("True", (1, 1)),
        ("NaN", (1, 1)),
        ("[-Infinity]", (1, 2)),
        ("01", (1, 1)),
        ("-", (1, 1)),
        ("+1", (1, 1)),
        (".5", (1, 1)),
        ("1.", (1, 1)),
        ("1e", (1, 1)),
        ("0x10", (1, 1)),
        ("1_000", (1, 1)),
        ("٣", (1, 1)),
        ("1 2", (1, 3)),
        ("{}\n{}", (2, 1)),
        ("[1] // note", (1, 5)),
        ("/* note */ 1", (1, 1)),
        ("\ufeff1", (1, 1)),
        ("1\x00", (1, 2)),
        ("\x0c1", (1, 1)),
        ("\u00a01", (1, 1)),
        ("[1]\x1a", (1, 4)),
    ],
)
def test_text_that_is_not_json_is_refused_where_it_goes_wrong(text: str, place: tuple[int, int]) -> None:
    assert refusal(text)[1] == place


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[NaN]", "no NaN"),
        ("[None]", "lower case"),
        ("{'a': 1}", "double quotes"),
        ("// x", "no comments"),
        ("[1,]", "trailing comma"),
        ("[1", "cut off"),
        ('["a', "cut off"),
        ('"\\d"', "allowed escapes"),
        ('"\t"', "tabs as"),
        ("{}{}", "JSONL"),
        ("[" * 300, "flatten"),
    ],
)
def test_a_refusal_says_what_to_do(text: str, hint: str) -> None:
    assert hint in parse_json(text).flaws[-1].hint


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_only_utf8_is_read(encoding: str) -> None:
    document = parse_json('["é"]'.encode(encoding))
    assert not document.is_readable


@pytest.mark.parametrize(
    ("content", "offset"),
    [(b'["\xe9"]', 2), (b'["\xc3\xa9\xff"]', 3), (b'["\xed\xa0\x80"]', 2), (b'["\xc0\x80"]', 2), (b"\xef\xbb", 0)],
)
def test_the_first_byte_that_is_not_utf8_is_named(content: bytes, offset: int) -> None:
    flaw = only_flaw(content)
    assert (flaw.code, flaw.offset, flaw.fatal) == ("invalid_encoding", offset, True)


def test_one_byte_order_mark_is_skipped_and_counts_for_no_column() -> None:
    document = parse_json(b'\xef\xbb\xbf{"a": 1}')
    assert document.value == {"a": 1}
    assert document.place(document.offset(("a",))) == (1, 7)
    assert not parse_json(b"\xef\xbb\xbf\xef\xbb\xbf1").is_readable


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(kind: Any) -> None:
    assert parse_json(kind(b'{"a": [true]}')).value == {"a": [True]}


def test_a_name_that_appears_twice_is_a_flaw_and_the_first_value_counts() -> None:
    document = parse_json('{"a": 1, "b": {"x": 1, "\\u0078": 2}, "a": 3, "a": 4}')
    assert [(flaw.code, flaw.path, document.place(flaw.offset)) for flaw in document.flaws] == [
        ("invalid_encoding", ("b", "x"), (1, 24)),
        ("invalid_encoding", ("a",), (1, 38)),
        ("invalid_encoding", ("a",), (1, 46)),
    ]
    assert document.value == {"a": 1, "b": {"x": 1}}


@pytest.mark.parametrize("escape", ["\\ud800", "\\udfff", "\\ud800x", "\\ud800\\n", "\\ude00\\ud83d", "\\ud83d\\ud83d\\ude00"])
def test_an_unpaired_surrogate_is_a_flaw_at_its_string(escape: str) -> None:
    flaw = only_flaw('{"a": "' + escape + '"}')
    assert (flaw.code, flaw.path, flaw.offset, flaw.fatal) == ("invalid_encoding", ("a",), 6, False)


def test_a_surrogate_pair_is_one_character() -> None:
    assert parse_json('"\\ud83d\\ude00"').value == "😀"
    assert parse_json('"\\\\ud83d"').value == "\\ud83d"


def test_an_unpaired_surrogate_in_a_name_is_a_flaw_of_its_object() -> None:
    assert only_flaw('{"a": {"\\udc00": 1}}').path == ("a",)


@pytest.mark.parametrize("literal", ["1e309", "-1e309", "1" + "0" * 400 + ".0", "1e99999"])
def test_a_number_beyond_a_double_is_a_flaw(literal: str) -> None:
    flaw = only_flaw(f"[{literal}]")
    assert (flaw.code, flaw.path, flaw.offset) == ("value_out_of_range", (0,), 1)


@pytest.mark.parametrize(("literal", "value"), [("1e308", 1e308), ("1e-400", 0.0), ("-0", 0), ("1E+2", 100.0), ("0.10", 0.1)])
def test_a_number_that_a_double_holds_is_read(literal: str, value: float) -> None:
    assert parse_json(literal).value == value


@pytest.mark.parametrize("literal", ["1" * (MAX_INTEGER_DIGITS + 1), "-" + "9" * (MAX_INTEGER_DIGITS + 1)], ids=["plus", "minus"])
def test_an_integer_of_too_many_digits_is_a_flaw(literal: str) -> None:
    flaw = only_flaw(f"[{literal}]")
    assert (flaw.code, flaw.path, flaw.fatal) == ("value_out_of_range", (0,), False)


@pytest.mark.parametrize(
    "literal", ["0." + "1" * 5000, "1e" + "0" * 5000 + "5", "1." + "0" * 100_000], ids=["digits", "power", "zeros"]
)
def test_a_float_may_be_written_at_any_length(literal: str) -> None:
    document = parse_json(literal)
    assert (document.value, document.flaws) == (float(literal), ())


def test_integers_keep_all_their_digits() -> None:
    digits = "9" * MAX_INTEGER_DIGITS
    assert parse_json(digits).value == int(digits)
    assert parse_json("9007199254740993").value == 9007199254740993


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_containers_nest_up_to_the_limit(opening: str, closing: str) -> None:
    assert parse_json(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH).is_readable
    message, place = refusal(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))
    assert (message, place) == (f"nested deeper than {MAX_DEPTH} levels", (1, len(opening) * MAX_DEPTH + 1))


def test_a_long_vector_is_read() -> None:
    assert read_exactly("[" + "0.12345," * 2_000_000 + "1]").is_readable


@pytest.mark.parametrize("element", ["[],", "{},", '{"a":1},', '"a",', '{"a":{"b":[]}},', "1 ,"])
def test_values_that_take_too_much_memory_are_refused(element: str) -> None:
    text = "[" + element * 3_000_000 + "1]"
    message, place = refusal(text)
    assert message == f"the values take more memory than {MAX_VALUE_BYTES >> 20} MiB beyond the size of the text"
    assert 0 < place[1] < len(text) / 1.2


def test_flaws_beyond_the_first_ones_are_counted() -> None:
    document = read_exactly("{" + '"a":1,' * (MAX_LISTED + 300) + '"b":"\\ud800"}')
    assert (len(document.flaws), document.more_flaws) == (MAX_LISTED, {"invalid_encoding": 300})


def test_many_locations_are_found_in_one_pass() -> None:
    text = '{"a": [1, {"b": "x]}", "b": 2}], "c\\n": {"d": null}, "a": 3}'
    document = read_exactly(text)
    paths: list[Path] = [(), ("a",), ("a", 1), ("a", 1, "b"), ("c\n", "d"), ("a", 7), ("c\n", "e", "f")]
    document.locate(paths)
    assert [text[document.offset(path) :][:3] for path in paths] == ['{"a', "[1,", '{"b', '"x]', "nul", "[1,", '{"d']
    assert text[document.offset(("c\n",), on_key=True) :].startswith('"c')


def test_lines_are_read_one_by_one_and_a_bad_one_is_null() -> None:
    document = parse_json_lines(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{oops}\n  [1, 2]  \n1 2\n"x')
    assert document.value == [{"a": 1}, None, [1, 2], None, None]
    assert [(flaw.path, flaw.code, flaw.fatal, document.place(flaw.offset)) for flaw in document.flaws] == [
        ((1,), "invalid_json", False, (3, 2)),
        ((3,), "invalid_json", False, (5, 3)),
        ((4,), "invalid_json", False, (6, 1)),
    ]


def test_a_value_of_a_line_is_found_in_the_whole_text() -> None:
    document = parse_json_lines('{"é": 1}\n\n {"a": [5]}\n'.encode())
    assert document.place(document.offset((1, "a", 0))) == (3, 9)


def test_a_value_does_not_go_on_in_the_next_line() -> None:
    document = parse_json_lines(b'{"a":\n1}\n{"b": 2}\n')
    assert document.value == [None, None, {"b": 2}]
    assert [flaw.path for flaw in document.flaws] == [(0,), (1,)]


def test_no_lines_are_an_empty_list() -> None:
    assert parse_json_lines(b"\n \n").value == []


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
