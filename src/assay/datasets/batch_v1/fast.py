"""The fast lane of batch_v1: clean records are accepted at parser speed, all others are left to the exact rules.

A record is accepted here only when typed decoding and byte scans prove it clean. Every test is sound: it may
send a clean record to the exact rules, it never lets a bad one pass.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import orjson
from msgspec import UNSET, Meta, Raw, UnsetType

from assay.datasets.batch_v1 import rules
from assay.datasets.hashing import Floats, has_astral_name
from assay.datasets.scan import Pieces, scan_texts, unlike
from assay.datasets.source import BATCH_BYTES

_LARGEST_RAW = 8 * rules.MAX_RECORD_BYTES
_Scalar = str | int | float | bool | None
_Level5 = dict[str, _Scalar] | list[_Scalar]
_Level4 = dict[str, _Scalar | _Level5] | list[_Scalar | _Level5]
_Level3 = dict[str, _Scalar | _Level4] | list[_Scalar | _Level4]
_Level2 = dict[str, _Scalar | _Level3] | list[_Scalar | _Level3]
_Metadata = dict[str, _Scalar | _Level2]
"""Five levels of containers: batch_v1 1.2, Max depth 5."""

_Text = Annotated[str, Meta(max_length=rules.MAX_TEXT)]
_Tag = Annotated[str, Meta(min_length=1, max_length=rules.MAX_TAG)]


class _Input(msgspec.Struct, gc=False):
    prompt: Annotated[str, Meta(min_length=1, max_length=rules.MAX_TEXT)]


class _Reference(msgspec.Struct, gc=False):
    answer: _Text | UnsetType = UNSET


class _Expected(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    max_latency_ms: Annotated[int, Meta(ge=1, le=rules.MAX_LATENCY_MS)] | UnsetType = UNSET
    required_criteria: list[Literal["accuracy", "clarity", "reasoning", "factuality", "overall"]] | UnsetType = UNSET


class _Record(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    record_id: Annotated[str, Meta(min_length=1, max_length=rules.MAX_ID)]
    input: _Input
    reference: _Reference | UnsetType = UNSET
    tags: Annotated[list[_Tag], Meta(max_length=rules.MAX_TAGS)] | UnsetType = UNSET
    expected: _Expected | UnsetType = UNSET
    metadata: _Metadata | UnsetType = UNSET


class Clean(msgspec.Struct, frozen=True, gc=False):
    """What the fast lane knows of an accepted record."""

    record_id: str
    digest: bytes


class _Read(NamedTuple):
    record_id: str
    canonical: bytes


def clean_records(raws: Sequence[Raw], *, suspects: frozenset[int]) -> Iterator[list[Clean | None]]:
    """For each batch of records what is known of the clean ones; None, as for every suspect, asks for the exact rules."""
    lane = _Lane(suspects)
    batch: list[Raw] = []
    size = 0
    for raw in raws:
        batch.append(raw)
        size += len(memoryview(raw))
        if size >= BATCH_BYTES:
            yield lane.accept(batch)
            batch, size = [], 0
    if batch:
        yield lane.accept(batch)


class _Lane:
    def __init__(self, suspects: frozenset[int]) -> None:
        self._suspects = suspects
        self._seen = 0
        self._floats = Floats()
        self._decode = msgspec.json.Decoder(dict, float_hook=self._floats).decode

    def accept(self, batch: Sequence[Raw]) -> list[Clean | None]:
        """The verdicts on some records that follow each other."""
        passed: list[int] = []
        read: list[_Read] = []
        for position, raw in enumerate(batch):
            record = self._read(raw)
            if record is not None and self._seen + position not in self._suspects:
                passed.append(position)
                read.append(record)
        self._seen += len(batch)
        verdicts: list[Clean | None] = [None] * len(batch)
        if passed:
            bad = _bad_positions([batch[position] for position in passed], read)
            for at, position in enumerate(passed):
                if at not in bad:
                    verdicts[position] = Clean(read[at].record_id, hashlib.sha256(read[at].canonical).digest())
        return verdicts

    def _read(self, raw: Raw) -> _Read | None:
        """A record whose types, lengths and sizes are right."""
        if len(memoryview(raw)) > _LARGEST_RAW:
            return None
        floats = self._floats
        floats.reset()
        try:
            record = self._decode(raw)
            typed = msgspec.convert(record, _Record)
            canonical = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
        except (msgspec.DecodeError, orjson.JSONEncodeError, RecursionError, UnicodeDecodeError):
            return None
        is_clean = (
            len(canonical) <= rules.MAX_RECORD_BYTES
            and floats.exact
            # 2000.0 was read as 2000 above, and max_latency_ms must be written as an integer.
            and not (floats.integral and typed.expected is not UNSET and typed.expected.max_latency_ms is not UNSET)
            and typed.record_id.isprintable()
            and (typed.tags is UNSET or "".join(typed.tags).isprintable())
            and (len(canonical) <= rules.MAX_RECORD_METADATA_BYTES or _has_small_metadata(record))
        )
        return _Read(typed.record_id, canonical) if is_clean else None


def _bad_positions(raws: Sequence[Raw], read: Sequence[_Read]) -> set[int]:
    """Records that only the exact rules can judge, by scans over all of them at once."""
    canonical = [record.canonical for record in read]
    written = Pieces(canonical)
    scanned = scan_texts(canonical, written)
    # RFC 8785 orders names above U+FFFF differently from orjson.
    renamed = {position for position in scanned.astral if has_astral_name(orjson.loads(canonical[position]))}
    return scanned.suspect | renamed | unlike(Pieces(raws), written)


def _has_small_metadata(record: dict[str, Any]) -> bool:
    return len(orjson.dumps(record.get("metadata"))) <= rules.MAX_RECORD_METADATA_BYTES
