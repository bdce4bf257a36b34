"""File operations below the folder of a history's runs: each is a point at which a process may die, and one of them may fail."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.simulation.world import World

_CHANGES = frozenset({"open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod", "os.truncate"})
_watching: list["FileWatch"] = []
"""The interpreter keeps an audit hook for good, so that there is one for all histories, and it looks here."""
_hooks: list[str] = []


class FileWatch:
    """Counts what one process does with files, and lets one operation fail."""

    def __init__(self, world: World, folder: Path, *, failing: int | None) -> None:
        self._world = world
        self._folder = f"{folder}/"
        self._failing = failing
        self._count = 0

    def operation(self, event: str, path: str) -> None:
        """One file operation; raises OSError where it fails and Killed where the process dies."""
        if self._world.is_dead or not path.startswith(self._folder):
            return
        self._world.point(event)
        self._count += 1
        if self._count == self._failing:
            self._world.note("file", event)
            raise OSError(errno.ENOSPC, "No space left on device", path)


def _audit(event: str, values: tuple[Any, ...]) -> None:
    if _watching and event in _CHANGES:
        _watching[-1].operation(event, str(values[0]))


@contextmanager
def watched(watch: FileWatch) -> Iterator[None]:
    """Inside, the watch sees every file operation of this process."""
    if not _hooks:
        sys.addaudithook(_audit)
        _hooks.append("there")
    _watching.append(watch)
    try:
        yield
    finally:
        _watching.remove(watch)


@contextmanager
def unwatched() -> Iterator[None]:
    """Inside, nobody looks: what the simulation itself does with files is no part of the history."""
    hidden = _watching[:]
    _watching.clear()
    try:
        yield
    finally:
        _watching.extend(hidden)
