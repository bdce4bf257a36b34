"""conversation_v1: turns as JSON, YAML or JSONL; one conversation a file, or one on each line."""

from collections.abc import Container, Iterable, Iterator
from itertools import chain

import msgspec
from msgspec import UNSET

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case
from assay.core.issue import Finding, Issue
from assay.core.narrow_text import LARGE_BYTES
from assay.core.open_fields import FieldCounter
from assay.core.report import Outcome, RecordCounts, ValidationReport
from assay.core.strict_json import Location, ParsedDocument, parse_json, parse_json_lines
from assay.datasets.conversation_v1.fast import CleanTurn, fast_path_for
from assay.datasets.conversation_v1.rules import check_document, drop_conversation_nulls, to_case
from assay.datasets.parsing.checks import FindingList
from assay.datasets.parsing.config import Progress, ReadOptions, ValidationConfig, no_progress
from assay.datasets.parsing.formats import MAX_YAML_BYTES, parse_yaml, sniff_format
from assay.datasets.parsing.hashing import HashedJson, IndexSet, RecordHasher
from assay.datasets.parsing.issue_locator import START, IssueList, RecordContext
from assay.datasets.parsing.record_fields import turn_uses
from assay.datasets.parsing.source import BOM, LineBlock, Source, TextLine, filled_lines

__all__ = ["read"]


def read(source: Source, config: ValidationConfig, options: ReadOptions) -> ValidationReport:
    """Validate one file of turns and return the report; a record is a turn."""
    reading = _ConversationReader(config, IssueList())
    if has_conversation_lines(source):
        reading.digests = bytearray() if options.hashes else None
        for _ in reading.read_lines(source, options.progress):
            pass
    else:
        reading.read_whole(source)
    options.progress(source.size, source.size)
    return reading.report(source)


def _all_issues(source: Source, config: ValidationConfig) -> Iterator[Issue]:
    """Yield every issue of the file in order; the file is read again, and no issue is stored."""
    reading = _ConversationReader(config, IssueList(is_bounded=False))
    if has_conversation_lines(source):
        for _ in reading.read_lines(source, no_progress):
            yield from reading.issues.drain()
    else:
        reading.read_whole(source)
        yield from reading.issues.drain()


class _ConversationReader:
    """Reader of one source: checks every conversation and counts turns and errors."""

    def __init__(self, config: ValidationConfig, issues: IssueList) -> None:
        self.config = config
        self.fast_path = fast_path_for(config)
        self.issues = issues
        self.turns = 0
        self.bad_turns = 0
        self.conversations = 0
        self.rejected = IndexSet()
        self.digests: bytearray | None = None
        self.fields = FieldCounter()
        self._hasher = RecordHasher()

    def read_whole(self, source: Source) -> None:
        """Check a source that is one conversation."""
        turns = None
        # A larger file is read by the strict parser, whose memory is bounded.
        if sniff_format(source) == "json" and self.fast_path is not None and source.size <= LARGE_BYTES:
            (turns,) = self.fast_path.clean_rows([bytes(source.buffer()).removeprefix(BOM)])
        if turns is None:
            self._check(_document_to_check(source), START, conversation=None)
        else:
            self._count_fields(turns)
            self._count(len(turns))

    def read_lines(self, source: Source, progress: Progress) -> Iterator[LineBlock]:
        """Check a source with a conversation on each line, block by block."""
        done = 0
        number = 1
        for block in source.blocks():
            number += self._read_block(block, number)
            done += block.size
            progress(done, source.size)
            yield block

    def _read_block(self, block: LineBlock, number: int) -> int:
        """Check the lines of a block of which `number` is the first; returns their count."""
        # All or nothing for a block: most files are clean, and then no line is ever split off.
        taken = None if self.fast_path is None else self.fast_path.all_rows(block, hashes=self.digests is not None)
        if taken is not None:
            self.turns += sum(map(len, taken.rows))
            self._count_fields(chain.from_iterable(taken.rows))
            self.conversations += len(taken.rows)
            if self.digests is not None and self.fast_path is not None:
                self.digests += self.fast_path.digests(taken, block)
            return len(taken.rows)
        lines = block.lines(number)
        found = [None] * len(lines) if self.fast_path is None else self.fast_path.clean_rows([line.content for line in lines])
        for line, turns in zip(lines, found, strict=True):
            self._read_line(line, turns)
        return block.line_feed_count()

    def _read_line(self, line: TextLine, turns: list[CleanTurn] | None) -> None:
        if turns is None:
            self._check(line.document_to_check(), Location(line.number, 1), conversation=self.conversations)
        else:
            self._count_fields(turns)
            self._count(len(turns))
        if self.digests is not None and self.conversations - 1 not in self.rejected:
            self.digests += self._digest(line.text)

    def _digest(self, text: bytes) -> bytes:
        # A hash covers the record as it is evaluated, so nulls that count as absent are not part of it.
        if self.config.null_as_absent and drop_conversation_nulls(turns := msgspec.json.decode(text), self.config):
            return bytes.fromhex(sha256_hex(canonical_json(turns)))
        return self._hasher.digest(text)

    def _check(self, document: ParsedDocument, start: Location, *, conversation: int | None) -> None:
        turns = len(document.value) if type(document.value) is list else 0
        # A turn with several errors counts once; the contract counts turns, not issues.
        bad_turns = IndexSet()
        found = FindingList()
        for finding in check_document(document, self.config):
            found.append(finding)
            if finding.severity == "error" and turns and finding.path and isinstance(finding.path[0], int):
                bad_turns.add(finding.path[0])
        found.unlisted.update({(code, "error"): number for code, number in document.more_flaws.items()})
        if found.has_errors:
            self.rejected.add(self.conversations)
        else:
            for turn in document.value:
                self.fields.add(turn_uses(turn))
        self.bad_turns += len(bad_turns)
        self._note(found, document, start, conversation=conversation)
        self._count(turns)

    def _note(self, found: FindingList, document: ParsedDocument, start: Location, *, conversation: int | None) -> None:
        """Report the findings of one conversation; `conversation` is its number in a file of several."""
        issues, before = self.issues.issues, len(self.issues.issues)
        self.issues.note_all(found, document, lambda finding: _record(finding, document.value, start))
        for at in range(before, len(issues)):
            issue = issues[at]
            path = issue.path if conversation is None else f"[{conversation}]{issue.path}"
            turn_id = _turn_id(document.value, issue.index)
            issues[at] = msgspec.structs.replace(issue, path=path, turn_id=turn_id, conversation=conversation)

    def _count_fields(self, turns: Iterable[CleanTurn]) -> None:
        """Count the fields of clean turns that no model is sent."""
        unsent = [(turn.confidence_score, turn.metadata) for turn in turns]
        for name, values in zip(("confidence_score", "metadata"), zip(*unsent, strict=True), strict=False):
            self.fields.count(name, "not_sent", len(values) - values.count(UNSET))

    def _count(self, turns: int) -> None:
        self.turns += turns
        self.conversations += 1

    def report(self, source: Source) -> ValidationReport:
        """Build the report after everything was read."""
        outcome: Outcome = "accepted_with_record_errors" if self.rejected else "accepted"
        # Turns are the records here, but a conversation is used whole or not at all.
        is_all_bad = self.issues.dataset_errors > 0 or self.bad_turns == self.turns
        if self.rejected and len(self.rejected) == self.conversations and is_all_bad:
            outcome = "rejected"
        report = ValidationReport(
            path=source.name,
            contract="conversation_v1",
            outcome=outcome,
            counts=RecordCounts(self.turns, self.turns - self.bad_turns, self.bad_turns),
            issues=self.issues.issues,
            unlisted=self.issues.unlisted,
            broken=self.rejected,
            open_records=lambda: self._records(source),
            open_issues=lambda: _all_issues(source, self.config),
            fields=self.fields.counts(),
        )
        report.digests = None if self.digests is None else bytes(self.digests)
        return report

    def _records(self, source: Source) -> Iterator[tuple[Case, object]]:
        dataset = source.stem
        for index, (turns, record_sha256) in conversations_in(source, self.rejected):
            if self.config.null_as_absent and drop_conversation_nulls(turns, self.config):
                record_sha256 = sha256_hex(canonical_json(turns))
            yield to_case(turns, index, dataset=dataset, record_sha256=record_sha256), turns


