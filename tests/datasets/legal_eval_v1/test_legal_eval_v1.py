"""The reader of legal_eval_v1 beyond the errors that it lists: it counts, and that costs little."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from assay import validate
from assay.core.issue import MAX_ERRORS, MAX_LISTED

GOOD = {"schema_version": "legal_eval_v1", "dataset": "d", "task_type": "reference_qa", "prompt": "p", "reference_answers": ["x"]}
LISTED = (b'{"id":"a","messages":[' + b"1," * (MAX_LISTED // 2) + b"1]}\n") * (2 * MAX_ERRORS // MAX_LISTED)
"""Lines with more errors than a report lists."""
REJECTED = [
    b"{}",
    b"1",
    b"null",
    b"{",
    b"\xff",
    b'{"promt":1}',
    b'{"a":"\\u0000"}',
    b'{"id":"a"}',
    b'{"id":"b"}',
    b'{"weight":1e999}',
    b'{"metadata":1e999}',
    b'{"a":1,"a":2}',
    json.dumps({**GOOD, "id": "new", "context": 1e999}).encode().replace(b"Infinity", b"1e999"),
    json.dumps({**GOOD, "id": "new", "rubric": [], "choices": 1}).encode(),
]


def test_errors_beyond_the_listed_ones_are_counted_as_if_they_were_listed() -> None:
    good = json.dumps({**GOOD, "id": "good"}).encode()
    # More than the reader checks at once, and many that are the same.
    lines = [*REJECTED * 400, good, *REJECTED]
    report = validate(LISTED + b"\n".join(lines), "legal_eval_v1")
    assert len(report.record_errors) == MAX_ERRORS
    assert (report.counts.total_records, report.counts.accepted_records) == (LISTED.count(b"\n") + len(lines), 1)
    counts = Counter({code: number for (code, severity), number in report.issue_counts.items() if severity == "error"})
    assert counts == Counter(issue.code for issue in report.all_issues if issue.severity == "error")


def test_warnings_of_lines_that_are_only_counted_say_how_many_rows_have_them() -> None:
    report = validate(LISTED + b'{"later":1}\n' * 6_000, "legal_eval_v1")
    later = [issue for issue in report.warnings if issue.path == "later"]
    assert [(issue.details, issue.hint) for issue in later] == [({"rows": 6_000}, "move it into metadata")]


def count_calls(work: Callable[[], Any]) -> int:
    """Count the calls of Python functions: they say how much work there is, and are the same on every machine."""
    calls = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_a_line_that_is_only_counted_costs_a_fraction() -> None:
    """A small file has millions of such lines: each took a hundred calls and more."""
    lines = "".join(f'{{}}\n1\n{{"titel":{number}}}\n' for number in range(5_000)).encode()
    listed, more = (count_calls(lambda data=data: validate(data, "legal_eval_v1")) for data in (LISTED, LISTED + lines))
    # The first thousands are checked before the reader knows that they repeat.
    assert (more - listed) / 5_000 < 180
