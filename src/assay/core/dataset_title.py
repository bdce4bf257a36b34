"""What people call the dataset of a run: its id and version, and next to them the file that it was read from."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from assay.core.run_result import RunListing

_OWN_VERSION = "sha256:"
"""Begins the version of a dataset that has none of its own."""


def file_stem(path: str) -> str:
    """The file's name without its endings `.gz` and `.jsonl` or such."""
    name = PurePath(path).name.removesuffix(".gz")
    return PurePath(name).stem or name


def dataset_file(dataset: Mapping[str, Any]) -> str:
    """The name of the file of a dataset, as a plan in a manifest has it; earlier versions have the path alone."""
    return str(dataset.get("file") or PurePath(dataset.get("path") or "").name)


def further_names(dataset: Mapping[str, Any]) -> tuple[str, ...]:
    """What else a dataset is called: the name that the run gives it, where that is another one, and its file."""
    file, dataset_id = dataset_file(dataset), dataset["dataset_id"]
    name = dataset.get("name") or ""
    return tuple(word for word in (name if name not in (dataset_id, file_stem(file)) else "", file) if word not in ("", dataset_id))


def dataset_words(dataset: Mapping[str, Any]) -> tuple[str, ...]:
    """Id, version and contract, and what else it is called."""
    words = (dataset["dataset_id"], dataset["dataset_version"], dataset["contract"])
    return (*(str(word) for word in words if word), *further_names(dataset))


def listed_dataset(run: RunListing) -> str:
    """The dataset of a run in a list."""
    return dataset_title({"dataset_id": run.dataset, "dataset_version": run.dataset_version, "file": run.dataset_file})


def dataset_title(dataset: Mapping[str, Any]) -> str:
    """The same in a few words: `support-answers 2026-10-01 (answers.json)`."""
    version, others = dataset.get("dataset_version") or "", ", ".join(further_names(dataset))
    shown = "" if version.startswith(_OWN_VERSION) else version
    return " ".join(filter(None, (dataset["dataset_id"], shown, f"({others})" if others else "")))
