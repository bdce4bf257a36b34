"""Members of a record's metadata, as splits, slices and clusters name them."""

from typing import Any

import msgspec

NO_METADATA = ("tags", "dataset", "task_type", "task", "contract", "policy_id")
"""Slices that are made by something else than a member of metadata."""


def metadata_value(metadata: object, field: str) -> Any:
    """The member of that name, or the one that a path of names leads to; None when there is none."""
    if isinstance(metadata, dict) and field in metadata:
        return metadata[field]
    first, _, rest = field.partition(".")
    return metadata_value(metadata[first], rest) if rest and isinstance(metadata, dict) and first in metadata else None


def member_text(value: object) -> str:
    """A value as `split_value` and reports write it: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
