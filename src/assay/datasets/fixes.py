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
from assay.datasets.checks import Findings
from assay.datasets.config import ValidationConfig
from assay.datasets.conversation_v1.texts import has_conversation_lines
from assay.datasets.formats import sniff_format
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


Fix = Callable[[Any, Path], tuple[Any, list[tuple[Path, str]]]]
"""A record and its path in, the record and its changes out."""


def fixed(source: Source, contract: ContractId) -> Fixed:
    """The source with every safe fix applied; text that cannot be read stays as it is."""
    content = bytes(source.buffer())
    changes = [Change(1, "", "removed the byte order mark")] if content.startswith(BOM) else []
    content = content.removeprefix(BOM)
    pieces = list(_PIECES[contract](source))
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


def _legal_pieces(source: Source) -> Iterator[_Piece]:
    return _line_pieces(source, _fix_legal)


def _batch_pieces(source: Source) -> Iterator[_Piece]:
    split = Split(source.buffer(), ValidationConfig())
    cursor = Cursor(split.buffer)
    for index, record in enumerate(split.records):
        start = split.offset(record)
        raw = split.original(start, len(memoryview(record)))
        yield from _rewritten(raw, ("records", index), _fix_batch, start=start, line=cursor.place(start).line)


def _golden_pieces(source: Source) -> Iterator[_Piece]:
    return _whole_piece(source, _fix_golden)


def _conversation_pieces(source: Source) -> Iterator[_Piece]:
    if sniff_format(source) == "yaml":
        return iter(())
    if has_conversation_lines(source):
        return _line_pieces(source, _fix_turns)
    return _line_pieces(source, _fix_turn) if sniff_format(source) == "jsonl" else _whole_piece(source, _fix_turns)


def _whole_piece(source: Source, fix: Fix) -> Iterator[_Piece]:
    content = bytes(source.buffer())
    start = len(BOM) if content.startswith(BOM) else 0
    for piece in _rewritten(content[start:], (), fix, start=start, line=1):
        pretty = msgspec.json.format(piece.content, indent=2) + b"\n"
        yield msgspec.structs.replace(piece, content=pretty)


def _fix_legal(row: Any, path: Path) -> tuple[Any, list[tuple[Path, str]]]:
    if type(row) is not dict:
        return row, []
    changes = _trim(row, "id", path)
    return row, changes + _move_unknown(row, path, legal_eval_v1.rules.FIELDS)


def _fix_batch(record: Any, path: Path) -> tuple[Any, list[tuple[Path, str]]]:
    if type(record) is not dict:
        return record, []
    changes: list[tuple[Path, str]] = []
    normalized = batch_v1.rules.Normalized(Findings(), record, path)
    if normalized.changed is not None:
        record = normalized.value
        changes.append((normalized.changed, "normalised to Unicode NFC"))
    changes += _trim(record, "record_id", path)
    return record, changes + _move_unknown(record, path, batch_v1.rules.RECORD_FIELDS)


def _fix_golden(document: Any, path: Path) -> tuple[Any, list[tuple[Path, str]]]:
    cases = document.get("cases") if type(document) is dict else None
    changes: list[tuple[Path, str]] = []
    for index, case in enumerate(cases if type(cases) is list else ()):
        if type(case) is dict:
            changes += _trim(case, "id", (*path, "cases", index))
    return document, changes


def _fix_turns(turns: Any, path: Path) -> tuple[Any, list[tuple[Path, str]]]:
    changes: list[tuple[Path, str]] = []
    for index, turn in enumerate(turns if type(turns) is list else ()):
        changes += _fix_turn(turn, (*path, index))[1]
    return turns, changes


def _fix_turn(turn: Any, path: Path) -> tuple[Any, list[tuple[Path, str]]]:
    config = ValidationConfig()
    known = (*config.required_fields, *config.optional_fields)
    return turn, _move_unknown(turn, path, known) if type(turn) is dict else []


def _trim(record: dict[str, Any], field: str, path: Path) -> list[tuple[Path, str]]:
    value = record.get(field)
    if type(value) is not str or value == value.rstrip() or not value.strip():
        return []
    record[field] = value.rstrip()
    return [((*path, field), "removed white space at the end")]


def _move_unknown(record: dict[str, Any], path: Path, known: tuple[str, ...]) -> list[tuple[Path, str]]:
    metadata = record.get("metadata", {})
    if type(metadata) is not dict:
        return []
    unknown = [key for key in record if key not in known and key not in metadata]
    for key in unknown:
        metadata[key] = record.pop(key)
    if unknown:
        record["metadata"] = metadata
    return [((*path, key), f"moved into metadata.{key}") for key in unknown]


_PIECES: dict[ContractId, Callable[[Source], Iterator[_Piece]]] = {
    "legal_eval_v1": _legal_pieces,
    "batch_v1": _batch_pieces,
    "golden_v1": _golden_pieces,
    "conversation_v1": _conversation_pieces,
}
