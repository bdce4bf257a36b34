"""The report of a conversion: every row is counted, and everything that was not carried over is named."""

from assay.datasets.converters import UnreadableLine
from tests.datasets.converters.test_benchmarks import APEX, INCLUDE, convert


def test_report_counts_every_row_and_names_line_and_reason() -> None:
    conversion = convert("includebase", INCLUDE, UnreadableLine("not JSON"), {**INCLUDE, "answer": 9}, INCLUDE)
    report = conversion.report.to_dict()
    assert report["totals"] == {"read": 4, "emitted": 1, "invalid": 2, "skipped": 1}
    assert report["sources"] == [{"source": "rows.jsonl", **report["totals"]}]
    assert [(remark["action"], remark["line"]) for remark in report["remarks"]][:3] == [
        ("invalid", 2),
        ("invalid", 3),
        ("skipped", 4),
    ]
    assert not conversion.report.is_complete


def test_columns_and_members_that_no_row_has_a_place_for_are_named() -> None:
    (remark,) = convert("apexv1", {**APEX, "Owner": "me", "Empty": None}).report.remarks
    assert (remark.action, remark.reason) == ("left_out", "columns without a place in the rows: Owner, Rubric JSON.weight")
