"""The contracts that assay has, and what everything but their readers has to know of each.

The reader of a contract is the module of its name in `assay.datasets`. `tests/datasets/test_every_contract.py` walks each contract
through whatever depends on it, and names what a new one is missing.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

ContractId = Literal["legal_eval_v1", "batch_v1", "golden_v1", "conversation_v1"]
BUILT_IN = "built-in"
"""Like `auto`, for callers whose data must not choose what code this process runs: no plugin's contract is looked for."""
Format = Literal["json", "jsonl", "yaml"]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a document that say what dataset it is; where one is empty, the name of the file or its hash says it."""

    dataset_id: str = ""
    dataset_version: str = ""
    schema_version: str = ""


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """One of our dataset formats as the rest of assay sees it."""

    id: ContractId
    about: str
    """What it is for, in a few words."""
    written_as: str
    """How a file of it looks, in a few words."""
    formats: tuple[Format, ...]
    """What it may be written in."""
    member: str = ""
    """How a place among the records is named, as in `cases[3]`: by the member that lists them. Empty for lines."""
    record_id: str = "id"
    """Member of a record that identifies it; empty where no text does."""
    record_word: str = "record"
    """What people call the records that a report counts."""
    head: Head = Head()
    skips_invalid: bool = False
    """A run takes the valid records of a file although others are invalid, unless it says otherwise."""

    @property
    def is_lines(self) -> bool:
        """Each line is a record, so that one is found by its line."""
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
        head=Head(dataset_id="dataset_id", dataset_version="dataset_version", schema_version="schema_version"),
        skips_invalid=True,
    ),
    Contract(
        id="golden_v1",
        about="prompts, each with a rubric in plain words",
        written_as="one JSON document with cases",
        formats=("json",),
        member="cases",
        head=Head(dataset_version="version"),
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
"""Every contract of ours by its name."""
