"""Built-in contracts: what all code except their readers needs to know, titles of datasets, and stored input documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

import msgspec

from assay.core.canonical import JsonObject

if TYPE_CHECKING:
    from assay.core.run_result import RunListing

ContractId = Literal["legal_eval_v1", "batch_v1", "golden_v1", "conversation_v1"]
BUILT_IN = "built-in"
"""Like `auto`, but without plugins: for servers, whose callers must not choose what code this process runs."""
Format = Literal["json", "jsonl", "yaml"]


class DatasetIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a document that identify its dataset; for an empty one, the file's name or hash is used."""

    dataset_id: str = ""
    dataset_version: str = ""
    schema_version: str = ""


# A table, so that fixes, uploads, pages, starters and plans follow from one entry; tests/datasets/test_every_contract.py names
# what a new contract lacks.
class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """One built-in dataset format, as code outside its reader sees it."""

    id: ContractId
    about: str
    """Purpose in a few words."""
    written_as: str
    """Form of a file in a few words."""
    formats: tuple[Format, ...]
    """File formats that it may be written in."""
    member: str = ""
    """Member that lists the records, used in paths such as `cases[3]`. Empty for lines."""
    record_id: str = "id"
    """Member that identifies a record; empty if no text does."""
    record_word: str = "record"
    """Word for the records that a report counts."""
    head: DatasetIdentity = DatasetIdentity()
    skips_invalid: bool = False
    """By default, a run uses the valid records of a file even if others are invalid."""

    @property
    def is_lines(self) -> bool:
        """Return whether each line is a record, so that a line number locates it."""
        return self.formats == ("jsonl",)


_ALL = (
    Contract(
        id="legal_eval_v1",
        about="legal questions with a rubric, a reference or choices",
        written_as="one JSON object in each line",
        formats=("jsonl",),
    ),
    Contract(
        id="batch_v1",
        about="prompts with reference answers, up to 50,000",
        written_as="one JSON document with records",
        formats=("json",),
        member="records",
        record_id="record_id",
        head=DatasetIdentity(dataset_id="dataset_id", dataset_version="dataset_version", schema_version="schema_version"),
        # Its rules say that invalid records are marked and valid ones are evaluated; the other contracts refuse the whole file.
        skips_invalid=True,
    ),
    Contract(
        id="golden_v1",
        about="prompts, each with a rubric in plain words",
        written_as="one JSON document with cases",
        formats=("json",),
        member="cases",
        head=DatasetIdentity(dataset_version="version"),
    ),
    Contract(
        id="conversation_v1",
        about="recorded conversations with tool calls",
        written_as="turns as JSON, lines or YAML",
        formats=("json", "jsonl", "yaml"),
        member="conversations",
        # A conversation has no id: it is known by its position, and `turn_id` counts turns within it.
        record_id="",
        record_word="turn",
    ),
)
CONTRACTS: Mapping[str, Contract] = {contract.id: contract for contract in _ALL}
"""All built-in contracts by id."""


# Titles leave such a version out: sixty-four digits tell people nothing that the file name does not.
_OWN_VERSION = "sha256:"
"""Prefix of a version that was derived from the content, because the dataset has none."""


def file_stem(path: str) -> str:
    """Return the file's name without extensions such as `.jsonl` and `.gz`."""
    name = PurePath(path).name.removesuffix(".gz")
    return PurePath(name).stem or name


def further_names(dataset_id: str, *, name: str = "", file: str = "") -> tuple[str, ...]:
    """List other names of a dataset: the run's name for it, if different, and its file."""
    return tuple(word for word in (name if name not in (dataset_id, file_stem(file)) else "", file) if word not in ("", dataset_id))


def listed_dataset(run: RunListing) -> str:
    """Title the first dataset of a run in a list."""
    return dataset_title(run.dataset, run.dataset_version, file=run.dataset_file)


def more_datasets(run: RunListing) -> str:
    """Count the datasets that the title leaves out: ` and 3 more`."""
    return f" and {run.dataset_count - 1:,} more" if run.dataset_count > 1 else ""


def dataset_title(dataset_id: str, version: str, *, name: str = "", file: str = "") -> str:
    """Build a short title: `support-answers 2026-10-01 (answers.json)`."""
    others = ", ".join(further_names(dataset_id, name=name, file=file))
    version_text = "" if version.startswith(_OWN_VERSION) else version
    return " ".join(filter(None, (dataset_id, version_text, f"({others})" if others else "")))


INPUT = "input_dataset.json"
"""Artifact with the accepted records of a run in their own contract."""
MANIFEST = "run_manifest.json"
"""Artifact that describes the run and lists the hashes of all others."""
# JSON Lines cannot be stored in a file that must be one JSON document, so their rows get an envelope.
ROW_MEMBERS: Mapping[str, str] = {"legal_eval_v1": "rows", "conversation_v1": "conversations"}
"""Contracts without a document of their own, and the member that lists their rows in the stored document."""
# Neither name can be mistaken for a contract: input files of both kinds are recognised by this member alone.
SEVERAL = "datasets_v1"
"""`schema_version` of a document that holds several datasets."""
REFERENCE = "reference_v1"
"""`schema_version` of a document with the hash of its input instead of the content."""


class StoredName(msgspec.Struct, frozen=True):
    """Names of a dataset in the run that stored it."""

    name: str
    file: str
    null_as_absent: bool = False
    """True if the run read null in optional fields as absent."""


# A ledger holds records one by one; without their head the sealed input could not be written as a document of its contract.
class DatasetHead(msgspec.Struct, frozen=True):
    """Stored in a ledger with the first valid record of a dataset."""

    dataset: int
    """Position among the datasets of the plan."""
    members: JsonObject = {}
    """Document's members besides its records."""


class DatasetPart(msgspec.Struct, frozen=True):
    """One of several datasets in a document."""

    name: str
    """Run's name for it."""
    file: str
    """Name of the file that it was read from."""
    contract: str
    document: msgspec.Raw
