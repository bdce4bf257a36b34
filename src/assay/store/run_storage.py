"""Storage of a published run's files: a local folder, or a prefix of an object store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from assay.store.artifacts import read_pieces
from assay.store.failures import disk_errors


class RunStorage(Protocol):
    """The files of one published run."""

    @property
    def shown(self) -> str:
        """The address for messages, without anything secret."""

    def names(self) -> set[str]:
        """List all names in the storage."""

    def is_file(self, name: str) -> bool:
        """Tell whether the name is a readable file, and not a link."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """Read a file in pieces that fit in memory; raises StoreUnavailable."""


class LocalRunStorage:
    """A folder on this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def shown(self) -> str:
        """The path."""
        return str(self.path)

    def names(self) -> set[str]:
        """List the entries of the folder; none when it does not exist."""
        with disk_errors(self.path):
            return {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()

    def is_file(self, name: str) -> bool:
        """Tell whether the name is a regular file."""
        path = self.path / name
        return path.is_file() and not path.is_symlink()

    def pieces(self, name: str) -> Iterator[bytes]:
        """Read the file's bytes."""
        return read_pieces(self.path / name)
