"""Elements of an array are counted without building them, whatever stands inside them."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.core.issue import MAX_ERRORS, MAX_LISTED
from assay.datasets.batch_v1.split import has_more_elements

texts = st.text(st.sampled_from('\\"[]{},aé'), max_size=8)
values = st.recursive(texts | st.integers(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3))
MB = 1 << 20


def test_errors_beyond_the_listed_ones_are_counted_and_can_be_read() -> None:
    records = [
        {"record_id": f"r{number}", "input": {"prompt": "?"}, "expected": {"required_criteria": ["z"] * 300}}
        for number in range(400)
    ]
    head = {"dataset_id": "flood", "dataset_version": "1", "schema_version": "1.0"}
    report = assay.validate(json.dumps({**head, "records": records}).encode(), "batch_v1")
    counts = Counter(issue.index for issue in report.record_errors)
    assert (counts[0], counts[399], report.counts.rejected_records) == (300, 0, 400)
    assert (len(report.record_errors), report.unlisted) == (MAX_ERRORS, {("invalid_enum_value", "error"): 120_000 - MAX_ERRORS})
    assert Counter(issue.index for issue in report.all_issues) == dict.fromkeys(range(400), 300)
    assert list(report.broken) == list(range(400))


def test_one_record_lists_so_many_issues_and_says_how_many_more_there_are() -> None:
    record = {"record_id": "r", "input": {"prompt": "?"}, "tags": [1] * (MAX_LISTED + 5)}
    good = {"record_id": "good", "input": {"prompt": "?"}}
    head = {"dataset_id": "flood", "dataset_version": "1", "schema_version": "1.0"}
    report = assay.validate(json.dumps({**head, "records": [record, good]}).encode(), "batch_v1")
    assert report.issue_counts == {("invalid_field_type", "error"): MAX_LISTED + 5, ("value_out_of_range", "error"): 1}
    assert list(report.all_issues)[-1].message.endswith("(and 6 more issues in this record)")


@given(st.lists(values, max_size=6), st.integers(1, 7))
def test_an_array_has_more_elements_than_any_smaller_number(array: list[object], most: int) -> None:
    assert has_more_elements(memoryview(json.dumps(array).encode()), most) == (len(array) > most)


@pytest.mark.parametrize("value", [{"a": 1, "b": 2}, "1,2,3", {"a": [1, 2, 3]}], ids=json.dumps)
def test_only_an_array_has_elements(value: object) -> None:
    assert not has_more_elements(memoryview(json.dumps(value).encode()), 1)


@pytest.mark.parametrize("lead", range(8))
@pytest.mark.parametrize("element", [r'"\\\",["', '[{},"]"]', r'"\\"'])
def test_the_seams_between_blocks_do_not_show(element: str, lead: int) -> None:
    times = 2 * MB // len(element)
    array = memoryview(("[" + " " * lead + ",".join([element] * times) + "]").encode())
    assert has_more_elements(array, times - 1)
    assert not has_more_elements(array, times)
