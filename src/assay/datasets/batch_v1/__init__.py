"""batch_v1: one JSON document with up to 50,000 records, read at parser speed with every problem named."""

from array import array
from collections.abc import Iterator, Mapping
from itertools import chain, islice

import msgspec

from assay.core.canonical import sha256_hex
from assay.core.case import Case
from assay.core.issue import Finding, Issue, Path, path_text
from assay.core.narrow_text import first_not_utf8
from assay.core.open_fields import FieldCounter
from assay.core.report import Outcome, RecordCounts, ValidationReport
from assay.core.strict_json import ParsedDocument, parse_json
from assay.datasets.batch_v1 import rules
from assay.datasets.batch_v1.fast import CleanRecord, clean_in_parallel
from assay.datasets.batch_v1.split import INVALID_REQUEST, PAYLOAD_TOO_LARGE, SplitDocument
from assay.datasets.parsing.checks import FindingList, check_flaws
from assay.datasets.parsing.config import DEFAULT_READ_OPTIONS, ReadOptions, ValidationConfig
from assay.datasets.parsing.hashing import IndexSet
from assay.datasets.parsing.issue_locator import IssueList, RecordContext, locate_issue
from assay.datasets.parsing.record_fields import BATCH_RECORD, batch_uses, drop_nulls
from assay.datasets.parsing.scan import LocationCursor
from assay.datasets.parsing.source import Source

__all__ = ["read"]

# Compact JSON is at most six times shorter than any other spelling: `\u0061` is `a`. Eight times the limit never fits.
_LARGEST_EXACT = 8 * rules.MAX_RECORD_BYTES
_BATCHES_AT_ONCE = 16
"""Batches per turn: the fast path and the exact rules evict each other from the processor's cache, so they alternate rarely."""
# Indentation is not part of the compact form, on which the contract's limit is.
_WHITE_SPACE = b" \t\r\n"


_SURELY_TOO_LONG = rules.MAX_TEXT * 12 * 4
"""Bytes of a string beyond its limit however it is written: 12 for an escaped character, 4 characters at most become one in NFC."""


class _RecordFields(msgspec.Struct):
    """Members that are searched in a record which is too large to be read as a whole."""

    record_id: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    reference: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()
    answer: msgspec.Raw = msgspec.Raw()


def read(source: Source, config: ValidationConfig, options: ReadOptions) -> ValidationReport:
    """Validate one dataset document and return the report."""
    # Before anything is read: the contract answers 413 to such a payload, and no run is created.
    if source.size > rules.MAX_PAYLOAD_BYTES:
        return _too_large(source)
    reading = _BatchReader(source, config, IssueList())
    for _ in reading.check_records(options):
        pass
    return reading.report(source)


def _all_issues(source: Source, config: ValidationConfig) -> Iterator[Issue]:
    """Yield every issue of the document in order; the document is read again, and no issue is stored."""
    reading = _BatchReader(source, config, IssueList(is_bounded=False))
    for _ in reading.check_records(DEFAULT_READ_OPTIONS, at_once=1):
        yield from reading.issues.drain()


def _too_large(source: Source) -> ValidationReport:
    issue = Issue(
        code="payload_too_large",
        message=f"the payload has {source.size:,} bytes; the limit is {rules.MAX_PAYLOAD_BYTES:,}",
        hint="split the dataset into several files",
        details=PAYLOAD_TOO_LARGE,
    )
    return ValidationReport(path=source.name, contract="batch_v1", outcome="rejected", counts=RecordCounts(), issues=[issue])


