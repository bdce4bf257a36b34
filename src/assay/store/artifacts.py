"""Hashes that chain the records and attempts of a run, so that every changed, dropped or moved line is detected."""

import hashlib
import os
import secrets
import shutil
from binascii import hexlify
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.contract import INPUT, MANIFEST
from assay.core.errors import RunSealed
from assay.core.manifest import OWN_HASH, ArtifactHash
from assay.store.failures import disk_errors, sync_folder

_CHAIN_OPENING = b',"chain_sha256":"'
_CHAIN_TAIL = len(_CHAIN_OPENING) + 64 + len(b'"}')
# The first line has a predecessor too, so that nothing can be put in front of it.
_CHAIN_START = bytes(32)


class AttemptChain:
    """Hash chain over attempt_logs.jsonl: each line carries the hash of the line before it and of its own bytes.

    `chain_sha256` is a line's last member. It is SHA-256 of the previous line's hash (32 raw bytes, zero for the first line)
    and the line's bytes without that member and without its newline.
    """

    def __init__(self) -> None:
        self._link = _CHAIN_START

    def line(self, body: bytes) -> bytes:
        """Append the chain hash as one more member to a JSON object that has members; without a newline."""
        return self.lines((body,))[:-1]

    def lines(self, bodies: Iterable[bytes]) -> bytes:
        """Append the chain hash and a newline to each JSON object."""
        link = self._link
        pieces: list[bytes] = []
        for body in bodies:
            link = hashlib.sha256(link + body).digest()
            # Spliced into the encoded line: decoding and encoding it again would cost more than the hash.
            pieces += (body[:-1], _CHAIN_OPENING, hexlify(link), b'"}\n')
        self._link = link
        return b"".join(pieces)

    def follows(self, line: bytes) -> bool:
        """Return whether the line continues the chain."""
        return self.line(line[:-_CHAIN_TAIL] + b"}") == line

    def hexdigest(self) -> str:
        """Return the hash of the last line, which covers all lines."""
        return self._link.hex()


class MerkleTree:
    """Merkle tree hash of RFC 6962 over leaves added one by one; keeps one hash per level."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []
        """Height and hash of the complete subtrees so far, the highest first."""

    def add(self, leaf: bytes) -> None:
        """Add the next leaf."""
        # Leaves and inner nodes have different first bytes (RFC 6962): otherwise an inner node could be passed off as a record.
        height, node = 0, hashlib.sha256(b"\x00" + leaf).digest()
        while self._peaks and self._peaks[-1][0] == height:
            node = hashlib.sha256(b"\x01" + self._peaks.pop()[1] + node).digest()
            height += 1
        self._peaks.append((height, node))

    def hexdigest(self) -> str:
        """Return the root over the leaves so far."""
        if not self._peaks:
            return hashlib.sha256(b"").hexdigest()
        root = self._peaks[-1][1]
        for _, peak in reversed(self._peaks[:-1]):
            root = hashlib.sha256(b"\x01" + peak + root).digest()
        return root.hex()


def merkle_root(leaves: Iterable[bytes]) -> str:
    """Compute the Merkle tree hash (RFC 6962, 2.1) of all leaves; a record's leaf is its `record_sha256` as 32 bytes."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    return tree.hexdigest()


def self_hashed(document: Mapping[str, object], member: str) -> bytes:
    """Return the document as indented JSON with one more member: the SHA-256 of its canonical JSON without that member."""
    digest = sha256_hex(canonical_json(document))
    # Canonical before it is indented, so that the same content always has the same bytes.
    return msgspec.json.format(canonical_json({**document, member: digest}), indent=2) + b"\n"


def has_own_hash(text: bytes, member: str) -> bool:
    """Return whether the bytes are exactly what self_hashed made of their content."""
    try:
        document = msgspec.json.decode(text)
        return isinstance(document, dict) and document.pop(member, None) is not None and self_hashed(document, member) == text
    except (msgspec.DecodeError, ValueError):
        return False


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
"""Files of every finished run."""

# Next to the input and not in it: the input is a document of its contract, which commands take again.
CASES = "cases.jsonl"
"""Accepted records in the form that all contracts share, as they were asked and graded; runs of earlier versions have these
entries in input_dataset.json."""

