"""Items between a source and a dataset or runs, stored on disk: memory holds only their ids and offsets."""

import io
import tempfile
import weakref
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from math import inf
from typing import BinaryIO

import msgspec

from assay.datasets.converters.report import ConversionCounts
from assay.datasets.imports.items import ImportedItem, ImportedQuestion, ImportSource
from assay.datasets.parsing.hashing import KeyIndex

_encode = msgspec.json.Encoder().encode
_decode_question = msgspec.json.Decoder(ImportedQuestion).decode
_decode_item = msgspec.json.Decoder(ImportedItem).decode
_DIGEST_BYTES = 16
MAX_SAMPLES = 1_000
"""Maximum answers of one candidate to a record, the maximum of `--repeat`: a run has room for that many per record."""


class AnswerOffsets:
    """Offsets of one candidate's answers."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], int] = {}
        self.answered = 0
        """Number of answers without an error."""

    def put(self, record: int, sample: int, *, place: int) -> None:
        """Store the offset of an answer."""
        self._places[record, sample] = place

    def __len__(self) -> int:
        return len(self._places)

    @property
    def repeat(self) -> int:
        """Maximum number of answers to one record."""
        return 1 + max((sample for _, sample in self._places), default=0)

    def places(self) -> list[int]:
        """Return the offsets of all answers, in reading order."""
        return sorted(self._places.values())

    def place(self, record: int, sample: int) -> int | None:
        """Return the offset of an answer; None if there is none."""
        return self._places.get((record, sample))


class ScoreStats:
    """Values of one scorer."""

    def __init__(self) -> None:
        self.scored = 0
        self.unscored = 0
        self.low = inf
        self.high = -inf
        self.is_binary = True

    @property
    def is_share(self) -> bool:
        """Return whether all values are from 0 to 1."""
        return self.low >= 0 and self.high <= 1

    def add(self, value: float | None) -> None:
        """Add one value; None for one that the scorer did not give."""
        if value is None:
            self.unscored += 1
            return
        self.scored += 1
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.is_binary = self.is_binary and value in (0.0, 1.0)


class ImportBuffer:
    """Questions in the order of their first appearance, and the answers of each candidate."""

    def __init__(self) -> None:
        self.candidates: dict[str, AnswerOffsets] = {}
        self.scorers: dict[str, ScoreStats] = {}
        """Values of each scorer, in the order in which they were met."""
        self._ids = KeyIndex()
        self._digests = bytearray()
        self._metadata_digests = bytearray()
        self._first: list[ImportSource] = []
        self._origins = array("I")
        self._uses = array("I")
        # Logs of other tools reach gigabytes. Items are kept on disk, and memory holds a digest and an offset for each.
        self._questions: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the intake
        self._items: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the intake
        for spool in (self._questions, self._items):
            weakref.finalize(self, spool.close)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, item: ImportedItem, source: ImportSource, line: int) -> None:
        """Store an item, or report in the counts of its source why not."""
        if item.sample >= MAX_SAMPLES:
            source.tally.refuse(f"it is answer {item.sample + 1:,} to its record, and a run has at most {MAX_SAMPLES:,}", line=line)
            return
        known = len(self._ids)
        record = self._record(item.question, source, line)
        if record is None:
            return
        if not self._kept(item, record) if item.candidate else record < known:
            what = (
                f"there is an earlier answer of {item.candidate!r} to this record"
                if item.candidate
                else "the same question came before"
            )
            source.tally.skip(what, line=line, record_id=item.question.id)
            return
        source.tally.emitted += 1
        self._uses[record] += 1

    def _kept(self, item: ImportedItem, record: int) -> bool:
        answers = self.candidates.setdefault(item.candidate, AnswerOffsets())
        earlier = answers.place(record, item.sample)
        merged = item if earlier is None else _merged(self.item(earlier), item)
        if merged is None:
            return False
        answers.answered += earlier is None and item.answer is not None and not item.error_code
        # Appended, also when merged: the earlier line stays unused in the temporary file.
        answers.put(record, item.sample, place=self._items.seek(0, io.SEEK_END))
        self._items.write(_encode(merged) + b"\n")
        for mark in item.marks:
            self.scorers.setdefault(mark.scorer, ScoreStats()).add(None if item.error_code else mark.value)
        return True

    def _record(self, question: ImportedQuestion, source: ImportSource, line: int) -> int | None:
        """Return the number of a question; None if its id belongs to another question."""
        text = _encode(question)
        # Most datasets are called like the file that they came in: another name does not make it another question, and neither
        # does what is only noted about it.
        asked = msgspec.structs.replace(question, dataset="", metadata={})
        digest, noted = (blake2b(_encode(one), digest_size=_DIGEST_BYTES).digest() for one in (asked, question.metadata))
        if self._ids.add(question.id):
            self._digests += digest
            self._metadata_digests += noted
            self._questions.write(text + b"\n")
            self._origins.append(self._origin(source))
            self._uses.append(0)
            return len(self._ids) - 1
        record = self._ids.find(question.id) or 0
        place = slice(record * _DIGEST_BYTES, (record + 1) * _DIGEST_BYTES)
        if self._digests[place] == digest:
            if self._metadata_digests[place] != noted:
                reason = "the same question came before with other metadata, which is kept"
                source.tally.note("dropped", reason, record_id=question.id, path="metadata")
            return record
        source.tally.skip("the id was given to another question before", line=line, record_id=question.id)
        return None

    def _origin(self, source: ImportSource) -> int:
        if not self._first or self._first[-1] is not source:
            self._first.append(source)
        return len(self._first) - 1

    def questions(self) -> Iterator[ImportedQuestion]:
        """Iterate over all questions in order."""
        self._questions.flush()
        self._questions.seek(0)
        return map(_decode_question, self._questions)

    def origin(self, record: int) -> ConversionCounts:
        """Return the counts of the source that had a question first."""
        return self._first[self._origins[record]].tally

    def uses(self, record: int) -> int:
        """Return the number of items of a question."""
        return self._uses[record]

    def items(self, candidate: str) -> Iterator[ImportedItem]:
        """Iterate over all items of a candidate, in reading order."""
        return map(self.item, self.candidates[candidate].places())

    def all_items(self) -> Iterator[ImportedItem]:
        """Iterate over all items, candidate by candidate."""
        return (item for name in self.candidates for item in self.items(name))

    def item(self, place: int) -> ImportedItem:
        """Read the item at an offset."""
        self._items.seek(place)
        return _decode_item(self._items.readline())


def _merged(earlier: ImportedItem, item: ImportedItem) -> ImportedItem | None:
    """Merge the scores of other scorers into an answer; None for another answer, or for the same scorers."""
    known = {mark.scorer for mark in earlier.marks}
    # Tools write one line per scorer: the same answer with another scorer is the same item, anything else a repetition.
    if not item.marks or not known.isdisjoint(mark.scorer for mark in item.marks) or earlier.answer != item.answer:
        return None
    return msgspec.structs.replace(earlier, marks=(*earlier.marks, *item.marks))
