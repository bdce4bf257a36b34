"""Verification: whether everything in a run folder is as it was published."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Set
from pathlib import Path

import msgspec

from assay.core.errors import RunDamaged, RunNotFound
from assay.core.input_document import MANIFEST
from assay.store.artifacts import OWN_HASH, ArtifactHash
from assay.store.evidence import AttemptChain, MerkleTree, has_own_hash
from assay.store.folder import TOMBSTONES, TOMBSTONES_OWN_HASH, Tombstone, open_run_folder, parsed_tombstones, split_lines
from assay.store.places import FolderPlace, Place


class Evidence(msgspec.Struct):
    """The members of the manifest that everything else is checked against."""

    artifacts: dict[str, ArtifactHash]
    records_merkle_root: str
    """merkle_root over `record_sha256` of predictions.jsonl, in its order."""
    attempt_chain_sha256: str
    """`chain_sha256` of the last line of attempt_logs.jsonl; 64 zeros when it has no line."""


class _Prediction(msgspec.Struct):
    record_sha256: str


_decode_prediction = msgspec.json.Decoder(_Prediction).decode

Check = Callable[[Iterator[bytes], Evidence], str | None]


def verify_run(path: Path) -> list[str]:
    """One line for each file of a run folder that is not as it was published; see `verify_place`."""
    return verify_place(FolderPlace(path))


def verify_place(place: Place) -> list[str]:
    """One line for each file of a run that is not as it was published; empty when all is well.

    An artifact that retention has removed is well when its tombstone agrees with the manifest. Raises RunNotFound for a place
    without a run, StoreUnavailable when a file cannot be read.
    """
    present = place.names()
    problems, evidence = _manifest(place, present)
    if evidence is None:
        return problems
    tombstones = b"".join(place.pieces(TOMBSTONES)) if TOMBSTONES in present else b""
    purged = _purged(tombstones, evidence)
    for name in sorted(evidence.artifacts):
        if name in present:
            problems += _changes(place, name, evidence)
        elif name not in purged:
            problems.append(f"{name}: is missing")
    if tombstones and not has_own_hash(tombstones, TOMBSTONES_OWN_HASH):
        problems.append(f"{TOMBSTONES}: was changed, its own hash differs")
    extra = present - {*evidence.artifacts, MANIFEST, TOMBSTONES}
    return problems + [f"{name}: is not part of the run" for name in sorted(extra)]


def changed_artifacts(path: Path, names: Collection[str]) -> list[str]:
    """One line for the manifest and each of these artifacts that was changed since the run was published; none for what is gone."""
    place = FolderPlace(path)
    present = place.names()
    problems, evidence = _manifest(place, present)
    if evidence is not None:
        for name in sorted({*names} & present & {*evidence.artifacts}):
            problems += _changes(place, name, evidence)
    return problems


def _manifest(place: Place, present: Set[str]) -> tuple[list[str], Evidence | None]:
    """What is wrong with the manifest, and what everything else is checked against; nothing where it cannot be read."""
    if MANIFEST not in present:
        raise RunNotFound(f'there is no finished run at "{place.shown}"', hint="`assay runs` lists the runs of a folder")
    manifest = b"".join(place.pieces(MANIFEST))
    problems = [] if has_own_hash(manifest, OWN_HASH) else [f"{MANIFEST}: was changed, its own hash differs"]
    try:
        return problems, msgspec.json.decode(manifest, type=Evidence)
    except ValueError as problem:
        return [f"{MANIFEST}: was changed, it cannot be read: {problem}"], None


def removed_artifacts(path: Path) -> tuple[Tombstone, ...]:
    """What retention has removed from a run folder; a tombstone that does not agree with the manifest tells of nothing."""
    try:
        run = open_run_folder(path)
        hashes = msgspec.convert(run.manifest.get("artifacts"), dict[str, ArtifactHash])
    except (RunDamaged, msgspec.ValidationError):
        return ()
    return tuple(
        tombstone for tombstone in run.removed() if tombstone.name in hashes and hashes[tombstone.name].sha256 == tombstone.sha256
    )


def _purged(tombstones: bytes, evidence: Evidence) -> set[str]:
    """Removed artifacts whose tombstones agree with the manifest; a damaged list counts as none, and is named on its own."""
    try:
        removed = parsed_tombstones(tombstones) if tombstones else ()
    except ValueError:
        return set()
    hashes = evidence.artifacts
    return {gone.name for gone in removed if gone.name in hashes and hashes[gone.name].sha256 == gone.sha256}


def _changes(place: Place, name: str, evidence: Evidence) -> Iterator[str]:
    """What is wrong with one file; it is read once."""
    if not place.is_file(name):
        yield f"{name}: is not a regular file"
        return
    meter = _Meter(place.pieces(name))
    detail = _CHECKS.get(name, _drain)(meter.pieces(), evidence)
    if meter.measured() != evidence.artifacts[name]:
        yield f"{name}: was changed, its SHA-256, bytes or lines differ from the manifest"
    if detail:
        yield f"{name}: {detail}"


class _Meter:
    """Hashes and counts a file while somebody else reads it."""

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

    def measured(self) -> ArtifactHash:
        return ArtifactHash(self._sha256.hexdigest(), self._bytes, self._lines)


def _drain(pieces: Iterator[bytes], _: Evidence) -> None:
    for _piece in pieces:
        pass


def _check_chain(pieces: Iterator[bytes], evidence: Evidence) -> str | None:
    chain, broken = AttemptChain(), 0
    for number, line in enumerate(split_lines(pieces), start=1):
        if not broken and not chain.follows(line):
            broken = number
    if broken:
        return f"line {broken} breaks the hash chain"
    return None if chain.hexdigest() == evidence.attempt_chain_sha256 else "its last line is not the end of the hash chain"


def _check_records(pieces: Iterator[bytes], evidence: Evidence) -> str | None:
    tree, broken = MerkleTree(), 0
    for number, line in enumerate(split_lines(pieces), start=1):
        try:
            tree.add(bytes.fromhex(_decode_prediction(line).record_sha256))
        except ValueError:
            broken = broken or number
    if broken:
        return f"line {broken} has no record_sha256"
    return None if tree.hexdigest() == evidence.records_merkle_root else "its records do not have the Merkle root of the manifest"


_CHECKS: dict[str, Check] = {"attempt_logs.jsonl": _check_chain, "predictions.jsonl": _check_records}
