"""Texts of any origin as a terminal takes them."""

from assay.core.text import printable_id


def test_long_ids_are_cut_in_their_middle_so_that_their_ends_tell_them_apart() -> None:
    ids = [f"benchmark/professional_law/test/{number:09}" for number in range(3)]
    assert [printable_id(name, limit=24) for name in ids] == [f"benchmark/pr…t/00000000{number}" for number in range(3)]
    assert printable_id("short\x1b", limit=6) == "short␛"
    assert {len(printable_id("x" * size, limit=48)) for size in range(48, 60)} == {48}
