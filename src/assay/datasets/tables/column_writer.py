"""Fast path of tables of texts: batches of rows whose cells need no thought are written column by column.

The records are those that RecordBuilder makes of the same rows; a batch in which a cell is blank, holds a list or names a choice in
another way than by its letter goes there.
"""

import zlib
from array import array
from binascii import hexlify
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np

from assay.core.settings import ColumnSection
from assay.datasets.converters.rows import choice_id
from assay.datasets.tables.column_names import folded
from assay.datasets.tables.table_rows import METADATA_NAMES, is_blank, listed_columns

TextColumns = Mapping[str, Sequence[str]]
"""Cells of some rows by their columns, all of them texts."""
_encode = msgspec.json.Encoder().encode
_BETWEEN = b'","'
_MAX_FEW = 4_096
"""Numbers that were added one by one before they become a run."""
_first = itemgetter(0)


class CleanBatch(msgspec.Struct, frozen=True):
    """Rows of a batch that are records as they are."""

    count: int
    ids: list[str] | None
    """Ids of the records; None where they are made of the questions."""
    with_metadata: int


class RecordIds:
    """Ids that are made of questions; with `is_exact` one that another record has already gets a number.

    Without it ids are made first, and looked through at the end: few tables have a question twice, and those are read once more.
    """

    def __init__(self, *, is_exact: bool = True) -> None:
        self._used = _NumberSet() if is_exact else None
        self._made = array("Q")
        self._repeated: dict[int, int] = {}

    def of(self, text: bytes) -> str:
        """Return the id for the text of a question."""
        return self._free(zlib.crc32(text) << 32 | zlib.adler32(text))

    def of_all(self, texts: Sequence[bytes]) -> list[bytes]:
        """Return the ids for the texts of several questions."""
        numbers = np.empty((len(texts), 2), ">u4")
        numbers[:, 0] = np.fromiter(map(zlib.crc32, texts), np.uint32, len(texts))
        numbers[:, 1] = np.fromiter(map(zlib.adler32, texts), np.uint32, len(texts))
        whole = numbers.view(">u8")[:, 0].astype(np.uint64)
        if self._used is None:
            self._made.frombytes(whole.tobytes())
        elif not self._used.add_all(whole):
            return [self._free(number).encode() for number in whole.tolist()]
        digits = b"q-" + hexlify(numbers.tobytes(), b"-", 8).replace(b"-", b"q-")
        return [digits[at : at + 18] for at in range(0, len(digits), 18)]

    def are_unique(self) -> bool:
        """Return whether no two of the ids that were made are the same."""
        made = np.sort(np.frombuffer(self._made, np.uint64))
        return not bool((made[1:] == made[:-1]).any())

    def _free(self, number: int) -> str:
        name = f"q-{number:016x}"
        if self._used is None:
            self._made.append(number)
            return name
        if self._used.add(number):
            return name
        # The numbers of texts that repeat start at 2.
        self._repeated[number] = count = self._repeated.get(number, 1) + 1
        return f"{name}-{count}"


class _NumberSet:
    """A set of numbers in eight bytes each: sorted runs, of which small ones are merged."""

    def __init__(self) -> None:
        self._runs: list[np.ndarray[Any, np.dtype[np.uint64]]] = []
        self._few: set[int] = set()

    def add(self, number: int) -> bool:
        """Add a number; returns False if it is there."""
        if number in self._few or not self._are_new(np.array([number], np.uint64)):
            return False
        self._few.add(number)
        if len(self._few) >= _MAX_FEW:
            self._add_run(np.fromiter(self._few, np.uint64, len(self._few)))
            self._few.clear()
        return True

    def add_all(self, numbers: "np.ndarray[Any, np.dtype[np.uint64]]") -> bool:
        """Add numbers; if one is there, or occurs twice among them, add none and return False."""
        ordered = np.sort(numbers)
        if bool((ordered[1:] == ordered[:-1]).any()) or not self._are_new(ordered):
            return False
        if self._few and not self._few.isdisjoint(numbers.tolist()):
            return False
        self._add_run(ordered)
        return True

    def _are_new(self, numbers: "np.ndarray[Any, np.dtype[np.uint64]]") -> bool:
        return not any(bool((run[np.searchsorted(run, numbers).clip(max=len(run) - 1)] == numbers).any()) for run in self._runs)

    def _add_run(self, numbers: "np.ndarray[Any, np.dtype[np.uint64]]") -> None:
        run = np.sort(numbers)
        # Runs of similar length are merged, so that there are few of them and each number is moved a few times.
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate((self._runs.pop(), run)), kind="stable")
        self._runs.append(run)


