"""Doubtful rubrics of a source into warnings about them; which are doubtful, validation has seen as it read them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay.core.case import Criterion
from assay.core.document import Place
from assay.core.issue import Finding, Issue
from assay.core.json_door import parse_json
from assay.core.report import Report
from assay.datasets.checks import short
from assay.datasets.placing import Record, placed
from assay.datasets.rubric_lint import lint_rubric, undecidable
from assay.datasets.source import Source, filled_lines

MOST_ISSUES = 100
"""Warnings of one code in one file; the last says how many more there are."""


class _Row(msgspec.Struct):
    """What is looked at in a valid row."""

    id: str
    rubric: list[Criterion] = []
    reference_answers: list[str] | None = None


_decode_row = msgspec.json.Decoder(_Row).decode


def lint(source: Source, report: Report) -> list[Issue]:
    """Warnings about the rubrics of the valid records of a source, which was read with an effort that says to lint."""
    if report.outcome == "rejected":
        return []
    if report.contract == "legal_eval_v1":
        return _limited(_lint_rows(source, report.doubtful))
    return _limited(_lint_cases(source)) if report.contract == "golden_v1" else []


def _lint_rows(source: Source, doubtful: Sequence[int]) -> Iterator[Issue]:
    """The rows with these indexes, in order; the others are passed over without being decoded."""
    lines = enumerate(filled_lines(source))
    for wanted in doubtful:
        index, line = next(entry for entry in lines if entry[0] == wanted)
        row = _decode_row(line.content)
        found = lint_rubric(row.rubric, row.reference_answers or ())
        if found:
            document = parse_json(line.text, is_whole=False)
            record = Record(index, row.id, start=Place(line.number, 1))
            yield from (placed(finding, document, record) for finding in found)


def _lint_cases(source: Source) -> Iterator[Issue]:
    """A golden case has one criterion: its rubric."""
    document = parse_json(source.buffer())
    cases: list[dict[str, Any]] = document.value["cases"]
    for index, case in enumerate(cases):
        reason = undecidable(case["rubric"])
        if reason:
            message = f"rubric {short(case['rubric'])} {reason}"
            path = ("cases", index, "rubric")
            finding = Finding("unscorable_criterion", path, message, "write what an answer must say to meet it", "warning")
            yield placed(finding, document, Record(index, case["id"]))


def _limited(issues: Iterator[Issue]) -> list[Issue]:
    """The first of each code, with the number of the others at the last of them."""
    shown: list[Issue] = []
    counts: Counter[str] = Counter()
    last: dict[str, int] = {}
    for issue in issues:
        counts[issue.code] += 1
        if counts[issue.code] <= MOST_ISSUES:
            last[issue.code] = len(shown)
            shown.append(issue)
    for code, place in last.items():
        if counts[code] > MOST_ISSUES:
            message = f"{shown[place].message} (and {counts[code] - MOST_ISSUES:,} more like it)"
            shown[place] = msgspec.structs.replace(shown[place], message=message)
    return shown
