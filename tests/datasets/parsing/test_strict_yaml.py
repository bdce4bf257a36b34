"""Claims about the YAML door: types, flaws with their places, limits, and agreement with the JSON door."""

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.issue import MAX_LISTED
from assay.core.strict_json import MAX_DEPTH, ParsedDocument, ParseProblem, parse_json
from assay.datasets.parsing.strict_yaml import MAX_ALIAS_GROWTH, MAX_SIZE, MAX_TAG_DIRECTIVES, parse_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
)
SEEDS = (
    b'- turn_id: 1\n  message: hello\n  metadata: {a: [1, 2.5, ~, .nan], b: "x\\ud83d\\ude00"}\n- &a {x: 1}\n- *a\n',
    b"a: &x [1,2]\nb: *x\nc:\n  <<: *x\n  ? k\n  : v\nd: |\n  text\n  more\ne: >-\n  fold\n",
    b'%YAML 1.2\n---\n!!str a: !!int 0x1F\n"b": [0o17, 01, 1e999]\n...\n',
    "\ufeff# note\r\né: \"\u2028\x85\x7f\"\r\n😀:\t'it''s'\r\n".encode(),
)
PIECES = (b"- ", b": ", b"? ", b"&a ", b"*a", b"!x ", b"[", b"]", b"{", b"}", b",", b"\n", b"\t", b"|", b"'", b'"', b"#", b"---\n")


def value_of(text: str | bytes) -> Any:
    document = parse_yaml(text)
    assert document.flaws == ()
    return document.value


def only_flaw(text: str | bytes) -> ParseProblem:
    document = parse_yaml(text)
    assert len(document.flaws) == 1
    return document.flaws[0]


def fatal_place(text: str) -> tuple[int, int]:
    document = parse_yaml(text)
    assert document.flaws[-1].fatal
    assert document.value is None
    return document.place(document.flaws[-1].offset)


def members(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    """Every value below `value` with its path."""
    steps = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [found for step, member in steps for found in [((*path, step), member), *members(member, (*path, step))]]


@pytest.mark.parametrize(
    "word", ["no", "yes", "on", "off", "y", "n", "nan", "1_000", "1:30", "0b1", "+0x1", "-0o7", "1e", ".", "--", "=", "\u0661"]
)
def test_words_that_only_yaml_1_1_converts_are_strings(word: str) -> None:
    assert value_of(f"a: {word}") == {"a": word}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("01", 1),
        ("-012", -12),
        ("+7", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
    ],
)
def test_numbers_follow_the_core_schema(text: str, value: float) -> None:
    assert [value_of(text)] == [value]
    assert type(value_of(text)) is type(value)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), ("TRUE", True), ("false", False), ("FALSE", False)])
def test_booleans_follow_the_core_schema(text: str, value: object) -> None:
    assert value_of(text) is value


@pytest.mark.parametrize("text", ["null", "Null", "NULL", "~", "", "# only a comment\n", "---\n", " \n\n"])
def test_null_and_empty_are_none_without_a_flaw(text: str) -> None:
    assert value_of(text) is None


def test_a_member_without_a_value_is_none() -> None:
    assert value_of("a:\nb: ~\nc: [null]") == {"a": None, "b": None, "c": [None]}


def test_nan_and_infinities_stay_floats() -> None:
    nan, infinity, minus = value_of("[.nan, .inf, -.INF]")
    assert math.isnan(nan)
    assert (infinity, minus) == (math.inf, -math.inf)


@pytest.mark.parametrize("stamp", ["2026-11-15", "2026-11-15T10:00:00Z", "2001-12-14 21:59:43.10 -5"])
def test_timestamps_stay_strings(stamp: str) -> None:
    assert value_of(f"at: {stamp}") == {"at": stamp}


@pytest.mark.parametrize("text", ["'01'", '"01"', "!!str 01", "|-\n  01"])
def test_quoted_tagged_and_block_text_is_a_string(text: str) -> None:
    assert value_of(text) == "01"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 4301, "0x" + "f" * 3600, "!!float 1e400"])
