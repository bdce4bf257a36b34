"""Datasets behind paths, patterns and folders."""

import glob
import os
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assay.core.canonical import JsonObject
from assay.core.contract import INPUT, MANIFEST, StoredName
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets import resolve_contract
from assay.datasets.parsing.formats import TABLE_SUFFIXES, holds_several
from assay.datasets.parsing.source import Source, is_packed, open_beginning, open_source

if TYPE_CHECKING:
    from assay.datasets.row_documents import DatasetParts

_HEAD_BYTES = 256
DATASET_SUFFIXES = (".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".gz")


def find_sources(patterns: Sequence[str], *, on_skip: Callable[[str], None] | None = None) -> tuple[str, ...]:
    """List the files behind paths, globs, folders and `-`; raises UsageProblem or SourceUnreadable.

    Of a folder only files that show a contract count; `on_skip` receives the others.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        found |= dict.fromkeys(_expanded(pattern, on_skip or _ignore))
    return tuple(found)


_MAX_PATH = 4_096
"""Characters of the longest path that a system takes."""


def check_path(text: str) -> None:
    """Raise UsageProblem for a text that is the content of a dataset and not the path of one."""
    is_content = "\n" in text or "\0" in text or len(text) > _MAX_PATH or text.lstrip()[:1] in ("{", "[")
    if is_content and not os.path.exists(text):  # noqa: PTH110  # a path object raises for what no path can be
        raise UsageProblem(
            f"a text of {len(text):,} characters is not the path of a file",
            hint="give the content as bytes (text.encode()) or as dicts (json.loads(text))",
        )


_PART = re.compile(r"(?P<path>.+)#(?P<number>[1-9][0-9]{0,5})\Z")


def open_dataset(path: str | Path) -> Source:
    """Open the source at a path; `FILE#2` is the second dataset of a file that holds several. Raises SourceUnreadable."""
    # A file may really be called `a#2`, so an existing path is never taken for a part.
    named = _PART.match(str(path))
    if named is None or Path(path).exists() or not Path(named["path"]).is_file():
        if is_saved_dataset(Path(path)):
            return _open_folder(Path(path))
        source = open_source(path)
        source.stored = next(iter(_stored_names(Path(path))), None)
        return source
    part = _parts_of(named["path"]).open(int(named["number"]))
    listed = {stored.name: stored for stored in _stored_names(Path(named["path"]))}
    part.stored = listed.get(part.stored.name, part.stored) if part.stored else None
    return part


_SAVED = ("dataset_dict.json", "dataset_info.json")
"""Files of which one is in the folder of a dataset that the library `datasets` has saved."""


def is_saved_dataset(folder: Path) -> bool:
    """Return whether a folder is one dataset, as the library `datasets` saves them."""
    return (folder / _SAVED[0]).is_file() or ((folder / _SAVED[1]).is_file() and (folder / "state.json").is_file())


def _open_folder(folder: Path) -> Source:
    """Open the folder of a saved dataset as a source whose bytes are the hashes of its files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder))
    hashes = {path.relative_to(folder).as_posix(): open_source(path).sha256() for path in files}
    source = open_source(msgspec.json.encode({"files": hashes}), name=str(folder))
    source.is_folder = True
    return source


class _StoredDataset(msgspec.Struct):
    path: str
    name: str
    file: str = ""
    validation: JsonObject = {}


class _StoredPlan(msgspec.Struct):
    datasets: tuple[_StoredDataset, ...]


class _InputManifest(msgspec.Struct):
    """Manifest of a run, as far as it describes the input stored with it."""

    plan: _StoredPlan


def _stored_names(path: Path) -> list[StoredName]:
    """Read the names that the datasets in a stored input had in their run, from the manifest next to it."""
    if path.name != INPUT:
        return []
    try:
        manifest = msgspec.json.decode((path.parent / MANIFEST).read_bytes(), type=_InputManifest)
    except (OSError, ValueError):
        return []
    return [
        StoredName(found.name, found.file or Path(found.path).name, found.validation.get("null_as_absent") is True)
        for found in manifest.plan.datasets
    ]


def _is_part(path: str) -> bool:
    named = _PART.match(path)
    return named is not None and Path(named["path"]).is_file()


def part_names(path: str | Path) -> list[str]:
    """List the names of the datasets in a file that holds several; none for any other file. Raises SourceUnreadable."""
    try:
        is_several = holds_several(open_beginning(str(path), _HEAD_BYTES))
    except SourceUnreadable:
        # The reader of the file reports why it cannot be read.
        return []
    return _parts_of(str(path)).names if is_several else []


