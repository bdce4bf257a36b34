from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.canonical import canonical_json, sha256_hex
from assay.datasets.parsing.hashing import KeyIndex, RecordHasher, has_astral_name, scan_values, text_has_astral_name

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(values)
def test_a_text_is_read_as_it_is_written_and_hashed_as_canonical_json(value: object) -> None:
    content = msgspec.json.encode(value)
    read = RecordHasher().read(content)
    assert (repr(read.value), read.sha256) == (repr(value), sha256_hex(canonical_json(value)))


@given(st.lists(values | st.dictionaries(st.text("aé\ue000😀"), st.floats(1e-8, 1e-3) | st.floats(1e14, 1e22))))
def test_no_value_that_is_written_otherwise_by_rfc_8785_is_called_plain(several: list[object]) -> None:
    looked = scan_values(several)
    assert not looked.are_plain or msgspec.json.encode(several, order="deterministic") == canonical_json(several)


@given(st.lists(values))
def test_strings_are_counted_as_they_are_written(several: list[object]) -> None:
    unescaped = msgspec.json.encode(several).replace(b"\\\\", b"").replace(b'\\"', b"")
    assert 2 * scan_values(several).strings == unescaped.count(b'"')


@pytest.mark.parametrize("content", [b"[1.0, 2]", b'{"weight": -0.0}', b"[1e3, 1e300]", b"[0.5]"])
def test_a_whole_float_stays_a_float(content: bytes) -> None:
    assert repr(RecordHasher().read(content).value) == repr(msgspec.json.decode(content))


@pytest.mark.parametrize(("count", "are_plain"), [(256, True), (257, False)])
def test_an_object_with_many_members_is_not_left_to_an_encoder_that_recurses_over_them(count: int, *, are_plain: bool) -> None:
    assert scan_values([{"a": [{f"key{number}": 1 for number in range(count)}]}]).are_plain is are_plain


astral_texts = st.text(st.sampled_from('a"\\:,{😀\U0010ffffé'), max_size=6)
astral_values = st.recursive(
    astral_texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(astral_texts, inner, max_size=3)
)


@given(astral_values)
def test_a_text_has_an_astral_name_when_its_value_has_one(value: Any) -> None:
    assert text_has_astral_name(orjson.dumps(value)) == has_astral_name(value)


few = st.sampled_from((0, 5, 1000))
keys = st.lists(st.text(max_size=3), max_size=60)


def test_many_keys_keep_the_numbers_in_which_they_were_added() -> None:
    index = KeyIndex()
    assert all(index.add_all([f"r{n}" for n in range(start, start + 700)]) for start in range(0, 70_000, 700))
    assert [index.find(f"r{n}") for n in range(70_000)] == list(range(70_000))
    assert [n for n in range(70_000, 140_000) if index.find(f"r{n}") is not None] == []


@given(st.lists(keys, max_size=8), few)
def test_a_group_is_added_as_a_whole_or_not_at_all(groups: list[list[str]], limit: int) -> None:
    index, known = KeyIndex(few=limit), dict[str, int]()
    for group in groups:
        is_new = len(set(group)) == len(group) and known.keys().isdisjoint(group)
        assert index.add_all(group) is is_new
        known |= {key: len(known) + place for place, key in enumerate(group)} if is_new else {}
    assert {key: index.find(key) for group in groups for key in group} == {key: known.get(key) for group in groups for key in group}


@given(keys, few)
def test_a_key_is_added_once(given_keys: list[str], limit: int) -> None:
    index = KeyIndex(few=limit)
    assert [index.add(key) for key in given_keys] == [key not in given_keys[:place] for place, key in enumerate(given_keys)]
    assert [index.find(key) for key in dict.fromkeys(given_keys)] == list(range(len(index)))


def test_single_keys_make_the_table_grow_too() -> None:
    index = KeyIndex(few=10)
    assert all(index.add(f"r{n}") for n in range(5_000))
    assert not index.add("r17")
    assert [index.find(f"r{n}") for n in range(5_000)] == list(range(5_000))


@pytest.mark.parametrize("limit", [0, 10])
def test_a_key_with_half_a_character_is_found(limit: int) -> None:
    index = KeyIndex(few=limit)
    assert index.add_all(["a\ud800", "a"])
    assert (index.find("a\ud800"), index.find("a"), index.find("a\ud801")) == (0, 1, None)
