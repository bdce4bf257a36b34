"""Searches for records: words for several statuses, conditions that need an index, and conditions that say nothing."""

import msgspec
import pytest

from assay.core.record_query import RecordFilter, RecordSearch


@pytest.mark.parametrize(
    ("status", "statuses"),
    [
        (None, ()),
        ("evaluated", ("evaluated",)),
        ("failed", ("timeout", "evaluation_error")),
        ("error", ("timeout", "evaluation_error", "invalid_record")),
        ("valid", ("evaluated", "timeout", "evaluation_error", "cancelled", "skipped")),
    ],
)
def test_a_word_may_stand_for_several_statuses(status: str | None, statuses: tuple[str, ...]) -> None:
    assert msgspec.convert({"status": status}, RecordSearch).statuses == statuses


def test_status_and_verdict_are_answered_without_an_index() -> None:
    assert RecordFilter(status="failed", passed=False).is_plain
    assert not RecordFilter(passed=False, tag="law").is_plain
    assert not RecordFilter(text="court").is_plain


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"min_score": float("nan")}, "'min_score' is nan, which is not a score"),
        ({"max_score": float("inf")}, "'max_score' is inf, which is not a score"),
        ({"text": " \n"}, "'text' has no words"),
        ({"text": "a\0b"}, "'text' has no words"),
        ({"status": "faild"}, "Invalid enum value 'faild'"),
        ({"slice": "dataset"}, "Expected `str` matching regex"),
        ({"against": "../other"}, "Expected `str` matching regex"),
        ({"scores": 1}, "unknown field `scores`"),
        ({"sort": "name"}, "Invalid enum value 'name'"),
    ],
)
def test_a_condition_that_would_match_all_or_none_is_refused(members: dict[str, object], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(members, RecordSearch)
