"""legal_eval_v1: one row per line, streamed; a bad line does not stop the file."""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case
from assay.core.document import Place
from assay.core.issue import Issue
from assay.core.json_door import parse_json
from assay.core.report import Counts, Outcome, Report
from assay.datasets.checks import Findings, check_flaws, short
from assay.datasets.config import ValidationConfig
from assay.datasets.legal_eval_v1 import rules
from assay.datasets.legal_eval_v1.fast import clean_rows
from assay.datasets.placing import Record, placed
from assay.datasets.progress import Effort, Progress
from assay.datasets.source import Line, Source, batches, filled_lines

__all__ = ["read", "stream"]

_SPREAD = "one JSON document over several lines, but legal_eval_v1 has one object per line"


def read(source: Source, config: ValidationConfig, effort: Effort) -> Report:
    """The report on one JSONL file; cases are read again from the source when asked for."""
    reading = _Reading(config)
    issues = list(reading.issues(source, effort.progress))
    return reading.report(source, issues)


def stream(source: Source, config: ValidationConfig) -> Iterator[Case | Issue]:
    """Cases and issues in the order of the file, in constant memory apart from the ids."""
    reading = _Reading(config)
    for batch in batches(filled_lines(source)):
        index = reading.total
        issues = reading.check(batch)
        yield from issues
        for position, line in enumerate(batch):
            if index + position not in reading.rejected:
                yield _case(line, index + position)
    yield from reading.warnings()


class _Reading:
    """The rows of one file on their way to verdicts."""

    def __init__(self, config: ValidationConfig) -> None:
        self.config = config
        self.total = 0
        self.rejected: set[int] = set()
        self._first: dict[str, Place] = {}
        self._warnings: list[Issue] = []
        self._warned_rows: Counter[str] = Counter()

    def issues(self, source: Source, progress: Progress) -> Iterator[Issue]:
        """Every issue of the file."""
        spread = _spread_document(source)
        if spread is not None:
            self.total, self.rejected = 1, {0}
            yield spread
            return
        done = 0
        for batch in batches(filled_lines(source)):
            yield from self.check(batch)
            done += sum(len(line.content) for line in batch)
            progress(done, source.size)
        yield from self.warnings()
        if not self.total:
            yield Issue(
                code="empty_dataset", severity="warning", message="the file has no rows", hint="write one JSON object per line"
            )

    def check(self, batch: list[Line]) -> list[Issue]:
        """The issues of some lines; afterwards `rejected` knows which rows are bad."""
        issues: list[Issue] = []
        for line, clean in zip(batch, clean_rows([line.content for line in batch]), strict=True):
            index = self.total
            self.total += 1
            if clean is None or clean.id in self._first:
                issues += self._check_exactly(line, index)
                continue
            self._first[clean.id] = Place(line.number, index)
            if clean.warned:
                self._warn(clean.warned, line, index)
        return issues

    def _check_exactly(self, line: Line, index: int) -> list[Issue]:
        document = parse_json(line.text)
        found = Findings()
        check_flaws(found, document, ())
        row_id: str | None = None
        if document.is_readable:
            found += rules.check_row(document.value, self.config)
            row_id = _id_of(document.value)
            self._check_duplicate(found, row_id)
        if found.has_errors:
            self.rejected.add(index)
        elif row_id is not None:
            self._first[row_id] = Place(line.number, index)
        self._warn({str(finding.path[0]) for finding in found if finding.severity == "warning"}, line, index)
        record = Record(index, row_id, start=Place(line.number, 1))
        return [placed(finding, document, record) for finding in found if finding.severity == "error"]

    def _check_duplicate(self, found: Findings, row_id: str | None) -> None:
        if row_id is not None and row_id in self._first:
            first = self._first[row_id]
            message = f"id {short(row_id)} was used by row {first.column} (line {first.line})"
            found.add("duplicate_record_id", ("id",), message, hint="ids are unique in a file; keep one of the rows")

    def _warn(self, fields: Iterable[str], line: Line, index: int) -> None:
        """Odd fields tend to be odd in every row: the first place and a count say it all."""
        new = {field for field in fields if field not in self._warned_rows}
        self._warned_rows.update(fields)
        if not new:
            return
        document = parse_json(line.text)
        record = Record(index, _id_of(document.value), start=Place(line.number, 1))
        for finding in rules.check_row(document.value, self.config):
            if finding.severity == "warning" and finding.path[0] in new:
                issue = placed(finding, document, record)
                self._warnings.append(msgspec.structs.replace(issue, details={"field": finding.path[0]}))

    def warnings(self) -> Iterator[Issue]:
        """One warning for each field that is odd somewhere in the file."""
        for issue in self._warnings:
            rows = self._warned_rows[issue.details["field"]] if issue.details else 1
            counted = f"{issue.message} (and {rows - 1:,} more rows)" if rows > 1 else issue.message
            yield msgspec.structs.replace(issue, message=counted, details={"rows": rows})

    def report(self, source: Source, issues: list[Issue]) -> Report:
        accepted = self.total - len(self.rejected)
        outcome: Outcome = "accepted_with_record_errors" if self.rejected else "accepted"
        return Report(
            path=source.name,
            contract="legal_eval_v1",
            outcome="rejected" if self.rejected and not accepted else outcome,
            counts=Counts(self.total, accepted, len(self.rejected)),
            issues=issues,
            open_cases=lambda: self._cases(source),
        )

    def _cases(self, source: Source) -> Iterator[Case]:
        for index, line in enumerate(filled_lines(source)):
            if index not in self.rejected:
                yield _case(line, index)


def _case(line: Line, index: int) -> Case:
    row = msgspec.json.decode(line.content)
    return rules.to_case(row, index, record_sha256=sha256_hex(canonical_json(row)))


def _id_of(row: object) -> str | None:
    row_id = row.get("id") if type(row) is dict else None
    return row_id if type(row_id) is str else None


def _spread_document(source: Source) -> Issue | None:
    """A file that is one pretty-printed document gets one issue instead of one per line."""
    first = next(filled_lines(source), None)
    if first is None or first.content.strip() not in (b"[", b"{"):
        return None
    return Issue(
        code="invalid_json",
        message=f"the file is {_SPREAD}",
        line=first.number,
        column=1,
        hint="write it as JSON Lines, for example with: jq -c '.[]' file.json",
    )