class ColumnWriter:
    """Writer of the records of clean batches."""

    def __init__(self, columns: ColumnSection, names: Sequence[str], *, contract: str, dataset: str) -> None:
        self._columns = columns
        self._choices = listed_columns(columns.choices)
        self._context = listed_columns(columns.context)
        self._contract = contract
        used = {name for role, value in msgspec.structs.asdict(columns).items() if role != "metadata" for name in _names_in(value)}
        self._metadata = list(listed_columns(columns.metadata)) or [name for name in names if name not in used]
        self._head = b'{"schema_version":"legal_eval_v1","id":"'
        self._dataset = b'","dataset":' + _encode(dataset) + b',"task_type":"'
        self._letters = {choice_id(position, "stable") for position in range(len(self._choices))}
        self.is_usable = self._is_usable(names)
        """False for a table whose columns need the builder."""

    def _is_usable(self, names: Sequence[str]) -> bool:
        columns = self._columns
        plain = [columns.prompt, columns.reference, columns.id, columns.answer, *self._context, *self._choices, *self._metadata]
        return (
            self._contract == "legal_eval_v1"
            and not (columns.rubric or columns.messages)
            and len(self._choices) != 1
            and len(self._context) <= 1
            and (columns.answer not in self._choices if self._choices else bool(columns.reference))
            and columns.first_choice is None
            and all(name in names for name in plain if name)
            and not any(folded(name) in METADATA_NAMES for name in self._metadata)
        )

    def clean(self, cells: TextColumns, count: int) -> CleanBatch | None:
        """Return what is known of a batch; None for one that the builder has to read."""
        columns = self._columns
        for name in filter(None, (columns.prompt, columns.id, *self._choices)):
            if not _are_filled(cells[name]):
                return None
        if self._choices:
            # A choice of one character might be what the key says, and not its letter.
            if not self._letters.issuperset(cells[columns.answer]) or any(min(map(len, cells[name])) < 2 for name in self._choices):
                return None
        elif not _are_texts(cells[columns.reference]) or not _are_filled(cells[columns.reference]):
            return None
        if self._context and not _are_texts(cells[self._context[0]]):
            return None
        with_metadata = 0
        if self._metadata:
            filled = [cells[name] for name in self._metadata]
            is_filled = any(all(column) and not any(map(str.isspace, column)) for column in filled)
            with_metadata = count if is_filled else sum(not all(map(is_blank, row)) for row in zip(*filled, strict=True))
        ids = list(map(str.strip, cells[columns.id])) if columns.id else None
        return CleanBatch(count, ids, with_metadata)

    def lines(self, cells: TextColumns, batch: CleanBatch, ids: RecordIds) -> bytes:
        """Return the records of a clean batch, each on a line."""
        columns = self._columns
        prompts = _escaped(map(str.strip, cells[columns.prompt]))
        contexts = _escaped(map(str.strip, cells[self._context[0]])) if self._context else None
        choices = [_escaped(map(str.strip, cells[name])) for name in self._choices]
        if batch.ids is None:
            parts = [prompts, *([contexts] if contexts else []), *choices]
            names = ids.of_all(prompts if len(parts) == 1 else [b"\0".join(filter(None, row)) for row in zip(*parts, strict=True)])
        else:
            names = _escaped(batch.ids)
        pieces: list[Iterator[bytes] | list[bytes]] = [repeat(self._head), names, repeat(self._dataset)]
        pieces += [repeat(b'mcq","prompt":"' if choices else b'reference_qa","prompt":"'), prompts, repeat(b'"')]
        if contexts:
            pieces.append([b',"context":"' + text + b'"' if text else b"" for text in contexts])
        if choices:
            for position, texts in enumerate(choices):
                before = b"" if position else b',"choices":['
                label = choice_id(position, "stable").encode()
                pieces += [repeat((b"," if position else before) + b'{"id":"' + label + b'","text":"'), texts, repeat(b'"}')]
            pieces += [repeat(b'],"correct_choice_ids":["'), [key.encode() for key in cells[columns.answer]], repeat(b'"]')]
        else:
            pieces += [repeat(b',"reference_answers":["'), _escaped(map(str.strip, cells[columns.reference])), repeat(b'"]')]
        pieces += self._written_metadata(cells)
        pieces.append(repeat(b"}\n", batch.count))
        return b"".join(chain.from_iterable(zip(*pieces, strict=False)))

    def _written_metadata(self, cells: TextColumns) -> Iterator["Iterator[bytes] | list[bytes]"]:
        if not self._metadata:
            return
        members = [(_encode(name) + b':"', _escaped(cells[name])) for name in self._metadata]
        if all(map(_are_filled, (cells[name] for name in self._metadata))):
            for position, (key, values) in enumerate(members):
                yield repeat((b'",' if position else b',"metadata":{') + key)
                yield values
            yield repeat(b'"}')
            return
        written: list[list[bytes]] = []
        for name, (key, values) in zip(self._metadata, members, strict=True):
            blank = map(is_blank, cells[name])
            written.append([b"" if empty else key + value + b'"' for value, empty in zip(values, blank, strict=True)])
        joined = [b",".join(filter(None, row)) for row in zip(*written, strict=True)]
        yield [b',"metadata":{' + row + b"}" if row else b"" for row in joined]


def _names_in(value: object) -> tuple[str, ...]:
    return listed_columns(value) if isinstance(value, str | tuple) else ()


def _are_filled(cells: Sequence[str]) -> bool:
    return all(cells) and not any(map(str.isspace, cells))


def _are_texts(cells: Sequence[str]) -> bool:
    """Return whether no cell begins like a list or an object, which the builder would read."""
    return {"[", "{"}.isdisjoint(map(_first, filter(None, map(str.lstrip, cells))))


def _escaped(texts: Iterator[str] | Sequence[str]) -> list[bytes]:
    """Return texts as they stand between quotation marks in JSON, all of them in one call."""
    written = _encode(list(texts))
    # Inside of a text every mark has a backslash before it, so that this separator stands only between texts.
    return written[2:-2].split(_BETWEEN)
