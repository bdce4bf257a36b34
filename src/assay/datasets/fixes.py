"""Safe fixes: a corrected copy of a source, and the list of changes.

Only what cannot change a meaning: the byte order mark, Unicode NFC where the contract demands it, white space at
the end of ids, nulls of optional fields, and unknown fields moved into metadata. Everything else is left for a person.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from assay.core.contract import CONTRACTS, Contract, ContractId
from assay.core.issue import Path, path_text
from assay.core.report import FixChange
from assay.core.strict_json import Location, ParsedDocument, parse_json
from assay.datasets import batch_v1, legal_eval_v1, read
from assay.datasets.batch_v1.split import SplitDocument
from assay.datasets.conversation_v1 import has_conversation_lines
from assay.datasets.parsing.checks import FindingList, nearest
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.formats import sniff_format
from assay.datasets.parsing.record_fields import (
    BATCH_RECORD,
    GOLDEN_CASE,
    GOLDEN_DOCUMENT,
    LEGAL_ROW,
    drop_nulls,
    drop_turn_nulls,
    turn_fields,
)
from assay.datasets.parsing.scan import LocationCursor
from assay.datasets.parsing.source import BOM, Source, filled_lines

_NEAR = 1 << 16
"""Bytes around a null in which its name and a comma are looked for."""
_NAMED_MEMBER = re.compile(rb'(,\s*)?"([a-z_]+)"\s*:\s*\Z')
_COMMA_AFTER = re.compile(rb"null(\s*,\s*)?")


class FixResult(msgspec.Struct, frozen=True):
    """Corrected bytes and the changes."""

    content: bytes
    changes: tuple[FixChange, ...]


Edit = tuple[Path, str]
"""Path of a changed value, and the change in words."""
Fix = Callable[[object, Path], tuple[object, list[Edit]]]
"""Function that takes a record and its path, and returns the record and its changes."""


def fix_source(source: Source, contract: ContractId, config: ValidationConfig | None = None) -> FixResult:
    """Apply every safe fix to a source; text that cannot be parsed stays unchanged."""
    content = bytes(source.buffer())
    changes = [FixChange(1, "", "removed the byte order mark")] if content.startswith(BOM) else []
    # Replacements are spliced into the original bytes, so that everything that no fix touches stays byte for byte.
    content = content.removeprefix(BOM)
    pieces = list(_CONTRACT_FIXES.get(contract, _pieces)(source, CONTRACTS[contract], config or ValidationConfig()))
    offset = len(BOM) if changes else 0
    parts: list[bytes] = []
    at = 0
    for piece in pieces:
        start = piece.start - offset
        parts += (content[at:start], piece.content)
        changes += piece.changes
        at = start + piece.size
    return FixResult(b"".join((*parts, content[at:])), tuple(changes))


class _ByteReplacement(msgspec.Struct, frozen=True):
    """Bytes of the source that are replaced by others."""

    start: int
    size: int
    content: bytes
    changes: tuple[FixChange, ...]


def _rewrite(raw: bytes, path: Path, fix: Fix, *, start: int, line: int) -> Iterator[_ByteReplacement]:
    """Yield the replacement of one record, if a fix changes it."""
    document = parse_json(raw)
    # A text with a duplicate name or a lone surrogate has no single meaning, so nothing about it is safe to change.
    if document.flaws:
        return
    value, changes = fix(document.value, path)
    if changes:
        document.locate(where[len(path) :] for where, _ in changes)
        noted = tuple(_locate_change(document, where, message, inner=where[len(path) :], line=line) for where, message in changes)
        yield _ByteReplacement(start, len(raw), msgspec.json.encode(value), noted)


def _locate_change(document: ParsedDocument, path: Path, message: str, *, inner: Path, line: int) -> FixChange:
    place = document.place(document.offset(inner, on_key=True), start=Location(line, 1))
    return FixChange(place.line, path_text(path), message)


def _line_pieces(source: Source, fix: Fix) -> Iterator[_ByteReplacement]:
    start = len(BOM) if source.buffer()[: len(BOM)] == BOM else 0
    buffer = source.buffer()
    for line in filled_lines(source):
        content = line.text
        start = buffer.find(content, start)
        yield from _rewrite(content, (), fix, start=start, line=line.number)
        start += len(content)


def _whole_piece(source: Source, fix: Fix) -> Iterator[_ByteReplacement]:
    content = bytes(source.buffer())
    start = len(BOM) if content.startswith(BOM) else 0
    for piece in _rewrite(content[start:], (), fix, start=start, line=1):
        # A whole document is written by people and read by them; lines of JSON Lines stay compact.
        pretty = msgspec.json.format(piece.content, indent=2) + b"\n"
        yield msgspec.structs.replace(piece, content=pretty)


def _describe_removed(nulls: list[Path]) -> list[Edit]:
    return [(path, "removed the null of an optional field") for path in nulls]


class _IdTrimmer:
    """Trimmer of a source's ids, which never makes two ids equal."""

    def __init__(self, member: str, taken: Iterable[str]) -> None:
        self._member = member
        self._taken = set(taken)

    def trim(self, record: object, path: Path) -> list[Edit]:
        """Remove white space at the end of the record's id."""
        if type(record) is not dict:
            return []
        value = record.get(self._member)
        if type(value) is not str or value == value.rstrip() or not value.strip() or value.rstrip() in self._taken:
            return []
        record[self._member] = value.rstrip()
        self._taken.add(value.rstrip())
        return [((*path, self._member), "removed white space at the end")]


