"""Artifacts of a run: written once into a staging folder, hashed on the way, published by one rename, verified at any time."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from assay.core.errors import RunSealed
from assay.core.input_document import INPUT, MANIFEST
from assay.store.evidence import self_hashed
from assay.store.failures import disk_errors, sync_folder

ARTIFACTS = (
    MANIFEST,
    INPUT,
    "record_validation.jsonl",
    "predictions.jsonl",
    "attempt_logs.jsonl",
    "metrics_summary.json",
    "metrics_by_slice.json",
    "failures.jsonl",
)
"""What every run leaves behind."""

CASES = "cases.jsonl"
"""Every accepted record in the one form that all contracts share, as it was asked and graded; runs of earlier versions have these
entries in input_dataset.json."""

EXPORTS = ("responses.jsonl", "eval_results.json")
"""What other tools read."""

OWN_HASH = "manifest_sha256"
"""Member of the manifest: SHA-256 of its canonical JSON without this member."""

_STAGING = "staging-"
_BUFFER = 1 << 18


class ArtifactHash(msgspec.Struct, frozen=True):
    """What the manifest says of one file."""

    sha256: str
    bytes: int
    lines: int
    """Newline characters."""


class Writer:
    """One artifact being written; hashed and counted in large pieces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._sha256 = hashlib.sha256()
        self._bytes = 0
        self._lines = 0
        with disk_errors(path):
            self._file = path.open("xb", buffering=0)

    def line(self, text: bytes) -> None:
        """One line, without its newline and with no other."""
        self.write(text + b"\n", lines=1)

    def write(self, text: bytes, *, lines: int | None = None) -> None:
        """Bytes as they are, and how many newlines they have where that is known; raises StoreUnavailable when the disk refuses."""
        self._pieces.append(text)
        self._lines += text.count(b"\n") if lines is None else lines
        self._waiting += len(text)
        if self._waiting >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        piece = b"".join(self._pieces)
        self._pieces, self._waiting = [], 0
        self._sha256.update(piece)
        self._bytes += len(piece)
        rest = memoryview(piece)
        with disk_errors(self._path):
            while rest:
                # A raw file may take less than it was given, and says so.
                rest = rest[self._file.write(rest) :]

    def finish(self) -> ArtifactHash:
        """Everything is on the disk, and nobody may change it; further calls only repeat the hash."""
        if not self._file.closed:
            self._flush()
            with disk_errors(self._path):
                os.fchmod(self._file.fileno(), 0o444)
                os.fsync(self._file.fileno())
                self._file.close()
        return ArtifactHash(self._sha256.hexdigest(), self._bytes, self._lines)

    def discard(self) -> None:
        """Let go of the file as it is."""
        self._file.close()


class Staging:
    """A folder in which the artifacts of one run are written; it disappears unless it is published.

    Files end as 0444. The folder stays 0755: a rename into another folder and a later purge need to write it, and so does
    whoever clears away old runs; what keeps a run as it was is that every changed byte shows.
    """

    def __init__(self, work: Path) -> None:
        self.folder = work / f"{_STAGING}{secrets.token_hex(8)}"
        self._writers: dict[str, Writer] = {}
        self._manifest = b""
        with disk_errors(self.folder):
            self.folder.mkdir(mode=0o755, parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        for writer in self._writers.values():
            writer.discard()
        shutil.rmtree(self.folder, ignore_errors=True)

    def open_lines(self, name: str) -> Writer:
        """A writer for a file of lines; seal() finishes it."""
        self._writers[name] = Writer(self.folder / name)
        return self._writers[name]

    def write(self, name: str, content: bytes) -> None:
        """A whole file."""
        writer = self.open_lines(name)
        writer.write(content)
        writer.finish()

    def seal(self, manifest: dict[str, Any]) -> bytes:
        """Finish all files, write the manifest with their hashes last, and force everything to the disk; returns the manifest."""
        hashes = {name: msgspec.to_builtins(writer.finish()) for name, writer in self._writers.items()}
        self._manifest = self_hashed({**manifest, "artifacts": hashes}, OWN_HASH)
        self.write(MANIFEST, self._manifest)
        sync_folder(self.folder)
        return self._manifest

    def restore(self, manifest: bytes, files: Iterable[tuple[str, Iterator[bytes]]]) -> None:
        """Write the files of a run that was sealed elsewhere, its manifest last, and force everything to the disk."""
        for name, pieces in files:
            writer = self.open_lines(name)
            for piece in pieces:
                writer.write(piece)
            writer.finish()
        self._manifest = manifest
        self.write(MANIFEST, manifest)
        sync_folder(self.folder)

    def publish(self, target: Path) -> None:
        """Move the sealed folder to its final place in one step.

        A folder that is already there stays: that is fine when it has the same manifest, which holds the hashes of everything
        else, and RunSealed when it has not.
        """
        assert self._manifest, "seal() or restore() comes first"
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.folder.rename(target)
            except OSError:
                if not os.path.lexists(target):
                    raise
                if not _has_manifest(target, self._manifest):
                    raise RunSealed(
                        f'"{target}" exists already', hint="artifacts are written once; start a new run under another id"
                    ) from None
        sync_folder(target.parent)


def _has_manifest(target: Path, manifest: bytes) -> bool:
    path = target / MANIFEST
    return path.is_file() and path.read_bytes() == manifest


def remove_stale_staging(work: Path) -> int:
    """Remove what interrupted publications left; only for the holder of the run's lock. Returns how many there were."""
    stale = [path for path in work.glob(f"{_STAGING}*") if path.is_dir()]
    with disk_errors(work):
        for path in stale:
            shutil.rmtree(path)
    return len(stale)


def read_pieces(path: Path) -> Iterator[bytes]:
    """A file in pieces that fit in memory; raises StoreUnavailable."""
    with disk_errors(path), path.open("rb", buffering=0) as file:
        while piece := file.read(_BUFFER):
            yield piece
