"""The document that a run stores its input in: how the rows of each contract are written as one file of strict JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec

INPUT = "input_dataset.json"
"""The artifact: the accepted records of a run in their own contract."""
MANIFEST = "run_manifest.json"
"""The artifact next to it that says what the run was."""
ROW_MEMBERS: Mapping[str, str] = {"legal_eval_v1": "rows", "conversation_v1": "conversations"}
"""Contracts without a document of their own, and the member that lists their rows in the one they are stored in."""
SEVERAL = "datasets_v1"
"""`schema_version` of a document that holds the documents of several datasets."""
REFERENCE = "reference_v1"
"""`schema_version` of a document that names its input by hash and holds none of it."""


class StoredName(msgspec.Struct, frozen=True):
    """What a dataset was called when the run was made that has stored it."""

    name: str
    file: str
    null_as_absent: bool = False
    """The run took optional fields that are null for absent ones."""


class DatasetHead(msgspec.Struct, frozen=True):
    """What a ledger stores with the first valid record of a dataset."""

    dataset: int
    """Position among the datasets of the plan."""
    members: dict[str, Any] = {}
    """What the document says besides its records."""


class DatasetPart(msgspec.Struct, frozen=True):
    """One of several datasets in a document."""

    name: str
    """What the run called it."""
    file: str
    """The name of the file that it was read from."""
    contract: str
    document: msgspec.Raw
