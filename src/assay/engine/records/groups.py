"""Groups of a run's records: slices and clusters, by members of their metadata."""

from collections.abc import Iterable, Mapping
from typing import Any
from unicodedata import normalize

import msgspec

from assay.core.artifact_lines import Slices
from assay.core.canonical import JsonObject
from assay.core.case import Case, Task
from assay.core.plan import DatasetPlan

NO_METADATA = ("tags", "dataset", "task_type", "task", "contract", "policy_id")
"""Slices that are made by something else than a member of metadata."""


def metadata_value(metadata: object, field: str) -> object:
    """Return the member of that name, or the one at a dotted path of names; None when there is none."""
    # A member whose own name has a dot wins over a path.
    if isinstance(metadata, dict) and field in metadata:
        return metadata[field]
    first, _, rest = field.partition(".")
    return metadata_value(metadata[first], rest) if rest and isinstance(metadata, dict) and first in metadata else None


def member_text(value: object) -> str:
    """Format a value as `split_value` and reports do: texts unchanged, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


TERMS: dict[Task, str] = {
    "rubric": "rubric_qa",
    "reference": "reference_qa",
    "mcq": "mcq",
    "open": "qa",
    "conversation": "conversation",
    "pairwise": "pairwise",
}
"""Names of each task in the contracts: legal_eval_v1 has the first three words, batch_v1 has `qa`."""
_LEGAL: dict[str, Task] = {"rubric_qa": "rubric", "reference_qa": "reference", "mcq": "mcq"}
_TASK_OF: dict[str, Task] = {"batch_v1": "open", "golden_v1": "rubric", "conversation_v1": "conversation"}
"""Task of every record of a contract."""
MAX_TAGS, MAX_TAG = 32, 64
"""batch_v1: tags of a record, and characters of a tag; what is longer is not a tag."""
MAX_VALUE = 8192
"""Characters of a value that a record which broke its contract may have for a slice: the size of all metadata in batch_v1."""


class RejectedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """As much of a record that broke its contract as groups are made by, as far as it can be read."""

    contract: str
    dataset: str = ""
    task: Task | None = None
    tags: tuple[str, ...] = ()
    policy_id: str = ""
    metadata: JsonObject = {}


class RecordGroups:
    """Finds the groups of records; what a record's metadata lacks is looked up in the metadata of its document.

    `is_former` is for figures of runs that were sealed before: their tasks have the words of the code, and documents do not count.
    """

    def __init__(self, datasets: Iterable[DatasetPlan], *, is_former: bool = False) -> None:
        self._is_former = is_former
        self._documents: dict[str, Mapping[str, Any]] = {}
        for dataset in () if is_former else datasets:
            if dataset.metadata:
                # Cases name their dataset by its id, or by its name where ids are not enough.
                self._documents |= {dataset.dataset_id: dataset.metadata, dataset.name or dataset.dataset_id: dataset.metadata}

    def slices(self, record: Case | RejectedRecord, names: Iterable[str]) -> Slices:
        """Return a record's values for each slice: its tags, dataset or task type, or any metadata member, as text or JSON."""
        return {name: self._values(record, name) for name in names}

    def cluster(self, record: Case, key: str) -> str:
        """Return the cluster of a record; empty without a key or a value."""
        value = self._member(record, key.removeprefix("metadata.")) if key else None
        return "" if value is None else member_text(value)

    def _values(self, record: Case | RejectedRecord, name: str) -> tuple[str, ...]:
        if name == "tags":
            return record.tags
        if name == "task" or (name == "task_type" and record.contract == "legal_eval_v1" and not self._is_former):
            return self._task(record)
        if name in ("dataset", "contract", "policy_id"):
            return (getattr(record, name),) if getattr(record, name) else ()
        value = self._member(record, name.removeprefix("metadata."))
        if value is None and name == "task_type":
            return self._task(record)
        if isinstance(value, list):
            return tuple(map(member_text, value))
        return () if value is None else (member_text(value),)

    def _task(self, record: Case | RejectedRecord) -> tuple[str, ...]:
        if record.task is None:
            return ()
        if self._is_former:
            return (record.task,)
        # A turn of a conversation is replayed as another task, and stays a part of a conversation.
        return (TERMS["conversation" if record.contract == "conversation_v1" else record.task],)

    def _member(self, record: Case | RejectedRecord, field: str) -> object:
        value = metadata_value(record.metadata, field)
        # Only batch_v1 has metadata of the document, which hold for each of its records.
        if value is None and record.contract == "batch_v1" and self._documents:
            return metadata_value(self._documents.get(record.dataset, {}), field)
        return value


def read_rejected(raw: bytes, contract: str, *, dataset: str) -> RejectedRecord:
    """Return an invalid record's members that groups need; `dataset` is its name in the run, empty when rows name their own."""
    # Every readable member counts: a slice without its broken records would hide where they are.
    try:
        row = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        row = None
    row = row if isinstance(row, dict) else {}
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    is_legal = contract == "legal_eval_v1"
    return RejectedRecord(
        contract=contract,
        dataset=dataset or (_text(row.get("dataset")) if is_legal else ""),
        task=_LEGAL.get(_text(row.get("task_type"))) if is_legal else _TASK_OF.get(contract),
        tags=_tags(row.get("tags")) if contract == "batch_v1" else (),
        policy_id=_text(metadata.get("policy_id")) if is_legal else "",
        metadata={name: value for name, value in metadata.items() if len(member_text(value)) <= MAX_VALUE},
    )


def _tags(value: object) -> tuple[str, ...]:
    # Values that break their own limits would make slices of the report that no valid record is in.
    tags = value[:MAX_TAGS] if isinstance(value, list) else ()
    return tuple(normalize("NFC", tag) for tag in tags if isinstance(tag, str) and 0 < len(tag) <= MAX_TAG)


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_VALUE else ""
