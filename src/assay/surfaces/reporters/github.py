"""Workflow commands of GitHub: issues on their lines, missed gates as errors, records that did not pass as warnings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from assay.core.issue import Issue
from assay.core.report import ValidationReport
from assay.core.text import printable, printable_lines
from assay.presentation.validation import Totals, change_line, limited, record_label
from assay.presentation.words import counted
from assay.surfaces.reporters.formats import ReportSettings

if TYPE_CHECKING:
    # `assay validate` writes annotations too, and needs none of the types of a run.
    from assay.presentation.decisions import CheckedRun, RecordCheck

SHOWN = 10
"""What GitHub shows of each kind for one step."""
REASON_LIMIT = 1_000

Properties = dict[str, str | int | None]


def github_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Write one `::error` or `::warning` command per issue, then a plain summary line."""
    tally = Totals()
    for report in reports:
        tally.add(report)
        yield from report_annotations(report, settings)
    yield tally.line() + "\n"


def report_annotations(report: ValidationReport, settings: ReportSettings) -> Iterator[str]:
    """Write the commands for the issues of one file."""
    # Commands for GitHub's log: a line with anything unescaped could begin another command.
    for change in settings.changes:
        properties: dict[str, str | int | None] = {"file": settings.fixed_source, "line": change.line, "title": "fixed"}
        yield annotation("notice", properties, message=change_line(change))
    for issue in limited(report, settings.max_issues):
        place = {"file": report.path, "line": issue.line, "col": issue.column, "title": issue.code}
        # --strict fails for warnings, so they are errors here as well.
        yield annotation("error" if settings.is_strict else issue.severity, place, message=_message(issue))


def _message(issue: Issue) -> str:
    subject = " · ".join(part for part in (record_label(issue), issue.path) if part)
    return "\n".join(line for line in (issue.message, subject, f"hint: {issue.hint}" if issue.hint else "") if line)


def annotation(level: str, properties: dict[str, str | int | None], *, message: str) -> str:
    """Return one workflow command; nothing in the message or the properties ends it or begins another."""
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    return f"::{level} {given}::{_escaped(printable_lines(message))}\n"


def _escaped(text: str) -> str:
    # `%` first, or the escapes that are made after it would be escaped again.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # A property ends at a comma, and the list of them at a colon.
    return _escaped(printable(text)).replace(":", "%3A").replace(",", "%2C")


# Runs


def run_annotations(runs: Sequence[CheckedRun]) -> Iterator[str]:
    """Write a command for each missed gate, for the first records that did not pass, and for how many more there are."""
    for checked in runs:
        for gate in checked.failing_gates:
            yield annotation("error", {"title": f"{checked.name}: {gate.kind}"}, message=gate.reason)
        for gate in (gate for gate in checked.gates if gate.is_warning):
            yield annotation("warning", {"title": f"{checked.name}: {gate.kind}"}, message=gate.reason)
    room = SHOWN - sum(gate.is_warning for checked in runs for gate in checked.gates)
    left_out = 0
    for checked in runs:
        records = failing_records(checked.records())
        for record in records.first[: max(0, room)]:
            yield _record_warning(checked, record)
        # Counted here, because what GitHub drops it does not mention.
        left_out += records.total - min(len(records.first), max(0, room))
        room -= len(records.first)
    if left_out:
        message = f"{counted(left_out, 'more record')} without a grade or not passed; failures.jsonl of the run lists them all"
        yield annotation("notice", {"title": "not shown here"}, message=message)


class FailingRecords:
    """First records that did not pass, those without a grade first, and the number of all."""

    def __init__(self) -> None:
        self.total = 0
        self._errors: list[RecordCheck] = []
        self._failures: list[RecordCheck] = []

    @property
    def first(self) -> list[RecordCheck]:
        """At most as many as GitHub shows."""
        return (self._errors + self._failures)[:SHOWN]

    def add(self, record: RecordCheck) -> None:
        """Count one more."""
        self.total += 1
        found = self._errors if record.outcome == "error" else self._failures
        if len(found) < SHOWN:
            found.append(record)


def failing_records(records: Iterable[RecordCheck]) -> FailingRecords:
    """Read one at all records, however many there are."""
    found = FailingRecords()
    for record in records:
        if record.outcome in ("failure", "error"):
            found.add(record)
    return found


def _record_warning(checked: CheckedRun, record: RecordCheck) -> str:
    properties: Properties = {"file": _dataset_file(checked), "title": f"{record.name}: {record.kind}"}
    reason = printable(" ".join(record.reason.split()), limit=REASON_LIMIT)
    # The command is quoted for a shell, since ids come from the dataset.
    return annotation("warning", properties, message=f"{reason}\n{shlex.join(('assay', 'show', checked.name, *record.shown_by))}")


def _dataset_file(checked: CheckedRun) -> str | None:
    """Return the dataset as the repository names it, where there is one dataset and it is below the working folder."""
    paths = {dataset.path for dataset in checked.run.plan.datasets}
    if len(paths) != 1:
        return None
    # GitHub shows an annotation in the diff only for a path of the repository.
    path = PurePath(os.path.normpath(paths.pop()))
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else None