def test_a_number_that_no_value_can_hold_is_a_flaw_at_its_place(number: str) -> None:
    flaw = only_flaw(f"a:\n  - {number}")
    assert (flaw.code, flaw.path, flaw.offset, flaw.fatal) == ("value_out_of_range", ("a", 0), 7, False)


def test_long_integers_are_kept_whole() -> None:
    assert value_of("9" * 4300) == int("9" * 4300)


def test_a_duplicate_key_is_a_flaw_at_the_second_and_the_first_value_is_kept() -> None:
    document = parse_yaml("a:\n  b: 1\n  c: 2\n  b: 3\n")
    flaw = document.flaws[0]
    assert (flaw.code, flaw.path, document.place(flaw.offset), flaw.fatal) == ("invalid_yaml", ("a", "b"), (4, 3), False)
    assert document.value == {"a": {"b": 1, "c": 2}}
    assert document.place(document.offset(("a", "b"))) == (2, 6)


def test_every_duplicate_key_is_reported() -> None:
    assert [flaw.path for flaw in parse_yaml('{"a": 1, "a": 2, a: {b: 1, b: 2}}').flaws] == [("a",), ("a", "b"), ("a",)]


def test_a_merge_key_is_a_flaw_and_merges_nothing() -> None:
    document = parse_yaml("a: &a {x: 1}\nb:\n  <<: *a\n  y: 2\n")
    assert [(flaw.code, flaw.path, flaw.offset, flaw.fatal) for flaw in document.flaws] == [
        ("invalid_yaml", ("b", "<<"), 18, False)
    ]
    assert document.value == {"a": {"x": 1}, "b": {"<<": {"x": 1}, "y": 2}}


def test_a_quoted_merge_key_is_a_name() -> None:
    assert value_of('"<<": 1') == {"<<": 1}


def test_a_chain_of_thirty_merges_is_read_once_each() -> None:
    chain = "m0: &m0 {k: 1}\n" + "".join(f"m{n}: &m{n} {{<<: *m{n - 1}}}\n" for n in range(1, 31))
    document = parse_yaml(chain)
    assert document.is_readable
    assert len(document.flaws) == 30


def test_a_chain_of_doubling_merges_is_refused() -> None:
    chain = "m0: &m0 {k: 1}\n" + "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 31))
    assert parse_yaml(chain).flaws[-1].message == "aliases repeat more than a document may hold"


def test_merge_keys_are_merged_where_they_are_asked_for() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc:\n  <<: [*a, *b]\n  x: 9\nd: {<<: *a}\n'<<': 1\n"
    document = parse_yaml(text, has_merge_keys=True)
    assert not document.flaws
    merged = {"a": {"x": 1, "y": 2}, "b": {"y": 3, "z": 4}, "c": {"x": 9, "y": 2, "z": 4}, "d": {"x": 1, "y": 2}, "<<": 1}
    assert document.value == merged
    assert document.place(document.offset(("c", "z"))).line == 4


def test_a_merge_key_of_something_else_than_mappings_is_fatal() -> None:
    document = parse_yaml("a:\n  <<: [1]\n", has_merge_keys=True)
    assert [(flaw.message, flaw.fatal) for flaw in document.flaws] == [("'<<' merges a value that is not a mapping", True)]


def test_a_chain_of_doubling_merges_is_refused_where_they_are_merged_too() -> None:
    chain = "m0: &m0 {k: 1}\n" + "".join(f"m{n}: &m{n} {{k{n}: *m{n - 1}, <<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 31))
    assert parse_yaml(chain, has_merge_keys=True).flaws[-1].message == "aliases repeat more than a document may hold"


def test_an_alias_is_a_copy_of_its_own_with_the_offsets_of_the_original() -> None:
    document = parse_yaml("a: &x {k: [1, 2]}\nb: *x\n")
    assert document.value == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}}
    assert document.value["a"]["k"] is not document.value["b"]["k"]
    assert document.place(document.offset(("b",))) == (2, 4)
    assert document.offset(("b", "k", 1)) == document.offset(("a", "k", 1)) == 14


