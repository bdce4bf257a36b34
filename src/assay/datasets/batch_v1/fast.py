"""The fast lane of batch_v1: clean records are accepted at parser speed, all others are left to the exact rules.

A record is accepted here only when typed decoding and byte scans prove it clean. Every test is sound: it may
send a clean record to the exact rules, it never lets a bad one pass.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
import orjson
from msgspec import Meta, Raw
from orjson import OPT_SORT_KEYS
from orjson import dumps as _dumps

from assay.core.canonical import JsonObject
from assay.core.field_uses import FieldUse
from assay.datasets.batch_v1 import rules
from assay.datasets.hashing import FloatHook, text_has_astral_name
from assay.datasets.scan import Pieces, scan_texts, unlike
from assay.datasets.source import BATCH_BYTES
from assay.datasets.unsent_fields import NO_USES, ONLY_METADATA, batch_uses

_LARGEST_RAW = 8 * rules.MAX_RECORD_BYTES
NO_REFERENCE: JsonObject = {}
_Scalar = str | int | float | bool | None
_Level5 = dict[str, _Scalar] | list[_Scalar]
_Level4 = dict[str, _Scalar | _Level5] | list[_Scalar | _Level5]
_Level3 = dict[str, _Scalar | _Level4] | list[_Scalar | _Level4]
_Level2 = dict[str, _Scalar | _Level3] | list[_Scalar | _Level3]
_Metadata = dict[str, _Scalar | _Level2]
"""Five levels of containers, as deep as metadata may be."""

_Tag = Annotated[str, Meta(min_length=1, max_length=rules.MAX_TAG)]


class _ExpectedFields(TypedDict, total=False):
    max_latency_ms: Annotated[int, Meta(ge=1, le=rules.MAX_LATENCY_MS)]
    required_criteria: list[Literal["accuracy", "clarity", "reasoning", "factuality", "overall"]]


class _Record(TypedDict):
    """Unknown members are not read; what is written from the record is then shorter, which shows.

    Open objects are untyped, because only untyped floats go through the hook.
    """

    record_id: Annotated[str, Meta(min_length=1, max_length=rules.MAX_ID)]
    input: JsonObject
    reference: NotRequired[JsonObject]
    tags: NotRequired[Annotated[list[_Tag], Meta(max_length=rules.MAX_TAGS)]]
    expected: NotRequired[_ExpectedFields]
    metadata: NotRequired[JsonObject]


class _WithMetadata(msgspec.Struct, gc=False):
    metadata: _Metadata


class CleanRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the fast lane knows of an accepted record."""

    record_id: str
    digest: bytes
    uses: tuple[FieldUse, ...] = ()
    """Where its open fields go."""


_Read = tuple[str, bytes, tuple[FieldUse, ...]]
"""The id, the canonical bytes, and where open fields go."""


def clean_records(raws: Sequence[Raw], *, suspects: frozenset[int]) -> Iterator[list[CleanRecord | None]]:
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
        self._floats = FloatHook()
        self._decode = msgspec.json.Decoder(_Record, float_hook=self._floats).decode

    def accept(self, batch: Sequence[Raw]) -> list[CleanRecord | None]:
        """The verdicts on some records that follow each other."""
        passed: list[int] = []
        read: list[_Read] = []
        for position, raw in enumerate(batch):
            record = self._read(raw)
            if record is not None and self._seen + position not in self._suspects:
                passed.append(position)
                read.append(record)
        self._seen += len(batch)
        verdicts: list[CleanRecord | None] = [None] * len(batch)
        if passed:
            bad = _bad_positions([batch[position] for position in passed], read)
            for at, position in enumerate(passed):
                if at not in bad:
                    record_id, canonical, uses = read[at]
                    verdicts[position] = CleanRecord(record_id, sha256(canonical).digest(), uses)
        return verdicts

    def _read(self, raw: Raw) -> _Read | None:
        """A record whose types, lengths and sizes are right."""
        if len(memoryview(raw)) > _LARGEST_RAW:
            return None
        try:
            record = self._decode(raw)
            canonical = _dumps(record, None, OPT_SORT_KEYS)
        except (msgspec.DecodeError, orjson.JSONEncodeError, RecursionError, UnicodeDecodeError):
            self._floats.reset()
            return None
        if not self._floats.exact:
            self._floats.reset()
            return None
        record_id: str = record["record_id"]
        is_clean = (
            record_id.isprintable()
            and len(canonical) <= rules.MAX_RECORD_BYTES
            and _has_good_texts(record)
            and ("metadata" not in record or _has_good_metadata(record, len(canonical)))
        )
        if not is_clean:
            return None
        reference = record.get("reference", NO_REFERENCE)
        # Looked at here, because nearly every record has a prompt and an answer and nothing besides.
        has_more = len(record["input"]) > 1 or len(reference) != ("answer" in reference)
        return record_id, canonical, batch_uses(record) if has_more else ONLY_METADATA if record.get("metadata") else NO_USES


def _has_good_texts(record: _Record) -> bool:
    prompt = record["input"].get("prompt")
    answer = record["reference"].get("answer", "") if "reference" in record else ""
    return (
        type(prompt) is str
        and 0 < len(prompt) <= rules.MAX_TEXT
        and type(answer) is str
        and len(answer) <= rules.MAX_TEXT
        and ("tags" not in record or "".join(record["tags"]).isprintable())
    )


def _has_good_metadata(record: _Record, record_bytes: int) -> bool:
    """Neither too deep nor too large."""
    try:
        msgspec.convert(record, _WithMetadata)
    except msgspec.ValidationError:
        return False
    limit = rules.MAX_RECORD_METADATA_BYTES
    return record_bytes <= limit or len(_dumps(record["metadata"])) <= limit


def _bad_positions(raws: Sequence[Raw], read: Sequence[_Read]) -> set[int]:
    """Records that only the exact rules can judge, by scans over all of them at once."""
    canonical = [text for _, text, _ in read]
    written = Pieces(canonical)
    scanned = scan_texts(canonical, written)
    # RFC 8785 orders names above U+FFFF differently from orjson.
    renamed = {position for position in scanned.astral if text_has_astral_name(canonical[position])}
    # An escaped NUL is still one in the canonical text, where it makes a suspect.
    return scanned.suspect | renamed | unlike(Pieces(raws), written, nul=False)
