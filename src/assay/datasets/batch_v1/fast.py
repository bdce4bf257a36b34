"""Fast path of batch_v1: clean records are accepted at parser speed, all others are left to the exact rules.

A record is accepted here only when typed decoding and byte scans prove it clean. Every test is sound: it may
send a clean record to the exact rules, it never lets a bad one pass.
"""

import os
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
import orjson
from msgspec import Meta, Raw
from orjson import OPT_SORT_KEYS
from orjson import dumps as _dumps

from assay.core.canonical import JsonObject
from assay.core.open_fields import FieldUse
from assay.datasets.batch_v1 import rules
from assay.datasets.parsing.hashing import FloatHook, text_has_astral_name
from assay.datasets.parsing.record_fields import NO_USES, ONLY_METADATA, batch_uses
from assay.datasets.parsing.scan import JoinedBytes, lossy_positions, scan_texts
from assay.datasets.parsing.source import BATCH_BYTES

# Larger ones cannot be accepted, and decoding them would take memory for nothing.
_LARGEST_RAW = 8 * rules.MAX_RECORD_BYTES
NO_REFERENCE: JsonObject = {}
_Scalar = str | int | float | bool | None
# Spelled out level by level: the decoder has no notion of depth, and a recursive type would accept any.
_Level5 = dict[str, _Scalar] | list[_Scalar]
_Level4 = dict[str, _Scalar | _Level5] | list[_Scalar | _Level5]
_Level3 = dict[str, _Scalar | _Level4] | list[_Scalar | _Level4]
_Level2 = dict[str, _Scalar | _Level3] | list[_Scalar | _Level3]
_Metadata = dict[str, _Scalar | _Level2]
"""Five levels of containers, as deep as metadata may be."""

# msgspec counts code points, as the contract's limits do.
_Tag = Annotated[str, Meta(min_length=1, max_length=rules.MAX_TAG)]


class _ExpectedFields(TypedDict, total=False):
    max_latency_ms: Annotated[int, Meta(ge=1, le=rules.MAX_LATENCY_MS)]
    required_criteria: list[Literal["accuracy", "clarity", "reasoning", "factuality", "overall"]]


# A TypedDict and not a Struct: the dictionary is written again for hash and quotation marks, without a conversion.
class _BatchRecord(TypedDict):
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