def _record(finding: Finding, turns: object, start: Location) -> RecordContext:
    """Return the context of a finding: its turn, or the conversation."""
    position = finding.path[0] if finding.path else None
    is_turn = isinstance(position, int) and type(turns) is list and position < len(turns)
    index = position if is_turn and isinstance(position, int) else None
    turn_id = _turn_id(turns, index)
    return RecordContext(index, None if turn_id is None else str(turn_id), start=start)


def _turn_id(turns: object, index: int | None) -> int | None:
    turn = turns[index] if type(turns) is list and index is not None and index < len(turns) else None
    turn_id = turn.get("turn_id") if type(turn) is dict else None
    return turn_id if type(turn_id) is int else None


def has_conversation_lines(source: Source) -> bool:
    """Return whether the source is JSONL whose lines are arrays: each is a conversation."""
    if sniff_format(source) != "jsonl":
        return False
    first = next(filled_lines(source), None)
    # Lines of objects are the turns of one conversation, lines of arrays one conversation each.
    return first is not None and not first.content.lstrip().startswith(b"{")


def whole_document(source: Source) -> ParsedDocument:
    """Parse a source that is one conversation: JSON, YAML, or JSONL with a turn on each line."""
    shape = sniff_format(source)
    if shape == "yaml":
        # A text beyond the limit is refused for its length alone.
        return parse_yaml(source.part(0, MAX_YAML_BYTES + 1))
    document = parse_json_lines(source.buffer()) if shape == "jsonl" else parse_json(source.buffer())
    source.release()
    return document


def _document_to_check(source: Source) -> ParsedDocument:
    shape = sniff_format(source)
    return whole_document(source) if shape == "yaml" else source.document_to_check(by_line=shape == "jsonl")


def conversations_in(source: Source, rejected: Container[int]) -> Iterator[tuple[int, HashedJson]]:
    """Yield the turns of every conversation that is not rejected, with its position, read as fast as its text allows."""
    if has_conversation_lines(source):
        texts: Iterable[bytes] = (line.text for line in filled_lines(source))
    elif sniff_format(source) == "json":
        texts = [bytes(source.buffer()).removeprefix(BOM)]
    else:
        # YAML has no bytes to hash, so the hash is that of the same values in JSON.
        texts = [] if 0 in rejected else [canonical_json(whole_document(source).value)]
    hasher = RecordHasher()
    for index, text in enumerate(texts):
        if index not in rejected:
            yield index, hasher.read(text)


def documents_in(source: Source) -> Iterator[ParsedDocument]:
    """Parse every conversation of the source exactly."""
    if has_conversation_lines(source):
        yield from (parse_json(line.text, is_whole=False) for line in filled_lines(source))
    else:
        yield whole_document(source)
