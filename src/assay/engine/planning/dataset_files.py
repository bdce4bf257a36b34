"""One dataset of a run file or an option into those of its files, where it names a folder or a pattern."""

import glob
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from assay.core.dataset_title import file_stem
from assay.core.settings import DatasetEntry
from assay.datasets.dataset_paths import files_in, files_like


def names_files(place: Path) -> bool:
    """True for a folder, and for a pattern that is not itself the name of a file."""
    return place.is_dir() or (glob.has_magic(str(place)) and not place.exists())


def dataset_files(
    entry: DatasetEntry,
    place: Path,
    *,
    is_any: bool,
    besides: Path,
    on_skip: Callable[[str], None],
    on_run: Callable[[str], None],
) -> list[DatasetEntry]:
    """An entry for each file, in the order of their names; raises UsageProblem where there is none.

    Of a folder only files that show a contract count, unless any is wanted, and none of a run or of the folder `besides`.
    """
    if place.is_dir():
        found = files_in(place, on_skip=on_skip, on_run=on_run, is_any=is_any, besides=besides)
    else:
        found = files_like(str(place))
    files = [Path(path) for path in found]
    folder = place if place.is_dir() else Path(os.path.commonpath([file.parent for file in files]))
    entries: list[DatasetEntry] = []
    names: set[str] = set()
    for file in files:
        name = (file.relative_to(folder).parent / file_stem(file.name)).as_posix()
        if name in names:
            name = file.relative_to(folder).as_posix()
        names.add(name)
        entries.append(msgspec.structs.replace(entry, path=str(file), name=f"{entry.name}/{name}" if entry.name else name))
    return entries