# Outside the garbage collector, which would look through 50,000 of them again and again; as arrays they are short in the pipe.
class CleanRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An accepted record, as far as the fast path reads it."""

    record_id: str
    digest: bytes
    uses: tuple[FieldUse, ...] = ()
    """Models that receive its open fields."""


_Read = tuple[str, bytes, tuple[FieldUse, ...]]
"""Id, canonical bytes, and the use of open fields."""


def clean_records(raws: Sequence[Raw], *, suspects: frozenset[int]) -> Iterator[list[CleanRecord | None]]:
    """Yield the clean records of each batch; None, as for every suspect, sends a record to the exact rules."""
    fast_path = _BatchFastPath(suspects)
    batch: list[Raw] = []
    size = 0
    for raw in raws:
        batch.append(raw)
        size += len(memoryview(raw))
        if size >= BATCH_BYTES:
            yield fast_path.accept(batch)
            batch, size = [], 0
    if batch:
        yield fast_path.accept(batch)


class _BatchFastPath:
    def __init__(self, suspects: frozenset[int]) -> None:
        self._suspects = suspects
        self._seen = 0
        # RFC 8785 writes 1.0 as 1. The hook turns whole floats into integers, so that orjson writes what the hash needs.
        self._floats = FloatHook()
        self._decode = msgspec.json.Decoder(_BatchRecord, float_hook=self._floats).decode

    def accept(self, batch: Sequence[Raw]) -> list[CleanRecord | None]:
        """Check consecutive records; None for each that needs the exact rules."""
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
        """Decode a record and check its types, lengths and sizes; None if one is wrong."""
        if len(memoryview(raw)) > _LARGEST_RAW:
            return None
        try:
            record = self._decode(raw)
            canonical = _dumps(record, None, OPT_SORT_KEYS)
        # The exact rules find the reason; here it only matters that the record is not proved clean.
        except (msgspec.DecodeError, orjson.JSONEncodeError, RecursionError, UnicodeDecodeError):
            self._floats.reset()
            return None
        if not self._floats.exact:
            self._floats.reset()
            return None
        record_id: str = record["record_id"]
        is_clean = (
            # Stricter than the contract, which allows other scripts' spaces: the exact rules decide about those.
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


def _has_good_texts(record: _BatchRecord) -> bool:
    prompt = record["input"].get("prompt")
    answer = record["reference"].get("answer", "") if "reference" in record else ""
    return (
        type(prompt) is str
        and 0 < len(prompt) <= rules.MAX_TEXT
        and type(answer) is str
        and len(answer) <= rules.MAX_TEXT
        and ("tags" not in record or "".join(record["tags"]).isprintable())
    )


def _has_good_metadata(record: _BatchRecord, record_bytes: int) -> bool:
    """Return whether the metadata is neither too deep nor too large."""
    try:
        msgspec.convert(record, _WithMetadata)
    except msgspec.ValidationError:
        return False
    limit = rules.MAX_RECORD_METADATA_BYTES
    # Metadata is smaller than its record, so only records above 8 KB have theirs written once more.
    return record_bytes <= limit or len(_dumps(record["metadata"])) <= limit


def _bad_positions(raws: Sequence[Raw], read: Sequence[_Read]) -> set[int]:
    """Find the records that only the exact rules can judge, by scans over all of them at once."""
    canonical = [text for _, text, _ in read]
    written = JoinedBytes(canonical)
    scanned = scan_texts(canonical, written)
    # RFC 8785 orders names above U+FFFF differently from orjson.
    renamed = {position for position in scanned.astral if text_has_astral_name(canonical[position])}
    # An escaped NUL is still one in the canonical text, where it makes a suspect.
    return scanned.suspect | renamed | lossy_positions(JoinedBytes(raws), written, nul=False)


_BLOCK = 1 << 20
_Verdicts = list[list[CleanRecord | None]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Verdicts).decode


def clean_in_parallel(raws: Sequence[Raw], *, suspects: frozenset[int], workers: int) -> Iterator[list[CleanRecord | None]]:
    """Yield what `clean_records` does, with `workers` processes; with one if the system cannot fork."""
    # Forked children share the mapped document without a copy. A server must not fork: it has threads and open connections.
    if workers < 2 or len(raws) < workers or not hasattr(os, "fork"):
        yield from clean_records(raws, suspects=suspects)
        return
    shares = _shares(raws, workers)
    # All children start before this process works on its own share, and their answers are read in the order of the records.
    children = [_WorkerProcess(raws, share, suspects) for share in shares[1:]]
    try:
        yield from _clean_share(raws, shares[0], suspects)
        for child in children:
            yield from child.verdicts()
    finally:
        for child in children:
            child.close()


def _shares(raws: Sequence[Raw], workers: int) -> list[range]:
    """Split the records into ranges with about the same number of bytes each."""
    ends = list(accumulate([len(memoryview(raw)) for raw in raws]))
    # By bytes, not by records: one half of a file may hold all its large records.
    cuts = [0, *(bisect_right(ends, ends[-1] * number // workers) for number in range(1, workers)), len(raws)]
    return [range(start, end) for start, end in pairwise(cuts)]


def _clean_share(raws: Sequence[Raw], share: range, suspects: frozenset[int]) -> Iterator[list[CleanRecord | None]]:
    # Each process counts its records from 0.
    own = frozenset(at - share.start for at in suspects if at in share)
    return clean_records(raws[share.start : share.stop], suspects=own)


class _WorkerProcess:
    """One forked process, and the pipe on which it answers."""

    def __init__(self, raws: Sequence[Raw], share: range, suspects: frozenset[int]) -> None:
        self._arguments = (raws, share, suspects)
        self._reading, writing = os.pipe()
        with warnings.catch_warnings():
            # The child runs no threads and ends without cleaning up, so the threads of numpy do not matter to it.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            _send_verdicts(writing, raws, share, suspects)
        os.close(writing)

    def verdicts(self) -> Iterator[list[CleanRecord | None]]:
        """Yield the verdicts of the process; compute them here if it did not answer."""
        # The pipe is read to its end: closing it early would end a process that is still writing.
        blocks = []
        while block := os.read(self._reading, _BLOCK):
            blocks.append(block)
        try:
            yield from _decode(b"".join(blocks))
        except msgspec.DecodeError:
            # A child may be killed for its memory. The verdict must not depend on that, so its share is done here.
            yield from _clean_share(*self._arguments)

    def close(self) -> None:
        """Close the pipe, on which a process that is still writing ends too, and wait for the process."""
        os.close(self._reading)
        os.waitpid(self._pid, 0)


def _send_verdicts(writing: int, raws: Sequence[Raw], share: range, suspects: frozenset[int]) -> None:
    """Write the verdicts to the pipe; runs in the forked process and never returns."""
    status = 1
    try:
        answer = memoryview(_encode(list(_clean_share(raws, share, suspects))))
        while answer:
            answer = answer[os.write(writing, answer) :]
        status = 0
    finally:
        # Not sys.exit: exit handlers and buffers belong to the parent, which would then write or remove things twice.
        os._exit(status)
