"""Verification: whether every file of a run is as it was published."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Set
from pathlib import Path

import msgspec

from assay.core.contract import MANIFEST
from assay.core.errors import RunDamaged, RunNotFound
from assay.core.manifest import OWN_HASH, ArtifactHash
from assay.store.artifacts import AttemptChain, MerkleTree, has_own_hash
from assay.store.published_run import (
    TOMBSTONES,
    TOMBSTONES_OWN_HASH,
    LocalRunStorage,
    RunStorage,
    Tombstone,
    open_run_folder,
    parsed_tombstones,
    split_lines,
)


# Its own struct with a few members: a verification must not fail because another member of the manifest is damaged.
class ManifestHashes(msgspec.Struct):
    """The members of the manifest that everything else is checked against."""

    artifacts: dict[str, ArtifactHash]
    records_merkle_root: str
    """merkle_root over `record_sha256` of predictions.jsonl, in its order."""
    attempt_chain_sha256: str
    """`chain_sha256` of the last line of attempt_logs.jsonl; 64 zeros when it has no line."""


class _PredictionHashes(msgspec.Struct):
    record_sha256: str


_decode_prediction = msgspec.json.Decoder(_PredictionHashes).decode


class FileProblem(msgspec.Struct, frozen=True):
    """A file of a run that is not as it was published."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


_Check = Callable[[Iterator[bytes], ManifestHashes], str | None]


def verify_run(path: Path) -> list[FileProblem]:
    """List the files of a run folder that are not as they were published; see `verify_place`."""
    return verify_place(LocalRunStorage(path))


def verify_place(storage: RunStorage) -> list[FileProblem]:
    """List the files of a run that are not as they were published; empty when no problem is found.

    A purged artifact is well when its tombstone agrees with the manifest. Raises RunNotFound for a storage without a run,
    StoreUnavailable when a file cannot be read.
    """
    present = storage.names()
    problems, expected = _manifest(storage, present)
    if expected is None:
        return problems
    tombstones = b"".join(storage.pieces(TOMBSTONES)) if TOMBSTONES in present else b""
    purged = _purged(tombstones, expected)
    for name in sorted(expected.artifacts):
        if name in present:
            problems += _check_file(storage, name, expected)
        elif name not in purged:
            problems.append(FileProblem(name, "is missing"))
    if tombstones and not has_own_hash(tombstones, TOMBSTONES_OWN_HASH):
        problems.append(FileProblem(TOMBSTONES, "was changed, its own hash differs"))
    # A file that was added later would be taken for a part of the run by every later reader of the folder.
    extra = present - {*expected.artifacts, MANIFEST, TOMBSTONES}
    return problems + [FileProblem(name, "is not part of the run") for name in sorted(extra)]


def changed_artifacts(path: Path, names: Collection[str]) -> list[FileProblem]:
    """List which of the manifest and these artifacts were changed since publication; missing ones are skipped."""
    storage = LocalRunStorage(path)
    present = storage.names()
    problems, expected = _manifest(storage, present)
    if expected is not None:
        for name in sorted({*names} & present & {*expected.artifacts}):
            problems += _check_file(storage, name, expected)
    return problems


def _manifest(storage: RunStorage, present: Set[str]) -> tuple[list[FileProblem], ManifestHashes | None]:
    """Check the manifest; returns its problems, and the expected hashes unless it cannot be read."""
    if MANIFEST not in present:
        raise RunNotFound(f'there is no finished run at "{storage.shown}"', hint="`assay runs` lists the runs of a folder")
    manifest = b"".join(storage.pieces(MANIFEST))
    problems = [] if has_own_hash(manifest, OWN_HASH) else [FileProblem(MANIFEST, "was changed, its own hash differs")]
    try:
        return problems, msgspec.json.decode(manifest, type=ManifestHashes)
    except ValueError as problem:
        return [FileProblem(MANIFEST, f"was changed, it cannot be read: {problem}")], None


def removed_artifacts(path: Path) -> tuple[Tombstone, ...]:
    """List what retention has removed from a run folder; tombstones that do not agree with the manifest are ignored."""
    try:
        run = open_run_folder(path)
        hashes = run.hashes
    except RunDamaged:
        return ()
    return tuple(
        tombstone for tombstone in run.removed() if tombstone.name in hashes and hashes[tombstone.name].sha256 == tombstone.sha256
    )


def _purged(tombstones: bytes, expected: ManifestHashes) -> set[str]:
    """Name the purged artifacts whose tombstones agree with the manifest; none for a damaged list, which is reported separately."""
    try:
        removed = parsed_tombstones(tombstones) if tombstones else ()
    except ValueError:
        return set()
    hashes = expected.artifacts
    return {
        tombstone.name for tombstone in removed if tombstone.name in hashes and hashes[tombstone.name].sha256 == tombstone.sha256
    }


def _check_file(storage: RunStorage, name: str, expected: ManifestHashes) -> Iterator[FileProblem]:
    """Check one file in a single pass."""
    if not storage.is_file(name):
        yield FileProblem(name, "is not a regular file")
        return
    # Hash and content are checked in the same pass: artifacts may be gigabytes, and lie in an object store.
    reader = _HashingReader(storage.pieces(name))
    detail = _CHECKS.get(name, _drain)(reader.pieces(), expected)
    # Also when the content check fails: the hash says that a file was changed, the content which line.
    if reader.result() != expected.artifacts[name]:
        yield FileProblem(name, "was changed, its SHA-256, bytes or lines differ from the manifest")
    if detail:
        yield FileProblem(name, detail)


class _HashingReader:
    """Hashes and counts a file while a check reads it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._sha256 = hashlib.sha256()
        self._bytes = 0
        self._lines = 0

    def pieces(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._sha256.update(piece)
            self._bytes += len(piece)
            self._lines += piece.count(b"\n")
            yield piece

    def result(self) -> ArtifactHash:
        return ArtifactHash(self._sha256.hexdigest(), self._bytes, self._lines)


def _drain(pieces: Iterator[bytes], _: ManifestHashes) -> None:
    for _piece in pieces:
        pass


def _check_chain(pieces: Iterator[bytes], expected: ManifestHashes) -> str | None:
    chain, broken = AttemptChain(), 0
    for number, line in enumerate(split_lines(pieces), start=1):
        if not broken and not chain.follows(line):
            broken = number
    if broken:
        return f"line {broken} breaks the hash chain"
    return None if chain.hexdigest() == expected.attempt_chain_sha256 else "its last line is not the end of the hash chain"


def _check_records(pieces: Iterator[bytes], expected: ManifestHashes) -> str | None:
    # The file's hash alone would do. The root also lets a single record be proved without the others.
    tree, broken = MerkleTree(), 0
    for number, line in enumerate(split_lines(pieces), start=1):
        try:
            tree.add(bytes.fromhex(_decode_prediction(line).record_sha256))
        except ValueError:
            broken = broken or number
    if broken:
        return f"line {broken} has no record_sha256"
    return None if tree.hexdigest() == expected.records_merkle_root else "its records do not have the Merkle root of the manifest"


_CHECKS: dict[str, _Check] = {"attempt_logs.jsonl": _check_chain, "predictions.jsonl": _check_records}
