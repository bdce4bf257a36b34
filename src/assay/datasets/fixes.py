"""Safe fixes: a corrected copy of a source and the list of what was changed in it.

Only what cannot change a meaning: the byte order mark, Unicode NFC where the contract demands it, white space at
the end of ids, and unknown fields moved into metadata. Everything else is left for a person.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from assay.core.case import ContractId
from assay.core.document import Document, Place
from assay.core.issue import Path, path_text
from assay.core.json_door import parse_json
from assay.datasets import batch_v1, legal_eval_v1
from assay.datasets.batch_v1.split import Split
from assay.datasets.checks import Findings, nearest
from assay.datasets.config import ValidationConfig
from assay.datasets.conversation_v1.texts import has_conversation_lines
from assay.datasets.formats import sniff_format
from assay.datasets.progress import ALONE
from assay.datasets.scan import Cursor
from assay.datasets.source import BOM, Source, filled_lines


class Change(msgspec.Struct, frozen=True):
    """One thing that a fix changed."""

    line: int
    path: str
    message: str


class Fixed(msgspec.Struct, frozen=True):
    """The corrected bytes and what was changed."""

    content: bytes
    changes: tuple[Change, ...]


Edit = tuple[Path, str]
"""Where something was changed, and how."""
Fix = Callable[[Any, Path], tuple[Any, list[Edit]]]
"""A record and its path in, the record and its changes out."""


def fixed(source: Source, contract: ContractId, config: ValidationConfig | None = None) -> Fixed:
    """The source with every safe fix applied; text that cannot be read stays as it is."""
    content = bytes(source.buffer())
    changes = [Change(1, "", "removed the byte order mark")] if content.startswith(BOM) else []
    content = content.removeprefix(BOM)
    pieces = list(_PIECES[contract](source, _Fixes(source, contract, config or ValidationConfig())))
    offset = len(BOM) if changes else 0
    parts: list[bytes] = []
    at = 0
    for piece in pieces:
        start = piece.start - offset
        parts += (content[at:start], piece.content)
        changes += piece.changes
        at = start + piece.size
    return Fixed(b"".join((*parts, content[at:])), tuple(changes))


class _Piece(msgspec.Struct, frozen=True):
    """Bytes of the source that are replaced by others."""

    start: int
    size: int
    content: bytes
    changes: tuple[Change, ...]


def _rewritten(raw: bytes, path: Path, fix: Fix, *, start: int, line: int) -> Iterator[_Piece]:
    """The piece for one record, if a fix changes it."""
    document = parse_json(raw)
    if document.flaws:
        return
    value, changes = fix(document.value, path)
    if changes:
        noted = tuple(_noted(document, where, message, inner=where[len(path) :], line=line) for where, message in changes)
        yield _Piece(start, len(raw), msgspec.json.encode(value), noted)


def _noted(document: Document, path: Path, message: str, *, inner: Path, line: int) -> Change:
    place = document.place(document.offset(inner, on_key=True), start=Place(line, 1))
    return Change(place.line, path_text(path), message)


def _line_pieces(source: Source, fix: Fix) -> Iterator[_Piece]:
    start = len(BOM) if source.buffer()[: len(BOM)] == BOM else 0
    buffer = source.buffer()
    for line in filled_lines(source):
        content = line.text
        start = buffer.find(content, start)
        yield from _rewritten(content, (), fix, start=start, line=line.number)
        start += len(content)


def _legal_pieces(source: Source, fixes: "_Fixes") -> Iterator[_Piece]:
    return _line_pieces(source, fixes.fix_legal)


def _batch_pieces(source: Source, fixes: "_Fixes") -> Iterator[_Piece]:
    split = Split(source.buffer(), ValidationConfig())
    cursor = Cursor(split.buffer)
    for index, record in enumerate(split.records):
        start = split.offset(record)
        raw = split.original(start, len(memoryview(record)))
        yield from _rewritten(raw, ("records", index), fixes.fix_batch, start=start, line=cursor.place(start).line)
    split.restore()


def _golden_pieces(source: Source, fixes: "_Fixes") -> Iterator[_Piece]:
    return _whole_piece(source, fixes.fix_golden)


def _conversation_pieces(source: Source, fixes: "_Fixes") -> Iterator[_Piece]:
    if sniff_format(source) == "yaml":
        return iter(())
    if has_conversation_lines(source):
        return _line_pieces(source, fixes.fix_turns)
    return _line_pieces(source, fixes.fix_turn) if sniff_format(source) == "jsonl" else _whole_piece(source, fixes.fix_turns)


def _whole_piece(source: Source, fix: Fix) -> Iterator[_Piece]:
    content = bytes(source.buffer())
    start = len(BOM) if content.startswith(BOM) else 0
    for piece in _rewritten(content[start:], (), fix, start=start, line=1):
        pretty = msgspec.json.format(piece.content, indent=2) + b"\n"
        yield msgspec.structs.replace(piece, content=pretty)


class _Fixes:
    """What may be changed in the records of one source."""

    def __init__(self, source: Source, contract: ContractId, config: ValidationConfig) -> None:
        self._config = config
        self._ids = set(_IDS[contract](source, config)) if contract in _IDS else set()
        """An id is not trimmed into that of another record."""

    def fix_legal(self, row: Any, path: Path) -> tuple[Any, list[Edit]]:
        if type(row) is not dict:
            return row, []
        changes = self._trim(row, "id", path)
        # A policy_id in metadata selects how a row is graded, so none is put there.
        return row, changes + _move_unknown(row, path, (*legal_eval_v1.rules.FIELDS, "policy_id"))

    def fix_batch(self, record: Any, path: Path) -> tuple[Any, list[Edit]]:
        if type(record) is not dict:
            return record, []
        changes: list[Edit] = []
        found = Findings()
        normalized = batch_v1.rules.Normalized(found, record, path)
        # Two names that become one, or a run of combining marks, are for a person to solve.
        if normalized.changed is not None and not found:
            record = normalized.value
            changes.append((normalized.changed, "normalised to Unicode NFC"))
        changes += self._trim(record, "record_id", path)
        return record, changes + _move_unknown(record, path, batch_v1.rules.RECORD_FIELDS, accepts=_fits_batch)

    def fix_golden(self, document: Any, path: Path) -> tuple[Any, list[Edit]]:
        cases = document.get("cases") if type(document) is dict else None
        changes: list[Edit] = []
        for index, case in enumerate(cases if type(cases) is list else ()):
            if type(case) is dict:
                changes += self._trim(case, "id", (*path, "cases", index))
        return document, changes

    def fix_turns(self, turns: Any, path: Path) -> tuple[Any, list[Edit]]:
        changes: list[Edit] = []
        for index, turn in enumerate(turns if type(turns) is list else ()):
            changes += self.fix_turn(turn, (*path, index))[1]
        return turns, changes

    def fix_turn(self, turn: Any, path: Path) -> tuple[Any, list[Edit]]:
        known = ("turn_id", "speaker", *self._config.required_fields, *self._config.optional_fields)
        return turn, _move_unknown(turn, path, known) if type(turn) is dict and "metadata" in known else []

    def _trim(self, record: dict[str, Any], field: str, path: Path) -> list[Edit]:
        value = record.get(field)
        if type(value) is not str or value == value.rstrip() or not value.strip() or value.rstrip() in self._ids:
            return []
        record[field] = value.rstrip()
        self._ids.add(value.rstrip())
        return [((*path, field), "removed white space at the end")]


def _fits_batch(metadata: dict[str, Any]) -> bool:
    """Metadata that batch_v1 still takes."""
    found = Findings()
    batch_v1.rules.check_metadata(found, metadata, ("metadata",), limit=batch_v1.rules.MAX_RECORD_METADATA_BYTES)
    return not found


def _move_unknown(
    record: dict[str, Any], path: Path, known: tuple[str, ...], *, accepts: Callable[[dict[str, Any]], bool] | None = None
) -> list[Edit]:
    metadata = record.get("metadata", {})
    if type(metadata) is not dict:
        return []
    # A name that looks like a known field is a typing error, which moving would hide.
    unknown = [key for key in record if key not in known and key not in metadata and not nearest(key, known)]
    moved = metadata | {key: record[key] for key in unknown}
    if not unknown or not (accepts is None or accepts(moved)):
        return []
    for key in unknown:
        del record[key]
    record["metadata"] = moved
    return [((*path, key), f"moved into metadata.{key}") for key in unknown]


def _golden_ids(source: Source, _: ValidationConfig) -> Iterator[str]:
    """Of all cases: one with a blank at its end keeps the whole dataset from being accepted."""
    document = parse_json(source.buffer()).value
    cases = document.get("cases") if type(document) is dict else None
    return (case["id"] for case in cases if type(case) is dict and type(case.get("id")) is str) if type(cases) is list else iter(())


_IDS: dict[ContractId, Callable[[Source, ValidationConfig], Iterator[str]]] = {
    "legal_eval_v1": lambda source, config: (case.id for case in legal_eval_v1.read(source, config, ALONE).cases),
    "batch_v1": lambda source, config: (case.id for case in batch_v1.read(source, config, ALONE).cases),
    "golden_v1": _golden_ids,
}
_PIECES: dict[ContractId, Callable[[Source, _Fixes], Iterator[_Piece]]] = {
    "legal_eval_v1": _legal_pieces,
    "batch_v1": _batch_pieces,
    "golden_v1": _golden_pieces,
    "conversation_v1": _conversation_pieces,
}
