"""Attachments of a run whose stored input is run again: where they were, taken only when their content is what the run has seen."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay.core.input_document import INPUT, MANIFEST

_CASES = "cases.jsonl"
_MOST_REPEATS = 20
"""A run of a run's input names that run's folder, and so on."""


class _Dataset(msgspec.Struct):
    path: str = ""


class _Plan(msgspec.Struct):
    datasets: list[_Dataset] = []


class _Manifest(msgspec.Struct):
    plan: _Plan = msgspec.field(default_factory=_Plan)


class _Attachment(msgspec.Struct):
    path: str
    sha256: str = ""


class _Record(msgspec.Struct):
    attachments: list[_Attachment] = []


class _Line(msgspec.Struct):
    record: _Record = msgspec.field(default_factory=_Record)


def is_run_folder(folder: Path) -> bool:
    """True for a folder with the stored input of a run."""
    return (folder / MANIFEST).is_file() and (folder / INPUT).is_file()


def original_folders(folder: Path) -> tuple[Path, ...]:
    """The folders of the datasets that a run was made from, by its manifest; none where the folder is no run's."""
    found: dict[Path, None] = {}
    newest = [folder]
    for _ in range(_MOST_REPEATS):
        newest = [place for one in newest for place in _datasets_of(one) if place != folder and place not in found]
        found |= dict.fromkeys(newest)
    return tuple(found)


def _datasets_of(folder: Path) -> list[Path]:
    if not is_run_folder(folder):
        return []
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError):
        return []
    # A relative path is the name of a file that was sent to a server.
    return [path.parent for path in (Path(dataset.path) for dataset in manifest.plan.datasets) if path.is_absolute()]


def seen_contents(folder: Path) -> Mapping[str, frozenset[str]]:
    """The hashes of what a run has seen of each attachment, by path; empty where its records cannot be read."""
    found: dict[str, frozenset[str]] = {}
    decode = msgspec.json.Decoder(_Line).decode
    try:
        with (folder / _CASES).open("rb") as lines:
            for line in lines:
                for attachment in decode(line).record.attachments:
                    if attachment.sha256 and attachment.sha256 not in found.get(attachment.path, ()):
                        found[attachment.path] = found.get(attachment.path, frozenset()) | {attachment.sha256}
    except (OSError, msgspec.DecodeError):
        return {}
    return found
