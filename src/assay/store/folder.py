"""Finished runs, read back: the manifest, documents and lines of a run folder, and what retention has left of them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import ArtifactGone, RunDamaged, RunNotFound, StoreUnavailable
from assay.core.input_document import INPUT, MANIFEST
from assay.store.artifacts import CASES, read_pieces
from assay.store.failures import disk_errors

TOMBSTONES = "purged.json"
"""Lists the artifacts that retention has removed; the only file that comes into a run folder after it was published."""

TOMBSTONES_OWN_HASH = "purged_sha256"
"""Member of that file: SHA-256 of its canonical JSON without this member."""


class Tombstone(msgspec.Struct, frozen=True):
    """What is left of an artifact that retention has removed."""

    name: str
    sha256: str
    bytes: int
    lines: int
    purged_at: str
    """UTC, as 2026-01-31T12:00:00Z."""
    reason: str


class _Purged(msgspec.Struct):
    purged: tuple[Tombstone, ...]


class RunFolder:
    """A published run."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    def document(self, name: str) -> Any:
        """A JSON artifact; raises RunNotFound when it is not there any more."""
        path = self.artifact(name)
        return decoded(b"".join(read_pieces(path)), path)

    def lines(self, name: str, start: int = 0) -> Iterator[dict[str, Any]]:
        """The objects of a JSONL artifact from a line on, one at a time; raises RunNotFound when it is not there any more."""
        path = self.artifact(name)
        for line in islice(split_lines(read_pieces(path)), start, None):
            yield decoded(line, path)

    def raw_lines(self, name: str) -> Iterator[bytes]:
        """The lines of a JSONL artifact as they are, for who needs few of their members; raises RunNotFound as `lines` does."""
        return split_lines(read_pieces(self.artifact(name)))

    def lines_at(self, name: str, offsets: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The objects of a JSONL artifact that begin at these bytes, without the others; raises RunNotFound as `lines` does."""
        path = self.artifact(name)
        with disk_errors(path), path.open("rb") as file:
            for offset in offsets:
                file.seek(offset)
                yield decoded(file.readline(), path)

    def span(self, name: str, start: int, size: int) -> bytes:
        """A part of an artifact; raises RunNotFound as `lines` does, StoreUnavailable where the file has become shorter."""
        path = self.artifact(name)
        with disk_errors(path), path.open("rb", buffering=0) as file:
            file.seek(start)
            found = file.read(size)
        if len(found) != size:
            raise RunDamaged(f'"{path}" is damaged: it is shorter than it was')
        return found

    @property
    def cases_name(self) -> str:
        """The artifact with the cases: a file of their own, or the input of a run that an earlier version sealed."""
        return CASES if CASES in (self.manifest.get("artifacts") or {}) else INPUT

    def raw_records(self) -> Iterator[tuple[int, bytes]]:
        """The cases as they were asked, in order, each with its offset in its artifact; raises RunNotFound as `lines` does."""
        name = self.cases_name
        start = 0
        for number, line in enumerate(split_lines(read_pieces(self.artifact(name)))):
            entry = line.removesuffix(b",") if name == INPUT else line
            # In the input of an earlier version the first line is the head of the document, and the last one its end.
            if entry and (name == CASES or (number and entry != b"]}")):
                yield start, entry
            start += len(line) + 1

    def records(self) -> Iterator[dict[str, Any]]:
        """The cases as they were asked, one at a time; raises RunNotFound as `lines` does."""
        path = self.path / self.cases_name
        return (decoded(entry, path) for _, entry in self.raw_records())

    def purged(self) -> tuple[Tombstone, ...]:
        """What retention has removed so far."""
        return read_tombstones(self.path)

    def removed(self) -> tuple[Tombstone, ...]:
        """What retention has removed and is gone; none where the list of it is damaged, which a verification names."""
        try:
            return tuple(tombstone for tombstone in self.purged() if not (self.path / tombstone.name).exists())
        except StoreUnavailable:
            return ()

    def artifact(self, name: str) -> Path:
        """The file of an artifact; raises RunNotFound, or ArtifactGone where retention has removed it."""
        path = self.path / name
        if not path.is_file():
            hint = "`assay verify` names what is left"
            if any(tombstone.name == name for tombstone in self.removed()):
                raise ArtifactGone(f'"{path}" was removed by retention', hint=hint)
            raise RunNotFound(f'"{path}" is missing', hint=hint)
        return path


def open_run_folder(path: Path) -> RunFolder:
    """A published run; raises RunNotFound when the folder holds none, StoreUnavailable when its manifest is damaged."""
    manifest = decoded(read_manifest(path), path / MANIFEST)
    if not isinstance(manifest, dict):
        raise RunDamaged(f'"{path / MANIFEST}" is damaged: it is no object')
    return RunFolder(path, manifest)


def read_manifest(path: Path) -> bytes:
    """The manifest of a run folder as it is; raises RunNotFound when there is none."""
    manifest = path / MANIFEST
    if not manifest.is_file():
        raise RunNotFound(f'there is no finished run at "{path}"', hint="`assay runs` lists the runs of a folder")
    return b"".join(read_pieces(manifest))


def read_tombstones(path: Path) -> tuple[Tombstone, ...]:
    """What retention has removed from a run folder; raises StoreUnavailable when the list is damaged."""
    file = path / TOMBSTONES
    if not file.is_file():
        return ()
    try:
        return parsed_tombstones(b"".join(read_pieces(file)))
    except ValueError as problem:
        raise StoreUnavailable(f'"{file}" is damaged: {problem}', hint="restore it from a copy") from problem


def parsed_tombstones(text: bytes) -> tuple[Tombstone, ...]:
    """The tombstones of such a file; raises ValueError when it is damaged."""
    return msgspec.json.decode(text, type=_Purged).purged


def decoded(text: bytes, path: Path) -> Any:
    """JSON of a run folder; raises StoreUnavailable when it is none."""
    try:
        return msgspec.json.decode(text)
    except ValueError as problem:
        raise RunDamaged(f'"{path}" is damaged: {problem}') from problem


def split_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their newlines; what follows the last newline is a line too."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        yield rest
