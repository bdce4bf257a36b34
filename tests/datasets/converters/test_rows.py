"""Rows of sources as drafts: missing cells, values that JSON cannot hold, and rows that come twice."""

from typing import Any

import pytest

from assay.datasets.converters import RowSource, convert_rows
from tests.datasets.converters.test_benchmarks import LEXAM, only_row, refusal


def test_nan_and_a_second_empty_column_count_as_missing() -> None:
    row = only_row("lexam", {**LEXAM, "gold": 1.0, "Gold": None, "area": float("nan")})
    assert (row["metadata"]["gold_index"], row["metadata"]["area"]) == (1, None)


@pytest.mark.parametrize("value", [float("inf"), object(), "\ud800"])
def test_value_that_json_cannot_hold_is_refused(value: Any) -> None:
    assert refusal("lexam", {**LEXAM, "area": value}).startswith(
        ("a value has no JSON form: ", "a text holds an unpaired surrogate")
    )


def test_duplicate_in_another_source_is_skipped_and_both_places_are_named() -> None:
    sources = [RowSource("a.jsonl", [(7, LEXAM)]), RowSource("b.jsonl", [(3, LEXAM), (4, {**LEXAM, "gold": 0})])]
    conversion = convert_rows("lexam", sources)
    reasons = [remark.reason for remark in conversion.report.remarks]
    assert len(conversion.rows) == 1
    assert reasons[0] == "the id 'lexam:mcq:mcq_3_choices:q-5' was given to the same row at a.jsonl:7"
    assert reasons[1] == "the id 'lexam:mcq:mcq_3_choices:q-5' was given to another row at a.jsonl:7"
