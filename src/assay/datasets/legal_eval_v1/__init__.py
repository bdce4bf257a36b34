"""legal_eval_v1: one row per line, streamed; a bad line does not stop the file."""

from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case
from assay.core.issue import MAX_LISTED, Issue, Severity
from assay.core.open_fields import FieldCounter
from assay.core.report import RecordCounts, ValidationReport
from assay.core.strict_json import Location
from assay.datasets.legal_eval_v1 import rules
from assay.datasets.legal_eval_v1.fast import ROW_SCHEMA, CleanRow, LegalEvalRow, clean_rows, has_rubric, warning_kinds
from assay.datasets.parsing.checks import NO_ROWS, FindingList, add_used_id, check_flaws, outcome_of
from assay.datasets.parsing.config import Progress, ReadOptions, ValidationConfig, no_progress
from assay.datasets.parsing.fast_path import FastPath
from assay.datasets.parsing.hashing import IndexSet, KeyIndex, RecordHasher
from assay.datasets.parsing.issue_locator import IssueList, RecordContext, locate_issues
from assay.datasets.parsing.record_fields import LEGAL_ROW, MAX_SENT_METADATA, drop_nulls, has_unsent_metadata, legal_uses
from assay.datasets.parsing.source import LineBlock, Source, TextLine, filled_lines

__all__ = ["read", "read_chunks", "stream"]

_EMPTY = msgspec.structs.replace(NO_ROWS, hint="write one JSON object per line")
_LINES_AT_ONCE = 5_000
_SHORT_LINE = 200
_MAX_COUNTED = 10_000
"""Short lines whose errors are stored, to be counted again."""
_SPREAD = "one JSON document over several lines, but legal_eval_v1 has one object per line"


def read(source: Source, config: ValidationConfig, options: ReadOptions) -> ValidationReport:
    """Validate one JSONL file and return the report; cases are read again from the source on demand."""
    reading = _LegalEvalReader(config, IssueList(), hashes=options.hashes, lint=options.lint)
    for _ in reading.steps(source, options.progress):
        pass
    return reading.report(source.name, lambda: source)


class RecordChunks(Protocol):
    """Records that are made in chunks, of which most are known to be clean."""

    @property
    def source(self) -> Source:
        """All records as lines."""

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of their file that were read, and bytes in all."""

    def chunks(self) -> Iterator[Any]:
        """Yield chunks with `clean`, what is known of records that need no check, and `lines`, which makes their lines."""


def read_chunks(records: RecordChunks, name: str, config: ValidationConfig, options: ReadOptions) -> ValidationReport:
    """Validate records in chunks and return the report; their lines are made when cases are read."""
    reading = _LegalEvalReader(config, IssueList(), lint=options.lint)
    for chunk in records.chunks():
        if chunk.clean is None or not reading.accept_clean(chunk.clean):
            lines = bytearray(chunk.lines())
            reading.check(LineBlock(lines, len(lines)))
        options.progress(*records.progress)
    reading.finish()
    return reading.report(name, lambda: records.source)


def stream(source: Source, config: ValidationConfig) -> Iterator[Case | Issue]:
    """Yield cases and issues in the order of the file, in constant memory apart from the ids."""
    reading = _LegalEvalReader(config, IssueList(is_bounded=False))
    hasher = RecordHasher()
    for step in reading.steps(source, no_progress):
        yield from reading.issues.drain()
        for index, line in enumerate(step.block.lines(1), step.start):
            if index not in reading.rejected:
                case, _ = _record(line, index, hasher, config)
                yield case


def _all_issues(source: Source, config: ValidationConfig) -> Iterator[Issue]:
    """Yield every issue of the file in order; the file is read again, and no issue is stored."""
    reading = _LegalEvalReader(config, IssueList(is_bounded=False))
    for _ in reading.steps(source, no_progress):
        yield from reading.issues.drain()


class CleanRows(Protocol):
    """What is known of rows that need no check."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def ids(self) -> list[str] | None:
        """Ids; None where their maker knows that they are unique."""

    @property
    def with_metadata(self) -> int:
        """Rows that have metadata."""


class _CheckedBlock(NamedTuple):
    """Consecutive lines of the file after their check."""

    block: LineBlock = LineBlock(bytearray(), 0)
    start: int = 0


class _RejectedLine(NamedTuple):
    """What a rejected line has: numbers of errors by code and severity, and kinds of warnings."""

    errors: Counter[tuple[str, Severity]]
    warned: tuple[str, ...]