def test_thousands_of_small_aliases_are_legal() -> None:
    text = "- &meta {source: web, tags: [a, b]}\n" + "- *meta\n" * 5000
    assert value_of(text) == [{"source": "web", "tags": ["a", "b"]}] * 5001


def test_an_alias_repeats_the_latest_anchor_of_its_name() -> None:
    assert value_of("[&a 1, *a, &a 2, *a]") == [1, 1, 2, 2]


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    flaw = only_flaw(BOMB)
    assert (flaw.code, flaw.fatal, flaw.message) == ("invalid_yaml", True, "aliases repeat more than a document may hold")


def test_an_alias_bomb_of_long_strings_is_refused() -> None:
    text = f"- &a {'x' * 100_000}\n" + "- *a\n" * (MAX_ALIAS_GROWTH // 100_000 + 1)
    assert only_flaw(text).fatal


@pytest.mark.parametrize("text", ["- &a\n  x: *a\n", "&a [*a]", "&a {k: [{b: *a}]}", "[&a 1, &a [*a]]"])
def test_an_alias_inside_its_own_anchor_is_fatal(text: str) -> None:
    flaw = only_flaw(text)
    assert (flaw.fatal, flaw.offset) == (True, text.index("*a"))
    assert flaw.message == "the alias *a is inside the value that it repeats"


def test_an_alias_without_an_anchor_is_fatal() -> None:
    assert only_flaw("a: *nowhere").message == "the alias *nowhere has no anchor before it"


def test_aliases_cannot_nest_deeper_than_the_cap() -> None:
    steps = "".join(f"- &s{n} [*s{n - 1}]\n" for n in range(1, MAX_DEPTH + 1))
    assert only_flaw("- &s0 [x]\n" + steps).message == f"nested deeper than {MAX_DEPTH} levels"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a: !foo bar", "!foo"),
        ("a: &x !foo bar", "!foo"),
        ("a: !!binary aGk=", "!!binary"),
        ("a: !!timestamp 2001-01-01", "!!timestamp"),
        ("a: !!set {x}", "!!set"),
        ("a: !!python/object/apply:os.system [ls]", "!!python/object/apply:os.system"),
        ("a: !<tag:example.com,2000:x> b", "!<tag:example.com,2000:x>"),
        ("%TAG !e! tag:example.com,2000:\n---\na: !e!x b", "!<tag:example.com,2000:x>"),
        ("a: ! b", "!"),
        ("a: !!map [1]", "!!map"),
        ("a: !!seq {b: 1}", "!!seq"),
        ("a: !!seq b", "!!seq"),
    ],
)
def test_a_tag_outside_the_core_is_fatal_and_named_at_its_place(text: str, shown: str) -> None:
    flaw = only_flaw(text)
    assert (flaw.code, flaw.fatal, flaw.message) == ("invalid_yaml", True, f"the tag {shown} cannot be used here")
    assert flaw.offset == text.index("!", text.index("a: "))


def test_core_tags_are_read() -> None:
    text = "[!!str 1, !!int '1', !!float 1, !!bool 'true', !!null '', !!seq [], !!map {}, !<tag:yaml.org,2002:str> 2]"
    assert value_of(text) == ["1", 1, 1.0, True, None, [], {}, "2"]


@pytest.mark.parametrize("text", ["!!int x", "!!int 1.5", "!!bool yes", "!!null none", "!!float x"])
def test_a_value_that_is_not_what_its_tag_says_is_fatal(text: str) -> None:
    assert only_flaw(text).message.startswith(f"{text.split()[1]!r} does not fit its tag")


@pytest.mark.parametrize(
    ("text", "place"), [("a: 1\n---\nb: 2\n", (2, 1)), ("a\n...\n# x\n---\nb", (4, 1)), ("---\n---\n", (2, 1))]
)
def test_a_second_document_is_fatal_at_its_start(text: str, place: tuple[int, int]) -> None:
    assert fatal_place(text) == place


