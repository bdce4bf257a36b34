"""JSON of other tools: missing numbers, unknown members, and what is refused."""

import pytest

from assay.datasets.converters.rows import RowRefused
from assay.integrations.importers.json_values import LazyObject, elements, strict_value


def test_nan_is_a_missing_number_and_a_word_in_a_text_stays() -> None:
    members = LazyObject(b'{"value": NaN, "other": -Infinity, "text": "NaN \\" Infinity"}')
    assert (members.get("value"), members.get("other"), members.get("text")) == (None, None, 'NaN " Infinity')


@pytest.mark.parametrize("text", [b'{"a": {"b": 1, "b": 2}}', b'{"a": "\\ud800"}', b'{"a": 1e999}'])
def test_what_the_strict_door_refuses_is_refused_here(text: bytes) -> None:
    with pytest.raises(RowRefused):
        LazyObject(text).get("a")


@pytest.mark.parametrize("text", [b"[1]", b"", b"{", b'{"a": 1} {}', b"\xff\xfe"])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(RowRefused):
        LazyObject(text)


def test_members_that_nobody_asked_for_are_known_by_name() -> None:
    members = LazyObject(b'{"read": 1, "kept": {"x": 1}, "empty": [], "none": null}')
    members.get("read")
    assert list(members.unread()) == ["kept"]


def test_a_deep_value_is_refused_not_a_crash() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    with pytest.raises(RowRefused):
        strict_value(deep, "deep")
    with pytest.raises(RowRefused):
        elements(b"[" + deep, "deep")