class _BatchReader:
    """Reader of one document: checks every record and collects issues, hashes and accepted indexes."""

    def __init__(self, source: Source, config: ValidationConfig, issues: IssueList) -> None:
        self.split = SplitDocument(source.buffer(), config, issues)
        self.config = config
        self.issues = issues
        self.first_index: dict[str, int] = {}
        # Machine integers and one string of bytes: for 50,000 small records, objects would outweigh the document.
        self.accepted = array("I")
        self.digests = bytearray()
        self.unnormalized: set[int] = set()
        self.fields = FieldCounter()
        self.cursor = LocationCursor(self.split.buffer)

    def check_records(self, options: ReadOptions, *, at_once: int = _BATCHES_AT_ONCE) -> Iterator[int]:
        """Check every record, clean ones on the fast path, the others by the exact rules; yields the number of checked records."""
        index = 0
        if len(self.split.records) > rules.MAX_RECORDS:
            return
        yield index
        first_index, accepted, records = self.first_index, self.accepted, self.split.records
        # Their bytes were changed for msgspec, so the fast path must not judge what it finds there.
        suspects = self.split.patched_records()
        batches = clean_in_parallel(records, suspects=suspects, workers=options.workers)
        while some := list(islice(batches, at_once)):
            for verdict in chain.from_iterable(some):
                if verdict is None:
                    self._check_exactly(index)
                # Only accepted records reserve their id: an invalid record must not take a later valid one with it.
                elif verdict.record_id in first_index:
                    self._report_duplicate(index, verdict)
                else:
                    first_index[verdict.record_id] = index
                    accepted.append(index)
                    self.digests += verdict.digest
                    if verdict.uses:
                        self.fields.add(verdict.uses)
                index += 1
            options.progress(self.split.offset(records[index - 1]), len(self.split.buffer))
            yield index
        self.split.restore()

    def _accept(self, index: int, record_id: str, digest: bytes) -> None:
        self.first_index[record_id] = index
        self.accepted.append(index)
        self.digests += digest

    def _report_duplicate(self, index: int, verdict: CleanRecord) -> None:
        document = self._parsed(index)
        found = FindingList()
        found.append(self._duplicate(index, verdict.record_id))
        self._note(index, verdict.record_id, document, found)

    def _duplicate(self, index: int, record_id: str) -> Finding:
        first = self.first_index[record_id]
        # An id with half a surrogate pair cannot be written to a report or a terminal.
        message = f"record_id {record_id!r} was used by records[{first}]".encode("utf-8", "replace").decode()
        return Finding("duplicate_record_id", ("records", index, "record_id"), message, "give every record an id of its own")

    def _parsed(self, index: int) -> ParsedDocument:
        # The original bytes, without the patches for msgspec: an issue has to show what the file says.
        raw = self.split.records[index]
        return parse_json(self.split.original(self.split.offset(raw), len(memoryview(raw))), max_bytes=rules.MAX_VALUE_BYTES)

    def _check_exactly(self, index: int) -> None:
        path: Path = ("records", index)
        # The record may be 100 MB. Parsing it would take several times that, and could only confirm that it is too large.
        if self._is_surely_too_large(index):
            self._note_huge(index, path)
            return
        document = self._parsed(index)
        if not document.is_readable:
            self._note_unreadable(index, path, document)
            return
        if self.config.null_as_absent:
            drop_nulls(document.value, BATCH_RECORD)
        record = rules.CheckedRecord(document.value, path, self.config, text=document.text)
        check_flaws(record.found, document, path)
        if record.record_id in self.first_index:
            record.found.append(self._duplicate(index, record.record_id or ""))
        if record.found:
            self._note(index, record.record_id, document, record.found)
        # The fast path refuses some clean records, such as one with `1e5`; they are accepted here, with the same hash.
        if not record.found.has_errors:
            if not record.is_normalized:
                self.unnormalized.add(index)
            self.fields.add(batch_uses(record.value))
            self._accept(index, record.record_id or "", bytes.fromhex(sha256_hex(record.canonical)))

    def _is_surely_too_large(self, index: int) -> bool:
        """Return whether a record is too large however it is written: no spelling shrinks by more than a factor of six."""
        raw = self.split.records[index]
        if len(memoryview(raw)) <= _LARGEST_EXACT:
            return False
        view = memoryview(raw)
        # In blocks, since translate() copies what it is given.
        blocks = (bytes(view[at : at + _LARGEST_EXACT]) for at in range(0, len(view), _LARGEST_EXACT))
        return sum(len(block.translate(None, _WHITE_SPACE)) for block in blocks) > _LARGEST_EXACT

    def _note_huge(self, index: int, path: Path) -> None:
        raw = self.split.records[index]
        bad_byte = first_not_utf8(memoryview(raw))
        if bad_byte is not None:
            self._note_not_utf8(index, path, bad_byte)
            return
        size = len(memoryview(raw))
        message = f"the record has {size:,} bytes; the limit is {rules.MAX_RECORD_BYTES:,} as compact JSON"
        too_large = Finding("record_too_large", path, message, "shorten texts or move attachments out of the record")
        # Not parsed, since it may be 100 MB; its first characters are enough for the excerpt.
        document = ParsedDocument(None, bytes(memoryview(raw)[:200]).decode("utf-8", "replace"), {}, ())
        members = _members(raw)
        found = FindingList()
        found += [*_long_texts(members, path), too_large]
        self._note(index, _id_of(members), document, found)

    def _note_not_utf8(self, index: int, path: Path, offset: int) -> None:
        place = self.cursor.place(self.split.offset(self.split.records[index]) + offset)
        message = f"byte {offset:,} of the record is not UTF-8"
        self.issues.add(
            Issue(
                code="invalid_encoding",
                message=message,
                path=path_text(path),
                line=place.line,
                column=place.column,
                details=INVALID_REQUEST,
            )
        )

    def _note_unreadable(self, index: int, path: Path, document: ParsedDocument) -> None:
        """Report an unreadable record: one that is too deep or too large fails alone, bad bytes reject the whole payload."""
        flaw = next(flaw for flaw in document.flaws if flaw.fatal)
        code = "value_out_of_range" if flaw.kind == "too_deep" else flaw.code
        if flaw.kind == "too_many_values":
            # Values that fill the memory for one document do not fit into a record of 256 KB either.
            code = "record_too_large"
        finding = Finding(code, path, flaw.message, flaw.hint, offset=flaw.offset)
        if code != flaw.code:
            found = FindingList()
            found.append(finding)
            self._note(index, _id_of(_members(self.split.records[index])), document, found)
            return
        # Bad JSON inside a record is bad JSON of the document, which the contract rejects as a whole.
        issue = locate_issue(finding, document, self._record(index, None))
        self.issues.add(msgspec.structs.replace(issue, index=None, details=INVALID_REQUEST))

    def _note(self, index: int, record_id: str | None, document: ParsedDocument, found: FindingList) -> None:
        self.issues.note(found, document, self._record(index, record_id))

    def _record(self, index: int, record_id: str | None) -> RecordContext:
        start = self.cursor.place(self.split.offset(self.split.records[index]))
        return RecordContext(index, record_id, ("records", index), start)

    def report(self, source: Source) -> ValidationReport:
        """Build the report after every record was checked."""
        config = self.config
        total = len(self.split.records)
        accepted = len(self.accepted)
        is_rejected = self.issues.dataset_errors > 0
        issues = self.issues.issues
        # The contract has an error of its own for this case, with the numbers of rejected and accepted records.
        if total and not accepted and not is_rejected:
            issues.insert(0, _all_failed(total))
            is_rejected = True
        outcome: Outcome = "accepted" if accepted == total else "accepted_with_record_errors"
        report = ValidationReport(
            path=source.name,
            contract="batch_v1",
            outcome="rejected" if is_rejected else outcome,
            counts=RecordCounts(total, accepted, total - accepted),
            issues=issues,
            unlisted=self.issues.unlisted,
            dataset_error_count=self.issues.dataset_errors,
            broken=self._rejected_indexes(),
            # The cases are decoded again on demand: kept, they would take several times the memory of the document.
            open_records=(lambda: iter(())) if is_rejected else self._records,
            open_rejected=self._rejected,
            open_issues=lambda: _all_issues(source, config),
            fields={} if is_rejected else self.fields.counts(),
            open_head=self._head,
        )
        # A run keeps the report to the end, and many of them: what only the checks needed goes now.
        self.first_index.clear()
        return report

    def _head(self) -> Mapping[str, object]:
        head: Mapping[str, object] = rules.NormalizedRecord(FindingList(), self.split.read_head(), ()).value
        return head

    def _rejected(self) -> Iterator[tuple[int, bytes]]:
        accepted = frozenset(self.accepted)
        return ((index, bytes(raw)) for index, raw in enumerate(self.split.records) if index not in accepted)

    def _rejected_indexes(self) -> IndexSet:
        accepted = set(self.accepted)
        rejected = IndexSet()
        for index in range(len(self.split.records)):
            if index not in accepted:
                rejected.add(index)
        return rejected

    def _records(self) -> Iterator[tuple[Case, object]]:
        dataset = self.split.dataset_id
        for position, index in enumerate(self.accepted):
            record = msgspec.json.decode(self.split.records[index])
            if self.config.null_as_absent:
                drop_nulls(record, BATCH_RECORD)
            # Hashes and prompts are those of the normalized text; nearly all records are normalized already.
            if index in self.unnormalized:
                record = rules.CheckedRecord(record, ("records", index), self.config).value
            digest = bytes(self.digests[32 * position : 32 * position + 32])
            yield rules.to_case(record, index, dataset=dataset, record_sha256=digest.hex()), record