EXPORTS = ("responses.jsonl", "eval_results.json")
"""Files in the formats of other tools."""

_STAGING = "staging-"
_BUFFER = 1 << 18


class Writer:
    """Writer of one artifact; hashes and counts in large pieces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._sha256 = hashlib.sha256()
        self._bytes = 0
        self._lines = 0
        with disk_errors(path):
            # x: a name that exists belongs to another writer, and artifacts are written once.
            self._file = path.open("xb", buffering=0)

    def line(self, text: bytes) -> None:
        """Write one line; the text holds no newline."""
        self.write(text + b"\n", lines=1)

    def write(self, text: bytes, *, lines: int | None = None) -> None:
        """Write bytes and count their newlines, or take `lines` for the count; raises StoreUnavailable when the disk refuses."""
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
                # A raw write may be short, for example on a nearly full disk; write the rest.
                rest = rest[self._file.write(rest) :]

    def finish(self) -> ArtifactHash:
        """Flush the file to the disk and make it read-only; further calls only return the hash again."""
        if not self._file.closed:
            self._flush()
            with disk_errors(self._path):
                # By descriptor, before the file is closed: the name may meanwhile be another file.
                os.fchmod(self._file.fileno(), 0o444)
                os.fsync(self._file.fileno())
                self._file.close()
        return ArtifactHash(self._sha256.hexdigest(), self._bytes, self._lines)

    def discard(self) -> None:
        """Close the file as it is."""
        self._file.close()


class StagingFolder:
    """Staging folder of one run's artifacts; it is removed unless it is published.

    Files end as 0444. The folder stays 0755: a rename into another folder, a later purge and a cleanup of old runs write to it.
    Protection comes from the hashes, which show every changed byte, not from permissions.
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
        # After publish() the folder has another name, and nothing is left here to remove.
        shutil.rmtree(self.folder, ignore_errors=True)

    def open_lines(self, name: str) -> Writer:
        """Open a file of lines; seal() finishes it."""
        self._writers[name] = Writer(self.folder / name)
        return self._writers[name]

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file."""
        writer = self.open_lines(name)
        writer.write(content)
        writer.finish()

    def seal(self, manifest: Mapping[str, object]) -> bytes:
        """Finish all files, write the manifest with their hashes last, and force everything to the disk; returns the manifest."""
        hashes = {name: msgspec.to_builtins(writer.finish()) for name, writer in self._writers.items()}
        self._manifest = self_hashed({**manifest, "artifacts": hashes}, OWN_HASH)
        # Last, because a folder counts as a run by its manifest, which names the hashes of all other files.
        self.write(MANIFEST, self._manifest)
        sync_folder(self.folder)
        return self._manifest

    def restore(self, manifest: bytes, files: Iterable[tuple[str, Iterator[bytes]]]) -> None:
        """Write the files of a run that was sealed on another machine, its manifest last, and force everything to the disk."""
        for name, pieces in files:
            writer = self.open_lines(name)
            for piece in pieces:
                writer.write(piece)
            writer.finish()
        self._manifest = manifest
        self.write(MANIFEST, manifest)
        sync_folder(self.folder)

    def publish(self, target: Path) -> None:
        """Move the sealed folder to its final path in one step.

        A folder that is already there is never replaced: publishing succeeds when it has the same manifest, which holds the
        hashes of everything else, and raises RunSealed otherwise.
        """
        assert self._manifest, "seal() or restore() comes first"
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                # A rename is atomic: readers see all artifacts or none, whenever the process dies.
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
    """Remove what interrupted publications left and return how many there were; only the holder of the run's lock may call it."""
    stale = [path for path in work.glob(f"{_STAGING}*") if path.is_dir()]
    with disk_errors(work):
        for path in stale:
            shutil.rmtree(path)
    return len(stale)


def read_pieces(path: Path) -> Iterator[bytes]:
    """Read a file in pieces that fit in memory; raises StoreUnavailable."""
    with disk_errors(path), path.open("rb", buffering=0) as file:
        while piece := file.read(_BUFFER):
            yield piece
