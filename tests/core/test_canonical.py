"""Canonical JSON is RFC 8785, as another implementation writes it."""

import json
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from assay.core.canonical import canonical_json, sha256_hex

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=25,
)


@given(values)
def test_every_value_is_written_as_rfc8785_says(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@given(
    st.integers(0, 2**64 - 1)
    .map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0])
    .filter(lambda value: abs(value) < float("inf"))
)
def test_every_double_is_written_as_rfc8785_says(value: float) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@given(values)
def test_what_was_written_reads_as_the_same_value(value: Any) -> None:
    assert json.loads(canonical_json(value), parse_int=float) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (0.1 + 0.2, "0.30000000000000004"),
        (333333333.33333329, "333333333.3333333"),
        (1e23, "1e+23"),
        (9007199254740992.0, "9007199254740992"),
    ],
)
def test_numbers_look_as_in_ecmascript(value: float, text: str) -> None:
    assert canonical_json(value).decode() == text


def test_integers_that_no_double_holds_keep_their_digits() -> None:
    assert canonical_json([2**53 + 1, -(10**40)]) == b"[9007199254740993,-10000000000000000000000000000000000000000]"


def test_names_are_ordered_by_utf16() -> None:
    assert canonical_json({"\ufb01": 1, "😀": 2, "b": 3, "a": 4, "": 5}) == '{"":5,"a":4,"b":3,"😀":2,"ﬁ":1}'.encode()


def test_only_what_must_be_escaped_is_escaped() -> None:
    assert canonical_json('\x00\x1f\b\t\n\f\r"\\/\x7f\u2028é😀') == '"\\u0000\\u001f\\b\\t\\n\\f\\r\\"\\\\/\x7f\u2028é😀"'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "\ud800", {"\udc00": 1}, ["a\ud83d"]])
def test_what_json_cannot_say_raises_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON|surrogates"):
        canonical_json(value)


def test_the_hash_is_that_of_the_bytes() -> None:
    assert sha256_hex(canonical_json({"b": 1, "a": [True, None]})) == sha256_hex(b'{"a":[true,null],"b":1}')
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("count", [256, 257, 100_000])
def test_an_object_has_any_number_of_members_in_whatever_order(count: int) -> None:
    names = [f"key{number:06d}" for number in range(count)]
    wanted = ("{" + ",".join(f'"{name}":1' for name in names) + "}").encode()
    assert canonical_json(dict.fromkeys(names, 1)) == canonical_json(dict.fromkeys(reversed(names), 1)) == wanted
