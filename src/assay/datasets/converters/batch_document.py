"""Drafts of batch_v1 records into a document within the contract's limits, reporting what had to move or go."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from assay.core.errors import UsageProblem
from assay.datasets.batch_v1 import rules
from assay.datasets.checks import depth_of
from assay.datasets.config import ValidationConfig
from assay.datasets.converters.canonical import Row, filled, json_bytes
from assay.datasets.converters.columns import RowRefused
from assay.datasets.converters.report import ConversionCounts

OVERFLOW = "source_metadata"
"""Member of `reference`, an open object, that takes what does not fit into `metadata`."""
OTHER_TAGS = "source_tags"

_NOT_IN_DATASET_ID = re.compile(r"[^A-Za-z0-9_.-]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class RecordDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one record before they are measured."""

    record_id: str
    input: Row
    reference: Row = {}
    tags: tuple[str, ...] = ()
    metadata: Row = {}


class DocumentNaming(msgspec.Struct, frozen=True):
    """What the caller calls the new document; None leaves it to the cases."""

    dataset_id: str | None = None
    version: str | None = None


def batch_document(drafts: Iterable[RecordDraft], tally: ConversionCounts, *, dataset: str, naming: DocumentNaming) -> Row:
    """The document of all records that fit; raises UsageProblem where no valid document is possible."""
    document: Row = {
        "dataset_id": naming.dataset_id if naming.dataset_id is not None else _dataset_id(dataset, tally),
        "dataset_version": naming.version if naming.version is not None else _dataset_version(tally),
        "schema_version": "1.0",
        "records": list(_records(drafts, tally)),
    }
    _check_document(document, tally)
    return document


def with_origin(metadata: Row, **origin: str) -> Row:
    """The metadata with what says where a record comes from; a member that it has already stays as it is."""
    named = {name if name not in metadata else f"source_{name}": value for name, value in origin.items() if value}
    return {**named, **metadata}


def _dataset_id(dataset: str, tally: ConversionCounts) -> str:
    fitted = _NOT_IN_DATASET_ID.sub("_", dataset)[: rules.MAX_ID] or "dataset"
    if fitted != dataset:
        tally.note("changed", f"{dataset!r} became {fitted!r}: the contract allows A-Z a-z 0-9 _ - .", path="dataset_id")
    return fitted


def _dataset_version(tally: ConversionCounts) -> str:
    tally.note("changed", "no version found; using '1'", path="dataset_version")
    return "1"


def _records(drafts: Iterable[RecordDraft], tally: ConversionCounts) -> Iterator[Row]:
    seen: set[str] = set()
    for draft in drafts:
        if draft.record_id in seen:
            tally.skip("the id was used by an earlier record", record_id=draft.record_id)
            continue
        try:
            record = _record(draft, tally)
        except RowRefused as problem:
            tally.refuse(str(problem), record_id=draft.record_id)
            continue
        seen.add(draft.record_id)
        tally.emitted += 1
        yield record


def _record(draft: RecordDraft, tally: ConversionCounts) -> Row:
    tags, other_tags = _split_tags(draft.tags)
    metadata, overflow = _split_metadata(draft.metadata)
    reference = {**draft.reference, **filled({OTHER_TAGS: other_tags, OVERFLOW: overflow})}
    members = {"reference": reference, "tags": tags, "metadata": metadata}
    record = {"record_id": draft.record_id, "input": draft.input, **filled(members)}
    dropped = _drop_overflow(record, overflow)
    checked = rules.CheckedRecord(record, ("records", 0), ValidationConfig())
    problems = [finding.message for finding in checked.found if finding.severity == "error"]
    if problems:
        raise RowRefused("; ".join(problems))
    _note_losses(draft, tally, moved=overflow, dropped=dropped)
    if other_tags:
        reason = f"{rules.MAX_TAGS} tags of 1 to {rules.MAX_TAG} characters are allowed; the rest is now in reference.{OTHER_TAGS}"
        tally.note("moved", reason, record_id=draft.record_id, path="tags")
    if not checked.is_normalized:
        tally.note("changed", "text was brought into Unicode NFC", record_id=draft.record_id)
    normalized: Row = checked.value
    return normalized


def _split_tags(tags: tuple[str, ...]) -> tuple[list[str], list[str]]:
    fitting = [tag for tag in tags if 1 <= len(tag) <= rules.MAX_TAG and not _CONTROL.search(tag)][: rules.MAX_TAGS]
    return fitting, [tag for tag in tags if tag not in fitting]


def _split_metadata(metadata: Row) -> tuple[Row, Row]:
    """What fits into 8 KB and five levels, and the rest: first what is too deep, then the largest members."""
    inner = rules.MAX_METADATA_DEPTH - 1
    fitting = {name: value for name, value in metadata.items() if depth_of(value, inner) <= inner}
    by_size = sorted(fitting, key=lambda name: _size(fitting[name]))
    while _size(fitting) > rules.MAX_RECORD_METADATA_BYTES:
        del fitting[by_size.pop()]
    return fitting, {name: value for name, value in metadata.items() if name not in fitting}


def _drop_overflow(record: Row, overflow: Row) -> list[str]:
    """Make the record fit into 256 KB at the cost of moved metadata; what comes back are the names that went."""
    by_size = sorted(overflow, key=lambda name: _size(overflow[name]))
    dropped: list[str] = []
    while by_size and _size(record) > rules.MAX_RECORD_BYTES:
        dropped.append(by_size.pop())
        del overflow[dropped[-1]]
    if dropped and not overflow:
        del record["reference"][OVERFLOW]
    return dropped


def _note_losses(draft: RecordDraft, tally: ConversionCounts, *, moved: Iterable[str], dropped: Iterable[str]) -> None:
    limit = f"metadata is limited to {rules.MAX_RECORD_METADATA_BYTES:,} bytes and {rules.MAX_METADATA_DEPTH} levels"
    for name in moved:
        tally.note("moved", f"{limit}; now in reference.{OVERFLOW}", record_id=draft.record_id, path=f"metadata.{name}")
    for name in dropped:
        reason = f"{limit}, and a whole record to {rules.MAX_RECORD_BYTES:,} bytes"
        tally.note("dropped", reason, record_id=draft.record_id, path=f"metadata.{name}")


def _check_document(document: Row, tally: ConversionCounts) -> None:
    problems = [finding.message for finding in rules.check_head(document, ValidationConfig()) if finding.severity == "error"]
    if problems:
        raise UsageProblem(f"this cannot be a batch_v1 document: {'; '.join(problems)}", hint="give another dataset_id or version")
    count = len(document["records"])
    if not count:
        reason = next((remark.reason for remark in tally.remarks if remark.action == "invalid"), "there are no cases")
        raise UsageProblem(f"nothing could be converted to batch_v1: {reason}")
    if count > rules.MAX_RECORDS:
        raise UsageProblem(f"batch_v1 takes at most {rules.MAX_RECORDS:,} records, these are {count:,}", hint="split the dataset")
    if len(msgspec.json.encode(document)) > rules.MAX_PAYLOAD_BYTES:
        raise UsageProblem(f"batch_v1 takes at most {rules.MAX_PAYLOAD_BYTES:,} bytes", hint="split the dataset")


def _size(value: object) -> int:
    return len(json_bytes(value))