def test_one_document_may_be_marked() -> None:
    assert value_of("%YAML 1.2\n---\na: 1\n...\n") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "key"), [("1: a", "1"), ("01: a", "01"), ("~: a", "~"), ("true: a", "true"), ("? \n: a", ""), ("1.5: a", "1.5")]
)
def test_a_key_that_is_no_string_is_a_flaw_and_keeps_its_spelling(text: str, key: str) -> None:
    document = parse_yaml(text)
    assert [(flaw.code, flaw.path, flaw.fatal, flaw.hint) for flaw in document.flaws] == [
        ("invalid_yaml", (key,), False, "keys must be strings: put it in quotes")
    ]
    assert document.value == {key: "a"}


@pytest.mark.parametrize("text", ["? [a]\n: b", "{{a: b}: c}", "- &k {a: 1}\n- *k : v", "- &k 1\n- *k : v"])
def test_a_complex_key_is_fatal(text: str) -> None:
    flaw = only_flaw(text)
    assert (flaw.code, flaw.fatal, flaw.hint) == ("invalid_yaml", True, "keys must be strings")


def test_an_alias_of_a_string_may_be_a_key() -> None:
    assert value_of("- &k name\n- *k : v\n- {&l x: *k}\n- {*l : 2}") == ["name", {"name": "v"}, {"x": "name"}, {"x": 2}]


def test_a_question_mark_that_libyaml_would_swallow_is_refused() -> None:
    assert only_flaw("{?a: b}").offset == 1
    assert only_flaw("[x, ?a]").offset == 4
    assert value_of("{a?: b, ? c : d, e: why?}") == {"a?": "b", "c": "d", "e": "why?"}


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfa: 1\nb: [x]\n", "\ufeffa: 1\nb: [x]\n"])
def test_a_byte_order_mark_is_skipped_and_not_counted(text: bytes | str) -> None:
    document = parse_yaml(text)
    assert document.value == {"a": 1, "b": ["x"]}
    assert document.text[document.offset(("b", 0))] == "x"
    assert document.offset(("a",), on_key=True) == 0


def test_windows_line_ends_keep_places_true() -> None:
    document = parse_yaml("a: 1\r\nb:\r\n  - x\r\nc: |\r\n  one\r\n  two\r\n")
    assert document.value == {"a": 1, "b": ["x"], "c": "one\ntwo\n"}
    assert document.place(document.offset(("b", 0))) == (3, 5)


def test_tabs_separate_but_do_not_indent() -> None:
    assert value_of("a:\tb\nc: [1,\t2]\n") == {"a": "b", "c": [1, 2]}
    assert fatal_place("a:\n\t- b\n") == (2, 1)
    assert only_flaw("a:\n\t- b\n").hint == "indent with spaces, not tabs"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("- turn_id: 1\n  speaker: [user\n", (2, 17)),
        ("a: 1\nb: c: d\n", (2, 5)),
        ("a: 1\n b: 2\n", (2, 3)),
        ('a: "x\nb: 1\n', (2, 5)),
        ("é: 😀\n😀: @x\n", (2, 4)),
        ('a: "\\q"', (1, 5)),
        ("{a: 1]", (1, 6)),
        ("%YAML 3.0\n---\na", (1, 1)),
    ],
)
def test_a_syntax_error_is_fatal_at_its_true_place(text: str, place: tuple[int, int]) -> None:
    assert fatal_place(text) == place
    assert parse_yaml(text).flaws[-1].code == "invalid_yaml"


def test_a_syntax_error_keeps_the_flaws_found_before_it() -> None:
    assert [flaw.fatal for flaw in parse_yaml("a: 1\na: 2\nb: [").flaws] == [False, True]


def test_a_syntax_error_says_where_the_broken_value_starts() -> None:
    assert only_flaw("a:\n  [1,\n  2\nb: 3").message.endswith("while parsing a flow sequence that starts on line 2")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000, "".join(f"{' ' * n}a:\n" for n in range(999))]
)
def test_text_nested_too_deep_is_fatal(text: str) -> None:
    assert only_flaw(text).fatal