def _members(raw: msgspec.Raw) -> _RecordFields:
    try:
        return msgspec.json.decode(raw, type=_RecordFields)
    except msgspec.DecodeError:
        return _RecordFields()


def _id_of(members: _RecordFields) -> str | None:
    return msgspec.json.decode(members.record_id, type=str) if _is_string(members.record_id) else None


def _long_texts(members: _RecordFields, path: Path) -> Iterator[Finding]:
    """Yield a finding for prompt and answer, if one alone is too long."""
    texts = {("input", "prompt"): _members(members.input).prompt, ("reference", "answer"): _members(members.reference).answer}
    for name, text in texts.items():
        if _is_too_long(text):
            yield Finding("string_too_long", (*path, *name), f"{path_text(name)} has more than {rules.MAX_TEXT:,} characters")


def _is_too_long(text: msgspec.Raw) -> bool:
    if not _is_string(text) or len(memoryview(text)) > _SURELY_TOO_LONG:
        return _is_string(text)
    normal = rules.NormalizedRecord(FindingList(), msgspec.json.decode(text, type=str), ()).value
    return len(normal) > rules.MAX_TEXT


def _is_string(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b'"'


def _all_failed(total: int) -> Issue:
    return Issue(
        code="all_records_invalid",
        message="All records failed validation",
        path="records",
        hint="see the record errors; fix one and run again",
        details={**INVALID_REQUEST, "details": {"rejected_records": total, "accepted_records": 0}},
    )