def _accepted_ids(source: Source, contract: Contract, config: ValidationConfig) -> _IdTrimmer:
    return _IdTrimmer(contract.record_id, (case.id for case in read(source, contract.id, config=config).cases))


def _pieces(source: Source, contract: Contract, config: ValidationConfig) -> Iterator[_ByteReplacement]:
    """Apply the fix that is safe in every contract: white space at the end of ids is removed."""
    if contract.is_lines:
        # Trimming must not turn an id into one that an accepted record has; that record would become a duplicate.
        ids = _accepted_ids(source, contract, config)
        return _line_pieces(source, lambda row, path: (row, ids.trim(row, path)))
    return _whole_piece(source, lambda document, path: (document, _trim_records(document, path, contract)))


def _trim_records(document: object, path: Path, contract: Contract) -> list[Edit]:
    """Trim the records of a document; ids of rejected records count as taken, too."""
    changes = _describe_removed(drop_nulls(document, GOLDEN_DOCUMENT, path))
    records = document.get(contract.member) if type(document) is dict else None
    listed = [(index, record) for index, record in enumerate(records) if type(record) is dict] if type(records) is list else []
    ids = _IdTrimmer(contract.record_id, (one for _, record in listed if type(one := record.get(contract.record_id)) is str))
    for index, record in listed:
        where = (*path, contract.member, index)
        changes += ids.trim(record, where) + _describe_removed(drop_nulls(record, GOLDEN_CASE, where))
    return changes


def _legal_pieces(source: Source, contract: Contract, config: ValidationConfig) -> Iterator[_ByteReplacement]:
    ids = _accepted_ids(source, contract, config)

    def fix(row: object, path: Path) -> tuple[object, list[Edit]]:
        # A policy_id in metadata selects how a row is graded, so none is put there.
        nulls = _describe_removed(drop_nulls(row, LEGAL_ROW, path))
        return row, nulls + ids.trim(row, path) + _move_unknown(row, path, (*legal_eval_v1.rules.FIELDS, "policy_id"))

    return _line_pieces(source, fix)


def _batch_pieces(source: Source, contract: Contract, config: ValidationConfig) -> Iterator[_ByteReplacement]:
    ids = _accepted_ids(source, contract, config)

    def fix(record: object, path: Path) -> tuple[object, list[Edit]]:
        nulls = _describe_removed(drop_nulls(record, BATCH_RECORD, path))
        record, changes = _normalize_value(record, path) if type(record) is dict else (record, [])
        changes += nulls + ids.trim(record, path)
        return record, changes + _move_unknown(record, path, batch_v1.rules.RECORD_FIELDS, accepts=_fits_batch)

    split = SplitDocument(source.buffer(), ValidationConfig())
    cursor = LocationCursor(split.buffer)
    members: list[tuple[Path, msgspec.Raw, Fix]] = [(("records", index), record, fix) for index, record in enumerate(split.records)]
    members += _head_members(split)
    # In the order of the text, since the cursor only moves forward.
    for path, member, its_fix in sorted(members, key=lambda one: split.offset(one[1])):
        start = split.offset(member)
        raw = split.original(start, len(memoryview(member)))
        line = cursor.place(start).line
        # A null member of the document itself: it has no value to rewrite, so its name and a comma go with it.
        if len(path) == 1 and raw == b"null":
            yield from _without_member(split, str(path[0]), start, line)
        else:
            yield from _rewrite(raw, path, its_fix, start=start, line=line)
    # The buffer may be a map that other readers of the source share, so the patches must not stay in it.
    split.restore()


