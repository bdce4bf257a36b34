"""conversation_v1: turns as JSON, YAML or JSONL; one conversation a file, or one on each line."""

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.core.case import Case
from assay.core.document import Document, Place
from assay.core.issue import Finding, Issue
from assay.core.json_door import parse_json
from assay.core.report import Counts, Outcome, Report
from assay.datasets.config import ValidationConfig
from assay.datasets.conversation_v1.fast import lane_for
from assay.datasets.conversation_v1.rules import check_document, to_case
from assay.datasets.conversation_v1.texts import conversations_in, has_conversation_lines, whole_document
from assay.datasets.formats import sniff_format
from assay.datasets.hashing import Hasher
from assay.datasets.placing import START, Record, placed
from assay.datasets.progress import Effort, Progress
from assay.datasets.source import BOM, Block, Line, Source

__all__ = ["read"]


def read(source: Source, config: ValidationConfig, effort: Effort) -> Report:
    """The report on one file of turns; a record is a turn."""
    reading = _Reading(config)
    if has_conversation_lines(source):
        reading.digests = bytearray() if effort.hashes else None
        reading.read_lines(source, effort.progress)
    else:
        reading.read_whole(source)
    effort.progress(source.size, source.size)
    return reading.report(source)


class _Reading:
    """The conversations of one source on their way to verdicts."""

    def __init__(self, config: ValidationConfig) -> None:
        self.config = config
        self.lane = lane_for(config)
        self.issues: list[Issue] = []
        self.turns = 0
        self.bad_turns = 0
        self.conversations = 0
        self.rejected: set[int] = set()
        self.digests: bytearray | None = None
        self._hasher = Hasher()

    def read_whole(self, source: Source) -> None:
        """A source that is one conversation."""
        turns = None
        if sniff_format(source) == "json" and self.lane is not None:
            (turns,) = self.lane.clean_rows([bytes(source.buffer()).removeprefix(BOM)])
        if turns is None:
            self._check(whole_document(source), START, conversation=None)
        else:
            self._count(len(turns))

    def read_lines(self, source: Source, progress: Progress) -> None:
        """A source with a conversation on each line."""
        done = 0
        number = 1
        for block in source.blocks():
            number += self._read_block(block, number)
            done += block.size
            progress(done, source.size)

    def _read_block(self, block: Block, number: int) -> int:
        """Judges the lines of a block of which `number` is the first, and tells how many there are."""
        taken = None if self.lane is None else self.lane.all_rows(block, hashes=self.digests is not None)
        if taken is not None:
            self.turns += sum(map(len, taken.rows))
            self.conversations += len(taken.rows)
            if self.digests is not None and self.lane is not None:
                self.digests += self.lane.digests(taken, block)
            return len(taken.rows)
        lines = block.lines(number)
        found = [None] * len(lines) if self.lane is None else self.lane.clean_rows([line.content for line in lines])
        for line, turns in zip(lines, found, strict=True):
            self._read_line(line, turns)
        return block.feeds()

    def _read_line(self, line: Line, turns: list[Any] | None) -> None:
        if turns is None:
            self._check(parse_json(line.text, is_whole=False), Place(line.number, 1), conversation=self.conversations)
        else:
            self._count(len(turns))
        if self.digests is not None and self.conversations - 1 not in self.rejected:
            self.digests += self._hasher.digest(line.text)

    def _check(self, document: Document, start: Place, *, conversation: int | None) -> None:
        found = list(check_document(document, self.config))
        self.issues += [_issue(item, document, start, conversation=conversation) for item in found]
        errors = [item for item in found if item.severity == "error"]
        if errors:
            self.rejected.add(self.conversations)
        turns = len(document.value) if type(document.value) is list else 0
        self.bad_turns += len({item.path[0] for item in errors if item.path}) if turns else 0
        self._count(turns)

    def _count(self, turns: int) -> None:
        self.turns += turns
        self.conversations += 1

    def report(self, source: Source) -> Report:
        """The verdict, once everything was read."""
        outcome: Outcome = "accepted_with_record_errors" if self.rejected else "accepted"
        has_dataset_error = any(issue.index is None and issue.severity == "error" for issue in self.issues)
        if self.rejected and len(self.rejected) == self.conversations and (has_dataset_error or self.bad_turns == self.turns):
            outcome = "rejected"
        report = Report(
            path=source.name,
            contract="conversation_v1",
            outcome=outcome,
            counts=Counts(self.turns, self.turns - self.bad_turns, self.bad_turns),
            issues=self.issues,
            open_records=lambda: self._records(source),
        )
        report.digests = None if self.digests is None else bytes(self.digests)
        return report

    def _records(self, source: Source) -> Iterator[tuple[Case, Any]]:
        dataset = source.stem
        for index, conversation in conversations_in(source, self.rejected):
            yield to_case(conversation.turns, index, dataset=dataset, record_sha256=conversation.record_sha256), conversation.turns


def _issue(item: Finding, document: Document, start: Place, *, conversation: int | None) -> Issue:
    """`conversation` tells which one of many it is."""
    position = item.path[0] if item.path else None
    is_turn = isinstance(position, int) and type(document.value) is list and position < len(document.value)
    index = position if is_turn and isinstance(position, int) else None
    turn_id = _turn_id(document.value, index)
    issue = placed(item, document, Record(index, None if turn_id is None else str(turn_id), start=start))
    path = issue.path if conversation is None else f"[{conversation}]{issue.path}"
    return msgspec.structs.replace(issue, path=path, turn_id=turn_id, conversation=conversation)


def _turn_id(turns: Any, index: int | None) -> int | None:
    turn = turns[index] if type(turns) is list and index is not None and index < len(turns) else None
    turn_id = turn.get("turn_id") if type(turn) is dict else None
    return turn_id if type(turn_id) is int else None
