import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.datasets.parsing.hashing import KeyIndex

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
