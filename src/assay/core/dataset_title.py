"""Titles of a run's datasets for people: id, version and file name."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from assay.core.run_result import RunListing

_OWN_VERSION = "sha256:"
"""Prefix of a version that was derived from the content, because the dataset has none."""


def file_stem(path: str) -> str:
    """Return the file's name without extensions such as `.jsonl` and `.gz`."""
    name = PurePath(path).name.removesuffix(".gz")
    return PurePath(name).stem or name


def dataset_file(dataset: Mapping[str, Any]) -> str:
    """Return a dataset's file name from a plan in a manifest; earlier versions have the path only."""
    return str(dataset.get("file") or PurePath(dataset.get("path") or "").name)


def further_names(dataset: Mapping[str, Any]) -> tuple[str, ...]:
    """List other names of a dataset: the run's name for it, if different, and its file."""
    file, dataset_id = dataset_file(dataset), dataset["dataset_id"]
    name = dataset.get("name") or ""
    return tuple(word for word in (name if name not in (dataset_id, file_stem(file)) else "", file) if word not in ("", dataset_id))


def dataset_words(dataset: Mapping[str, object]) -> tuple[str, ...]:
    """List id, version and contract, and the other names."""
    words = (dataset["dataset_id"], dataset["dataset_version"], dataset["contract"])
    return (*(str(word) for word in words if word), *further_names(dataset))


def listed_dataset(run: RunListing) -> str:
    """Title the first dataset of a run in a list."""
    return dataset_title({"dataset_id": run.dataset, "dataset_version": run.dataset_version, "file": run.dataset_file})


def more_datasets(run: RunListing) -> str:
    """Count the datasets that the title leaves out: ` and 3 more`."""
    return f" and {run.dataset_count - 1:,} more" if run.dataset_count > 1 else ""


def dataset_title(dataset: Mapping[str, Any]) -> str:
    """Build a short title: `support-answers 2026-10-01 (answers.json)`."""
    version, others = dataset.get("dataset_version") or "", ", ".join(further_names(dataset))
    version_text = "" if version.startswith(_OWN_VERSION) else version
    return " ".join(filter(None, (dataset["dataset_id"], version_text, f"({others})" if others else "")))
