"""Built-in contracts, and what all code except their readers needs to know about each.

The reader of a contract is the module of its name in `assay.datasets`. `tests/datasets/test_every_contract.py` walks each contract
through all code that depends on it, and names what a new one is missing.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

ContractId = Literal["legal_eval_v1", "batch_v1", "golden_v1", "conversation_v1"]
BUILT_IN = "built-in"
"""Like `auto`, but without plugins: for servers, whose callers must not choose what code this process runs."""
Format = Literal["json", "jsonl", "yaml"]


class DatasetIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a document that identify its dataset; for an empty one, the file's name or hash is used."""

    dataset_id: str = ""
    dataset_version: str = ""
    schema_version: str = ""


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
    """The member that lists the records, used in paths such as `cases[3]`. Empty for lines."""
    record_id: str = "id"
    """Member that identifies a record; empty if no text does."""
    record_word: str = "record"
    """Word for the records that a report counts."""
    head: DatasetIdentity = DatasetIdentity()
    skips_invalid: bool = False
    """By default, a run uses the valid records of a file even if others are invalid."""

    @property
    def is_lines(self) -> bool:
        """Tell whether each line is a record, so that a line number locates it."""
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
        record_id="",
        record_word="turn",
    ),
)
CONTRACTS: Mapping[str, Contract] = {contract.id: contract for contract in _ALL}
"""All built-in contracts by id."""