def test_the_deepest_legal_nesting_is_read() -> None:
    deepest = value_of("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert json.dumps(deepest) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert only_flaw("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).offset == MAX_DEPTH


def test_more_than_8_mib_is_refused_with_a_way_out() -> None:
    flaw = only_flaw(b"a: " + b"x" * MAX_SIZE)
    assert (flaw.code, flaw.fatal, flaw.hint) == ("payload_too_large", True, "write large datasets as JSON or JSONL")
    assert "8 MiB" in flaw.message
    assert value_of(b"x" * MAX_SIZE) == "x" * MAX_SIZE


def test_a_flood_of_values_is_refused() -> None:
    assert only_flaw("-\n" * 750_000).message.startswith("the values take more memory than")


def test_a_flood_of_flaws_is_counted() -> None:
    document = parse_yaml("a: 1\n" * (MAX_LISTED + 5))
    assert (len(document.flaws), document.more_flaws, document.is_readable) == (MAX_LISTED, {"invalid_yaml": 4}, True)


def test_a_flood_of_tag_directives_is_refused() -> None:
    directives = "".join(f"%TAG !h{n}! x\n" for n in range(MAX_TAG_DIRECTIVES + 1))
    assert only_flaw(directives + "--- a").message == f"more than {MAX_TAG_DIRECTIVES} %TAG directives"


@pytest.mark.parametrize("raw", [b"a: caf\xe9", b"\xff\xfea\x00", b"a: \xed\xa0\x80", b"\x80"])
def test_bytes_that_are_not_utf8_are_fatal(raw: bytes) -> None:
    flaw = only_flaw(raw)
    assert (flaw.code, flaw.fatal) == ("invalid_encoding", True)


@pytest.mark.parametrize("character", ["\x00", "\x01", "\x1b", "\ud800"])
def test_control_characters_and_raw_surrogates_are_fatal_at_their_place(character: str) -> None:
    flaw = only_flaw(f'é: "x{character}"')
    assert (flaw.code, flaw.fatal, flaw.offset) == ("invalid_encoding", True, 5)


def test_the_first_forbidden_character_is_the_one_reported() -> None:
    assert only_flaw("a: \x02 \x01").offset == 3


def test_an_escaped_nul_is_left_to_the_contract() -> None:
    assert value_of('"a\\0b\\u0000"') == "a\0b\0"


def test_a_character_escaped_in_two_halves_is_read_as_json_reads_it() -> None:
    assert value_of('message: "\\ud83d\\ude00 \\\\ud83d\\\\ude00"') == {"message": "😀 \\ud83d\\ude00"}
    assert value_of("- '\\ud83d'\n- \\ud83d\\ude00\n- |-\n  \\\\ud83d") == ["\\ud83d", "\\ud83d\\ude00", "\\\\ud83d"]


def test_half_a_character_is_a_flaw_at_its_string() -> None:
    document = parse_yaml('a: ["x\\ud83d", "\\ude00"]')
    assert [(flaw.code, flaw.path, flaw.offset, flaw.fatal) for flaw in document.flaws] == [
        ("invalid_encoding", ("a", 0), 4, False),
        ("invalid_encoding", ("a", 1), 15, False),
    ]
    assert document.value == {"a": ["x\ud83d", "\ude00"]}


@pytest.mark.parametrize(
    "character", ["\x7f", "\x80", "\x85", "\x9f", "\u2028", "\u2029", "\ufffe", "\uffff", "\ufeff", "\U000f0000"]
)
def test_characters_that_libyaml_misreads_are_kept(character: str) -> None:
    text = f"- a{character}b\n- \"a{character}b\\U000F0000\\U000F0001\"\n- '{character}'\n- end"
    document = parse_yaml(text)
    assert document.value == [f"a{character}b", f"a{character}b\U000f0000\U000f0001", character, "end"]
    assert document.text[document.offset((3,)) :] == "end"


