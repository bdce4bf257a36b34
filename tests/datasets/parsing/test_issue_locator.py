"""Findings as issues: located in the record that they belong to, and bounded in number."""

from assay.core.issue import MAX_LISTED, Finding
from assay.core.strict_json import Location, parse_json
from assay.datasets.parsing.checks import FindingList
from assay.datasets.parsing.issue_locator import IssueList, RecordContext, locate_issue, locate_issues

ROW = '{"id": "a",\n "prompt": 7}'


def test_a_finding_has_line_column_and_path_of_the_whole_source() -> None:
    record = RecordContext(index=4, record_id="a", path=("records", 4), start=Location(10, 3))
    finding = Finding("invalid_field_type", ("records", 4, "prompt"), "must be text")
    issue = locate_issue(finding, parse_json(ROW), record)
    assert (issue.path, issue.line, issue.column) == ("records[4].prompt", 11, 12)
    assert (issue.index, issue.record_id, issue.excerpt[issue.caret]) == (4, "a", "7")


def test_a_finding_about_a_name_points_at_the_name() -> None:
    finding = Finding("unsupported_field", ("prompt",), "is unknown", on_key=True)
    issue = locate_issue(finding, parse_json(ROW), RecordContext())
    assert (issue.line, issue.column, issue.excerpt[issue.caret]) == (2, 2, '"')


def test_many_findings_have_the_places_that_they_have_alone() -> None:
    document, record = parse_json(ROW), RecordContext(index=0)
    found = [Finding("x", ("prompt",), "one"), Finding("y", (), "two", offset=1), Finding("z", ("id",), "three")]
    assert locate_issues(found, document, lambda _: record) == [locate_issue(finding, parse_json(ROW), record) for finding in found]


def warnings(count: int) -> FindingList:
    found = FindingList()
    found.extend(Finding("suspicious_value", ("prompt",), "odd", severity="warning") for _ in range(count))
    return found


def test_issues_beyond_the_first_are_counted_by_code() -> None:
    issues, document = IssueList(), parse_json(ROW)
    for _ in range(2):
        issues.note(warnings(MAX_LISTED - 1), document, RecordContext(index=0))
    assert len(issues.issues) == MAX_LISTED
    assert issues.unlisted == {("suspicious_value", "warning"): MAX_LISTED - 2}


def test_errors_of_the_source_are_counted_whether_they_are_listed_or_not() -> None:
    issues, document = IssueList(), parse_json(ROW)
    found = FindingList()
    found.extend(Finding("invalid_field_type", ("prompt",), "no text") for _ in range(MAX_LISTED + 5))
    issues.note(found, document, RecordContext())
    assert (issues.dataset_errors, len(issues.issues)) == (MAX_LISTED + 5, MAX_LISTED)
    assert issues.unlisted == {("invalid_field_type", "error"): 5}


def test_a_stream_says_in_its_last_issue_how_many_more_there_are() -> None:
    issues = IssueList(is_bounded=False)
    issues.note(warnings(MAX_LISTED + 3), parse_json(ROW), RecordContext(index=0))
    assert [issue.message for issue in issues.drain()][-2:] == ["odd", "odd (and 3 more issues in this record)"]
    assert issues.drain() == []
