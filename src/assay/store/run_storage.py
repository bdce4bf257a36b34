"""Storage of a published run's files: a local folder, or a prefix of an object store, which is an integration."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Protocol

from assay.core.errors import RunSealed
from assay.core.input_document import MANIFEST
from assay.core.integrations import load_integration
from assay.store.artifacts import read_pieces
from assay.store.failures import disk_errors

WHOLE = 16 << 20
"""Maximum bytes of a file sent to an object store in one request, which holds it in memory; larger ones are uploaded in parts."""


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


class RemoteRunStorage(RunStorage, Protocol):
    """A prefix of an object store."""

    def check(self) -> None:
        """Send one request to check access; raises StoreRefused, or StoreUnavailable when the store does not answer."""

    def put(self, name: str, path: Path) -> bool:
        """Write a new object; False when it exists, and then it is unchanged."""


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


def is_remote_address(text: str) -> bool:
    """Tell whether the text is an address in an object store, such as s3://bucket/runs/nightly."""
    return "://" in text and bool(_object_store().is_object_address(text))


def open_remote_storage(address: str) -> RemoteRunStorage:
    """Open a prefix of an object store; raises UsageProblem for an invalid address, and MissingExtra."""
    storage: RemoteRunStorage = _object_store().ObjectRunStorage(address)
    return storage


def _object_store() -> ModuleType:
    return load_integration("object_store", user="an object store")


def publish_files(folder: Path, address: str) -> int:
    """Write the files of a sealed run below an address of an object store; returns how many were new.

    The manifest comes last: without it the objects are not a run. Existing objects must be equal; raises RunSealed when one
    differs, and changes nothing. Small files come first: of two runs with one name only one gets past them.
    """
    target, source = open_remote_storage(address), LocalRunStorage(folder)
    names = sorted(source.names(), key=lambda name: (name == MANIFEST, (folder / name).stat().st_size > WHOLE, name))
    written = 0
    for name in names:
        if target.put(name, folder / name):
            written += 1
        elif _digest(target.pieces(name)) != _digest(source.pieces(name)):
            raise RunSealed(
                f"{target.shown}/{name} is there already, and is another one", hint="publish the run below another address"
            )
    return written


def _digest(pieces: Iterator[bytes]) -> bytes:
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