def test_a_text_that_uses_every_private_character_is_still_answered() -> None:
    every = "".join(map(chr, range(0xF0000, 0x110000)))
    assert parse_yaml(f'- "{every}"\n- "\x7f"').flaws[-1].fatal


def test_offsets_count_characters_and_not_bytes() -> None:
    document = parse_yaml("# 😀é\n😀é: &x\n  - 😀: ü\n    b: 'x'\n".encode())
    assert document.text[document.offset(("😀é", 0, "😀"))] == "ü"
    assert document.text[document.offset(("😀é", 0, "b"), on_key=True)] == "b"
    assert document.place(document.offset(("😀é", 0, "b"))) == (4, 8)


def test_json_that_libyaml_refuses_is_read_as_json() -> None:
    long_name = "k" * 2000
    assert value_of(json.dumps({long_name: 1})) == {long_name: 1}
    assert value_of('{"a"\n:1}') == {"a": 1}
    assert only_flaw(f'{{"{long_name}": 1').fatal


plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(value=plain_json, indent=st.sampled_from([None, 1, 4]), is_ascii=st.booleans())
def test_json_text_means_the_same_in_both_doors(value: Any, indent: int | None, is_ascii: bool) -> None:  # noqa: FBT001  # hypothesis passes by name
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    as_json, as_yaml = parse_json(text), parse_yaml(text)
    assert (as_yaml.value, as_yaml.flaws) == (as_json.value, ())
    paths = [path for path, _ in members(value)]
    assert [as_yaml.offset(path) for path in paths] == [as_json.offset(path) for path in paths]
    assert [as_yaml.offset(path, on_key=True) for path in paths] == [as_json.offset(path, on_key=True) for path in paths]


names = st.text("abcé😀\u2028", min_size=1, max_size=5)
block_values = st.recursive(
    st.text("xyzé😀\u2028", min_size=1, max_size=8),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(names, inner, min_size=1, max_size=3),
    max_leaves=12,
)


def block_style(value: Any, indent: str = "") -> str:
    """The value in YAML's block style, strings unquoted."""
    if isinstance(value, str):
        return f" {value}\n"
    steps = [f"{name}:" for name in value] if isinstance(value, dict) else ["-"] * len(value)
    inner = value.values() if isinstance(value, dict) else value
    return "\n" + "".join(f"{indent}{step}{block_style(member, indent + '  ')}" for step, member in zip(steps, inner, strict=True))


@settings(deadline=None)
@given(block_values)
def test_offsets_in_block_style_point_at_each_value(value: Any) -> None:
    document = parse_yaml(block_style(value))
    assert (document.value, document.flaws) == (value, ())
    starts = [(document.text[document.offset(path) :], member) for path, member in members(value)]
    firsts = [
        "-" if isinstance(member, list) else next(iter(member)) if isinstance(member, dict) else member for _, member in starts
    ]
    assert [text for (text, _), first in zip(starts, firsts, strict=True) if not text.startswith(first)] == []


def assert_sound(document: ParsedDocument) -> None:
    """What holds for every document, however bad its text."""
    assert all(0 <= flaw.offset <= len(document.text) for flaw in document.flaws)
    assert document.is_readable or document.value is None
    offsets = [(document.offset(path, on_key=True), document.offset(path)) for path, _ in members(document.value)]
    assert [pair for pair in offsets if not 0 <= pair[0] <= pair[1] <= len(document.text)] == []


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_random_input_never_raises(text: bytes | str) -> None:
    assert_sound(parse_yaml(text))


@settings(max_examples=300, deadline=None)
@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 6), st.sampled_from(PIECES)), max_size=5),
)
def test_mutated_yaml_never_raises(seed: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    text = seed
    for at, removed, piece in edits:
        text = text[:at] + piece + text[at + removed :]
    assert_sound(parse_yaml(text))


def test_a_thousand_strings_of_yaml_signs_never_raise() -> None:
    choose = random.Random(20)
    for _ in range(1000):
        assert_sound(parse_yaml(b"".join(choose.choices(PIECES, k=20))))