def _parts_of(path: str) -> "DatasetParts":
    """Read the datasets of a file that holds several; they are opened one after the other, so the last such file is cached."""
    # Time, size and inode are part of the cache key, so that a changed file is read again.
    found = Path(path).stat()
    return _read_parts(path, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(1)
def _read_parts(path: str, *_file: int) -> "DatasetParts":
    # Imported here, because few datasets are such a document.
    parts: DatasetParts = import_module("assay.datasets.row_documents").DatasetParts(open_source(path))
    return parts


def _ignore(path: str) -> None:
    """Ignore a skipped file: the caller does not report them."""


def _expanded(pattern: str, on_skip: Callable[[str], None]) -> list[str]:
    path = Path(pattern)
    if pattern == "-":
        return [pattern]
    if path.is_file():
        return [f"{pattern}#{number}" for number, _ in enumerate(part_names(path), 1)] or [pattern]
    if is_saved_dataset(path):
        return [pattern]
    if path.is_dir():
        return files_in(path, on_skip=on_skip)
    if glob.has_magic(pattern):
        return files_like(pattern)
    if path.exists() or _is_part(pattern):
        return [pattern]
    raise SourceUnreadable(f"no such file or folder: {pattern!r}", hint=similar_file(path) or "check the path")


def files_in(
    folder: Path,
    *,
    on_skip: Callable[[str], None],
    on_run: Callable[[str], None] | None = None,
    is_any: bool = False,
    besides: Path | None = None,
) -> list[str]:
    """List the datasets at any depth of a folder by name; raises UsageProblem if there is none.

    Hidden files do not count, and those that show no contract count only with `is_any`. With `on_run`, files of runs and of the
    folder `besides` do not count either, and `on_run` receives these folders.
    """
    # Sorted, because the order of a directory differs between machines, and the order of datasets decides samples.
    candidates = sorted(str(path) for path in folder.rglob("*") if _may_be_dataset(path) and not _is_hidden(path, folder))
    if on_run is not None:
        # A folder of runs holds predictions and logs in JSON, which are not datasets and would give dozens of problems.
        outside = _NonRunFiles(folder, besides)
        candidates = [path for path in candidates if outside.has(Path(path))]
        for run in outside.runs:
            on_run(run)
    files: list[str] = []
    for path in candidates:
        if is_any or _shows_contract(path):
            files.append(path)
        else:
            on_skip(path)
    if not files:
        tables = sorted({path.suffix for path in folder.rglob("*") if path.suffix.lower() in TABLE_SUFFIXES})
        hint = f"tables are named one by one or by a pattern: '{folder}/*{tables[0]}'" if tables else ""
        raise UsageProblem(
            f"no datasets in folder {str(folder)!r}", hint=hint or f"looked for files ending in {', '.join(DATASET_SUFFIXES)}"
        )
    return files


class _NonRunFiles:
    """Filter for files of a folder that belong to no run."""

    def __init__(self, folder: Path, besides: Path | None) -> None:
        self.runs: dict[str, None] = {}
        """Folders of runs, or of all runs, whose files were left out."""
        self._folder = folder
        self._besides = besides
        self._known: dict[Path, bool] = {}

    def has(self, path: Path) -> bool:
        """Return whether a file is in no run folder below the folder; the folder itself may be one, since the caller named it."""
        parents = path.parents[: len(path.relative_to(self._folder).parts) - 1]
        inside = next((parent for parent in reversed(parents) if self._is_run(parent)), None)
        if inside is not None:
            self.runs[str(inside)] = None
        return inside is None

    def _is_run(self, folder: Path) -> bool:
        if folder not in self._known:
            self._known[folder] = folder == self._besides or (folder / MANIFEST).is_file()
        return self._known[folder]


def files_like(pattern: str) -> list[str]:
    """List the files that match a pattern by name; raises UsageProblem if there is none."""
    matches = sorted(match for match in glob.glob(pattern, recursive=True) if Path(match).is_file())  # noqa: PTH207  # Path.glob takes no absolute pattern
    if matches:
        return matches
    raise UsageProblem(f"no file matches {pattern!r}", hint="quote the pattern, or check the folder")


def _may_be_dataset(path: Path) -> bool:
    # A broken link counts, so that validation reports it; reading one to a pipe would block.
    return path.suffix.lower() in DATASET_SUFFIXES and (path.is_file() or (path.is_symlink() and not path.exists()))


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _shows_contract(path: str) -> bool:
    """Return whether a file shows a contract; an unreadable one counts, so that validation reports why."""
    try:
        return resolve_contract(open_beginning(path), "auto") is not None or _is_badly_packed(path)
    except SourceUnreadable:
        return True


def _is_badly_packed(path: str) -> bool:
    """Return whether a file named .gz is not gzip: half of a download, or an error page in its place."""
    return Path(path).suffix.lower() == ".gz" and not is_packed(path)


def similar_file(path: Path) -> str:
    """Return `did you mean 'evaluation.yaml'?` for a missing path with a similar neighbour; empty otherwise."""
    try:
        names = [] if path.exists() else [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    # The endings of datasets are much alike, and do not make two names similar.
    stems = get_close_matches(path.stem, {Path(name).stem for name in names}, cutoff=0.7)
    close = get_close_matches(path.name, [name for name in names if Path(name).stem in stems], n=1)
    return f"did you mean {str(path.parent / close[0])!r}?" if close else ""
