import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.canonical import canonical_json, sha256_hex
from assay.datasets.parsing.hashing import Hasher, scan_values

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(values)
def test_a_text_is_read_as_it_is_written_and_hashed_as_canonical_json(value: object) -> None:
    content = msgspec.json.encode(value)
    read = Hasher().read(content)
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
    assert repr(Hasher().read(content).value) == repr(msgspec.json.decode(content))


@pytest.mark.parametrize(("count", "are_plain"), [(256, True), (257, False)])
def test_an_object_with_many_members_is_not_left_to_an_encoder_that_recurses_over_them(count: int, *, are_plain: bool) -> None:
    assert scan_values([{"a": [{f"key{number}": 1 for number in range(count)}]}]).are_plain is are_plain
