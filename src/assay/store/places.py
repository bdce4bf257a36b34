"""Where the files of a published run are: a folder of this machine, or a prefix of an object store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from assay.store.artifacts import read_pieces
from assay.store.failures import disk_errors


class Place(Protocol):
    """The files of one published run."""

    @property
    def shown(self) -> str:
        """What people call it, without anything secret."""

    def names(self) -> set[str]:
        """Everything that is there."""

    def is_file(self, name: str) -> bool:
        """Whether it can be read as it is, and is not a link to elsewhere."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """A file in pieces that fit in memory; raises StoreUnavailable."""


class FolderPlace:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def shown(self) -> str:
        """Its path."""
        return str(self.path)

    def names(self) -> set[str]:
        """The entries of the folder; none where it is not there."""
        with disk_errors(self.path):
            return {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()

    def is_file(self, name: str) -> bool:
        """A regular file."""
        path = self.path / name
        return path.is_file() and not path.is_symlink()

    def pieces(self, name: str) -> Iterator[bytes]:
        """The file's bytes."""
        return read_pieces(self.path / name)