class _LegalEvalReader:
    """Reader of one file: checks every row and collects issues, ids and hashes."""

    def __init__(self, config: ValidationConfig, issues: IssueList, *, hashes: bool = False, lint: bool = False) -> None:
        self.config = config
        self.issues = issues
        self.total = 0
        self.rejected = IndexSet()
        self._fast_path = FastPath(ROW_SCHEMA)
        self._hasher = RecordHasher()
        self._digests = bytearray() if hashes else None
        # Imported lazily: validation itself does not need it.
        self._linter = import_module("assay.datasets.parsing.rubric_lint").RubricLinter() if lint else None
        self._next_line = 1
        # A file may have millions of rows, and ids must be unique over all of them; a set of strings would take most of the memory.
        self._ids = KeyIndex()
        self._rows = array("I")
        self._lines = array("I")
        """Row and line of each id, by its number."""
        self._warnings: list[tuple[str, Issue]] = []
        self._warned_rows: Counter[str] = Counter()
        self._counted: dict[bytes, _RejectedLine] = {}
        """What short lines without an id have, by their text."""
        self.fields = FieldCounter()

    def steps(self, source: Source, progress: Progress) -> Iterator[_CheckedBlock]:
        """Check the whole file, block by block."""
        # An indented document would otherwise give one syntax error for each of its lines.
        spread = _spread_document(source)
        if spread is not None:
            self.total = 1
            self.rejected.add(0)
            self.issues.add(spread)
            yield _CheckedBlock()
            return
        done = 0
        for block in source.blocks():
            start = self.total
            self.check(block)
            yield _CheckedBlock(block, start)
            done += block.size
            progress(done, source.size)
        self.finish()
        yield _CheckedBlock()

    def finish(self) -> None:
        """Add the issues of the file as a whole, after its last row."""
        lints = [] if self._linter is None else self._linter.issues()
        for issue in (*self.warnings(), *([] if self.total else [_EMPTY]), *lints):
            self.issues.add(issue)

    def accept_clean(self, batch: "CleanRows") -> bool:
        """Accept rows that their maker knows to be clean; returns False where an id was used before."""
        if batch.ids is not None:
            if not self._ids.add_all(batch.ids):
                return False
            self._rows.extend(range(self.total, self.total + batch.count))
            self._lines.extend(range(self._next_line, self._next_line + batch.count))
        self.fields.count("metadata", "not_sent", batch.with_metadata)
        self.total += batch.count
        self._next_line += batch.count
        return True

    def check(self, block: LineBlock) -> None:
        """Check the lines of a block; afterwards `rejected` has the indexes of the invalid rows."""
        taken, start = self._fast_path.all_rows(block, hashes=self._digests is not None), self.total
        if taken is not None and self._accept(taken.rows):
            self._lint(dict(enumerate(taken.rows, start)), start, lambda: block.lines(self._next_line))
            self._next_line += len(taken.rows)
            if self._digests is not None:
                self._digests += self._fast_path.digests(taken, block)
            return
        lines = block.lines(self._next_line)
        self._next_line += block.line_feed_count()
        for at in range(0, len(lines), _LINES_AT_ONCE):
            self._check_lines(lines[at : at + _LINES_AT_ONCE])
        if self._digests is not None:
            accepted = [line.text for index, line in enumerate(lines, start) if index not in self.rejected]
            self._digests += b"".join(map(self._digest, accepted))

    def _check_lines(self, lines: Sequence[TextLine]) -> None:
        start = self.total
        repeated = [self._counted.get(line.content) if len(line.content) <= _SHORT_LINE else None for line in lines]
        verdicts: Iterator[CleanRow | None] = iter(
            clean_rows(self._fast_path, [line.content for line, known in zip(lines, repeated, strict=True) if known is None])
        )
        clean: dict[int, LegalEvalRow] = {}
        for index, (line, known) in enumerate(zip(lines, repeated, strict=True), start):
            if known is not None:
                self.rejected.add(index)
                self.total += 1
                continue
            verdict = next(verdicts)
            self._check_line(line, verdict)
            if verdict is not None:
                clean[index] = verdict.row
        self._count_again(line.content for line, known in zip(lines, repeated, strict=True) if known is not None)
        self._lint(clean, start, lambda: lines)

    def _digest(self, content: bytes) -> bytes:
        if self.config.null_as_absent and drop_nulls(row := msgspec.json.decode(content), LEGAL_ROW):
            return bytes.fromhex(sha256_hex(canonical_json(row)))
        return self._hasher.digest(content)

    def _lint(self, rows: dict[int, LegalEvalRow], start: int, lines: Callable[[], Sequence[TextLine]]) -> None:
        """Lint the rubrics of clean rows, by their index; `lines` gives those of their block, which begins at `start`."""
        if self._linter is not None:
            graded = {index: row for index, row in rows.items() if has_rubric(row) and index not in self.rejected}
            self._linter.lint_rows(graded, lambda index: lines()[index - start])

    def _accept(self, rows: list[LegalEvalRow]) -> bool:
        """Accept clean rows on the next lines, unless one of them needs its line."""
        ids = [row.id for row in rows]
        kinds = [kind for row in rows if row.messages is not UNSET for kind in warning_kinds(row)]
        # A first warning of its kind and a duplicate id are reported with their line, which is not split off here.
        if not self._warned_rows.keys() >= set(kinds) or not self._ids.add_all(ids):
            return False
        self._rows.extend(range(self.total, self.total + len(ids)))
        self._lines.extend(range(self._next_line, self._next_line + len(ids)))
        self._warned_rows.update(kinds)
        self._count_fields(rows)
        self.total += len(ids)
        return True

    def _check_line(self, line: TextLine, clean: CleanRow | None) -> None:
        index = self.total
        self.total += 1
        if clean is None or not self._note_id(clean.id, line, index):
            self._check_exactly(line, index)
            return
        if clean.warned:
            self._warn(clean.warned, line, index)
        if clean.uses:
            self.fields.add(clean.uses)
        else:
            self._count_fields([clean.row])

    def _count_fields(self, rows: list[LegalEvalRow]) -> None:
        """Count the fields of clean rows that no model is sent; clean rows have no unknown member."""
        metadata = [row.metadata for row in rows if row.metadata is not UNSET]
        unsent = [1 for members in metadata if len(members) > MAX_SENT_METADATA or has_unsent_metadata(members)]
        self.fields.count("metadata", "not_sent", len(unsent))
        enclosed = [row.attachments for row in rows if row.attachments is not UNSET]
        kinds = [1 for attachments in enclosed if any(item.kind is not UNSET for item in attachments)]
        self.fields.count("attachments[].kind", "not_sent", len(kinds))

    def _count_again(self, contents: Iterable[bytes]) -> None:
        """Count the issues of lines that say the same as a rejected one before them."""
        for content, times in Counter(contents).items():
            known = self._counted[content]
            self.issues.count({kind: number * times for kind, number in known.errors.items()})
            for kind in known.warned:
                if kind in self._warned_rows:
                    self._warned_rows[kind] += times
                else:
                    self.issues.count({(kind.partition(".")[0], "warning"): times})

    def _check_exactly(self, line: TextLine, index: int) -> None:
        document = line.document_to_check()
        found = FindingList()
        row_id: str | None = None
        if document.is_readable:
            # A number that was not read takes a finding back, which must be known for that.
            lists_errors = bool(document.flaws) or self.issues.lists_errors
            found = rules.check_row(document.value, self.config, lists_errors=lists_errors)
            row_id = _id_of(document.value)
            self._check_duplicate(found, row_id)
        check_flaws(found, document, ())
        if found.has_errors:
            self.rejected.add(index)
        elif row_id is not None:
            self._note_id(row_id, line, index)
            self.fields.add(legal_uses(document.value))
            if self._linter is not None and document.value["task_type"] == "rubric_qa":
                # As it was checked: nulls that count as absent are gone.
                self._linter.lint_row(index, line, row=document.value)
        warned = tuple({rules.warning_kind(finding) for finding in found if finding.severity == "warning"})
        if warned:
            self._warn(warned, line, index)
            # Warnings are reported once per kind and file, and not with their rows.
            found.discard(lambda finding: finding.severity == "warning")
        self._remember(line, row_id, found, warned)
        self.issues.note(found, document, RecordContext(index, row_id, start=Location(line.number, 1)))

    def _remember(self, line: TextLine, row_id: str | None, found: FindingList, warned: tuple[str, ...]) -> None:
        """Store what a short line without an id has, once errors are only counted: such lines repeat by the million."""
        if not found.has_errors or row_id is not None or len(line.content) > _SHORT_LINE:
            return
        if len(self._counted) < _MAX_COUNTED and not self.issues.lists_errors:
            counted = Counter((finding.code, finding.severity) for finding in found)
            counted.update(found.unlisted)
            self._counted[bytes(line.content)] = _RejectedLine(counted, warned)

    def _note_id(self, row_id: str, line: TextLine, index: int) -> bool:
        """Store the first use of an id; returns False if it was used before."""
        is_new = self._ids.add(row_id)
        if is_new:
            self._rows.append(index)
            self._lines.append(line.number)
        return is_new

    def _check_duplicate(self, found: FindingList, row_id: str | None) -> None:
        first = None if row_id is None else self._ids.find(row_id)
        if row_id is not None and first is not None:
            add_used_id(found, row_id, ("id",), first=f"row {self._rows[first]} (line {self._lines[first]})")

    def _warn(self, kinds: Iterable[str], line: TextLine, index: int) -> None:
        """Report each kind of warning once with a count: what is odd in one row tends to be odd in every row."""
        new: set[str] = set()
        # The number of kinds is bounded too: a dataset may have another unknown field in every row.
        for kind in kinds:
            if kind not in self._warned_rows and len(self._warned_rows) >= MAX_LISTED:
                self.issues.unlisted[kind.partition(".")[0], "warning"] += 1
                continue
            new |= {kind} if kind not in self._warned_rows else set()
            self._warned_rows[kind] += 1
        if not new:
            return
        document = line.document_to_check()
        record = RecordContext(index, _id_of(document.value), start=Location(line.number, 1))
        found = rules.check_row(document.value, self.config)
        named = {
            kind: finding for finding in found if finding.severity == "warning" and (kind := rules.warning_kind(finding)) in new
        }
        issues = locate_issues(list(named.values()), document, lambda _: record, hints=self.issues.hints)
        self._warnings += zip(named, issues, strict=True)

    def warnings(self) -> Iterator[Issue]:
        """Yield one warning for each kind in the file."""
        for kind, issue in self._warnings:
            rows = self._warned_rows[kind]
            counted = f"{issue.message} (and {rows - 1:,} more rows)" if rows > 1 else issue.message
            yield msgspec.structs.replace(issue, message=counted, details={"rows": rows})

    def report(self, name: str, open_source: Callable[[], Source]) -> ValidationReport:
        """Build the report after every line was read."""
        # The report keeps what its cases need, not what reading them for the first time took.
        total, rejected, config = self.total, self.rejected, self.config
        counts = RecordCounts(total, total - len(rejected), len(rejected))
        report = ValidationReport(
            path=name,
            contract="legal_eval_v1",
            outcome=outcome_of(counts),
            counts=counts,
            issues=self.issues.issues,
            unlisted=self.issues.unlisted,
            broken=rejected,
            open_records=lambda: _records(open_source(), total, rejected, config),
            open_rejected=lambda: _rejected(open_source(), rejected),
            open_issues=lambda: _all_issues(open_source(), config),
            fields=self.fields.counts(),
        )
        # Computed while the rows were in memory, so that a run need not decode the file a second time for its hashes.
        report.digests = None if self._digests is None else bytes(self._digests)
        return report


def _rejected(source: Source, rejected: Container[int]) -> Iterator[tuple[int, bytes]]:
    return ((index, line.text) for index, line in enumerate(filled_lines(source)) if index in rejected)


def _records(source: Source, total: int, rejected: Container[int], config: ValidationConfig) -> Iterator[tuple[Case, object]]:
    hasher = RecordHasher()
    for index, line in enumerate(islice(filled_lines(source), total)):
        if index not in rejected:
            yield _record(line, index, hasher, config)


def _record(line: TextLine, index: int, hasher: RecordHasher, config: ValidationConfig) -> tuple[Case, object]:
    row, record_sha256 = hasher.read(line.content)
    if config.null_as_absent and drop_nulls(row, LEGAL_ROW):
        record_sha256 = sha256_hex(canonical_json(row))
    return rules.to_case(row, index, record_sha256=record_sha256), row


def _id_of(row: object) -> str | None:
    row_id = row.get("id") if type(row) is dict else None
    return row_id if type(row_id) is str else None


def _spread_document(source: Source) -> Issue | None:
    """Return one issue for a file that is one pretty-printed document, instead of one per line."""
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
