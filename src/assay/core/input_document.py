"""The input document of a run: the rows of each contract as one file of strict JSON."""

from collections.abc import Mapping

import msgspec

from assay.core.canonical import JsonObject

INPUT = "input_dataset.json"
"""Artifact with the accepted records of a run in their own contract."""
MANIFEST = "run_manifest.json"
"""Artifact that describes the run and lists the hashes of all others."""
ROW_MEMBERS: Mapping[str, str] = {"legal_eval_v1": "rows", "conversation_v1": "conversations"}
"""Contracts without a document of their own, and the member that lists their rows in the stored document."""
SEVERAL = "datasets_v1"
"""`schema_version` of a document that holds several datasets."""
REFERENCE = "reference_v1"
"""`schema_version` of a document with the hash of its input instead of the content."""


class StoredName(msgspec.Struct, frozen=True):
    """Names of a dataset in the run that stored it."""

    name: str
    file: str
    null_as_absent: bool = False
    """The run read null in optional fields as absent."""


class DatasetHead(msgspec.Struct, frozen=True):
    """Stored in a ledger with the first valid record of a dataset."""

    dataset: int
    """Position among the datasets of the plan."""
    members: JsonObject = {}
    """The document's members besides its records."""


class DatasetPart(msgspec.Struct, frozen=True):
    """One of several datasets in a document."""

    name: str
    """The run's name for it."""
    file: str
    """Name of the file that it was read from."""
    contract: str
    document: msgspec.Raw