def _without_member(split: SplitDocument, name: str, at: int, line: int) -> Iterator[_ByteReplacement]:
    """Yield the replacement that removes a null member of the document, with the comma after or before it."""
    low = max(0, at - _NEAR)
    before = _NAMED_MEMBER.search(bytes(split.view[low:at]))
    after = _COMMA_AFTER.match(bytes(split.view[at : at + _NEAR]))
    # Not certain enough to cut: the null stays, and validation still reports it.
    if before is None or before[2] != name.encode() or after is None or not (before[1] or after[1]):
        return
    start = low + before.start() if not after[1] else low + before.start(2) - 1
    change = FixChange(line, name, "removed the null of an optional field")
    yield _ByteReplacement(start, at + after.end() - start, b"", (change,))


class _BatchHeader(msgspec.Struct):
    """Members of a batch besides its records that hold free text, or are optional."""

    created_at: msgspec.Raw = msgspec.Raw()
    dataset_version: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()


def _head_members(split: SplitDocument) -> list[tuple[Path, msgspec.Raw, Fix]]:
    try:
        head = msgspec.json.decode(split.view[split.start :], type=_BatchHeader)
    except msgspec.DecodeError:
        return []
    named = (("created_at", head.created_at), ("dataset_version", head.dataset_version), ("metadata", head.metadata))
    return [((name,), member, _normalize_value) for name, member in named if memoryview(member)]


def _normalize_value(value: object, path: Path) -> tuple[object, list[Edit]]:
    """Normalize a value to NFC; two names that become one, or a run of combining marks, are left to a person."""
    found = FindingList()
    normalized = batch_v1.rules.NormalizedRecord(found, value, path)
    if not normalized.changed or found:
        return value, []
    return normalized.value, [(changed, "normalised to Unicode NFC") for changed, _ in normalized.changed]


def _conversation_pieces(source: Source, _: Contract, config: ValidationConfig) -> Iterator[_ByteReplacement]:
    known = ("turn_id", "speaker", *config.required_fields, *config.optional_fields)
    optional = turn_fields(config)

    def fix_turn(turn: object, path: Path) -> tuple[object, list[Edit]]:
        nulls = _describe_removed(drop_turn_nulls(turn, optional, path))
        return turn, nulls + (_move_unknown(turn, path, known) if "metadata" in known else [])

    def fix_turns(turns: object, path: Path) -> tuple[object, list[Edit]]:
        listed = enumerate(turns if type(turns) is list else ())
        return turns, [edit for index, turn in listed for edit in fix_turn(turn, (*path, index))[1]]

    # YAML would lose its comments and layout when written again, so none is fixed.
    if sniff_format(source) == "yaml":
        return iter(())
    if has_conversation_lines(source):
        return _line_pieces(source, fix_turns)
    return _line_pieces(source, fix_turn) if sniff_format(source) == "jsonl" else _whole_piece(source, fix_turns)


def _fits_batch(metadata: Mapping[str, object]) -> bool:
    """Return whether batch_v1 still accepts the metadata."""
    found = FindingList()
    batch_v1.rules.check_metadata(found, metadata, ("metadata",), limit=batch_v1.rules.MAX_RECORD_METADATA_BYTES)
    return not found


def _move_unknown(
    record: object, path: Path, known: tuple[str, ...], *, accepts: Callable[[Mapping[str, object]], bool] | None = None
) -> list[Edit]:
    if type(record) is not dict or type(metadata := record.get("metadata", {})) is not dict:
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


_CONTRACT_FIXES: dict[ContractId, Callable[[Source, Contract, ValidationConfig], Iterator[_ByteReplacement]]] = {
    "legal_eval_v1": _legal_pieces,
    "batch_v1": _batch_pieces,
    "conversation_v1": _conversation_pieces,
}
"""Contracts with more safe fixes than those of every contract."""
