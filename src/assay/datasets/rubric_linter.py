"""Rubrics into warnings about them, while the file that they stand in is read."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Criterion
from assay.core.document import Document, Location
from assay.core.issue import Finding, Issue
from assay.core.strict_json import parse_json
from assay.datasets.checks import Findings, short
from assay.datasets.issue_locator import RecordContext, placed_all
from assay.datasets.rubric_lint import lint_rubric, undecidable
from assay.datasets.rubric_screen import doubtful_rows
from assay.datasets.source import Line
from assay.datasets.unsent_context import fact_of_context

MOST_ISSUES = 100
"""Warnings of one code in one file; the last says how many more there are."""


class _RubricRow(msgspec.Struct):
    """What is looked at in a valid row."""

    id: str
    rubric: list[Criterion] = []
    reference_answers: list[str] | None = None


_decode_row = msgspec.json.Decoder(_RubricRow).decode


class Linter:
    """The warnings about the rubrics of one file so far."""

    def __init__(self) -> None:
        self._issues: list[Issue] = []
        self._counts: Counter[str] = Counter()
        self._last: dict[str, int] = {}
        """Place of the last issue of each code."""

    def look_at(self, rows: Mapping[int, Any], line_of: Callable[[int], Line]) -> None:
        """Look at rows with a rubric, by their index; `line_of` gives the line of those that there is something to say of."""
        indexes = list(rows)
        for place in doubtful_rows(list(rows.values())):
            self.look_closely(indexes[place], line_of(indexes[place]))

    def look_closely(self, index: int, line: Line, *, row: Any = None) -> None:
        """Look at one row on its line; `row` is its value, where the line was read before."""
        row = _decode_row(line.content) if row is None else msgspec.convert(row, _RubricRow)
        found = lint_rubric(row.rubric, row.reference_answers or ())
        new = [finding for finding in found if self._is_listed(finding)]
        if new:
            document = parse_json(line.text, is_whole=False)
            record = RecordContext(index, row.id, start=Location(line.number, 1))
            self._list(placed_all(new, document, lambda _: record))

    def _is_listed(self, finding: Finding) -> bool:
        self._counts[finding.code] += 1
        return self._counts[finding.code] <= MOST_ISSUES

    def _list(self, issues: Sequence[Issue]) -> None:
        for issue in issues:
            self._last[issue.code] = len(self._issues)
            self._issues.append(issue)

    def issues(self) -> list[Issue]:
        """The first warnings of each code, with the number of the others at the last of them."""
        for code, place in self._last.items():
            if self._counts[code] > MOST_ISSUES:
                message = f"{self._issues[place].message} (and {self._counts[code] - MOST_ISSUES:,} more like it)"
                self._issues[place] = msgspec.structs.replace(self._issues[place], message=message)
        return self._issues


def lint_cases(document: Document) -> list[Issue]:
    """Warnings about the cases of a valid golden dataset: each has one criterion, its rubric, and notes that no model sees."""
    cases: list[JsonObject] = document.value["cases"]
    found = Findings()
    for index, case in enumerate(cases):
        reason = undecidable(case["rubric"])
        if reason:
            message = f"rubric {short(case['rubric'])} {reason}"
            path = ("cases", index, "rubric")
            found.warn("unscorable_criterion", path, message, hint="write what an answer must say to meet it")
        fact = fact_of_context(case.get("context") or "", rubric=case["rubric"], prompt=case["user_prompt"])
        if fact:
            message = f"the rubric relies on context ({short(fact)}), which is never sent to a model"
            hint = "write what the answer needs into user_prompt; context is for people"
            found.warn("unsent_context", ("cases", index, "context"), message, hint=hint)

    def record_of(finding: Finding) -> RecordContext:
        index = finding.path[1]
        return RecordContext(index, cases[index]["id"]) if isinstance(index, int) else RecordContext()

    return placed_all(found, document, record_of)
