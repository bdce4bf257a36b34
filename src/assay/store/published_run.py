"""Storage of a published run's files: a local folder, or a prefix of an object store, which is an integration."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

import msgspec

from assay.core.artifact_lines import CaseLine
from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.contract import INPUT, MANIFEST
from assay.core.errors import ArtifactGone, RunDamaged, RunNotFound, RunSealed, StoreUnavailable
from assay.core.integrations import load_integration
from assay.core.manifest import ArtifactHash, Manifest
from assay.core.manifest import read_manifest as parse_manifest
from assay.core.summary import BY_SLICE, METRICS, SlicesSummary, Summary, read_slices, read_summary
from assay.store.artifacts import CASES, read_pieces
from assay.store.failures import disk_errors

WHOLE = 16 << 20
"""Maximum bytes of a file sent to an object store in one request, which holds it in memory; larger ones are uploaded in parts."""


class RunStorage(Protocol):
    """The files of one published run."""

    @property
    def shown(self) -> str:
        """Return the address for messages, without secrets."""

    def names(self) -> set[str]:
        """List all names in the storage."""

    def is_file(self, name: str) -> bool:
        """Return whether the name is a readable file, and not a link."""

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
        """Return the path."""
        return str(self.path)

    def names(self) -> set[str]:
        """List the entries of the folder; none when it does not exist."""
        with disk_errors(self.path):
            return {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()

    def is_file(self, name: str) -> bool:
        """Return whether the name is a regular file."""
        path = self.path / name
        # A link could point to content that changes after the run was sealed.
        return path.is_file() and not path.is_symlink()

    def pieces(self, name: str) -> Iterator[bytes]:
        """Read the file's bytes."""
        return read_pieces(self.path / name)


def is_remote_address(text: str) -> bool:
    """Return whether the text is an address in an object store, such as s3://bucket/runs/nightly."""
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
        # Publishing again after a crash finds its own objects; anything else at this address belongs to another run.
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


TOMBSTONES = "purged.json"
"""Lists the artifacts that retention has removed; the only file added to a run folder after publication."""

TOMBSTONES_OWN_HASH = "purged_sha256"
"""Member of that file: SHA-256 of its canonical JSON without this member."""


T = TypeVar("T")
decode_case_line = msgspec.json.Decoder(CaseLine).decode


class Tombstone(msgspec.Struct, frozen=True):
    """Record of an artifact that retention has removed."""

    name: str
    sha256: str
    bytes: int
    lines: int
    purged_at: str
    """UTC, as 2026-01-31T12:00:00Z."""
    reason: str


class _PurgedFile(msgspec.Struct):
    purged: tuple[Tombstone, ...]


class PublishedRun:
    """A published run: its folder and its manifest."""

    def __init__(self, path: Path, members: JsonObject) -> None:
        self.path = path
        self.members = members
        """The manifest as the file has it, with members that only later versions know."""

    @cached_property
    def manifest(self) -> Manifest:
        """Read the manifest of any version; raises RunDamaged."""
        try:
            return parse_manifest(self.members)
        except msgspec.ValidationError as problem:
            raise RunDamaged(f"the manifest of '{self.path}' is damaged: {problem}") from problem

    @cached_property
    def hashes(self) -> dict[str, ArtifactHash]:
        """Read the hashes of the artifacts, even if other members of the manifest are damaged; raises RunDamaged."""
        try:
            return msgspec.convert(self.members.get("artifacts"), dict[str, ArtifactHash])
        except msgspec.ValidationError as problem:
            raise RunDamaged(f'the manifest in "{self.path}" is damaged: {problem}') from problem

    def document(self, name: str) -> Any:
        """Read a JSON artifact; raises RunNotFound when it is gone."""
        path = self.artifact(name)
        return decoded(b"".join(read_pieces(path)), path)

    def summary(self) -> Summary:
        """Read the metrics of the run; raises RunNotFound as `document` does, and RunDamaged for other content."""
        return self._read(METRICS, read_summary)

    def slices(self) -> SlicesSummary:
        """Read the metrics of its slices; raises as `summary` does."""
        return self._read(BY_SLICE, read_slices)

    def _read(self, name: str, read: Callable[[Any], T]) -> T:
        try:
            return read(self.document(name))
        # The file may hold any JSON after an edit: readers of old versions look into it before it has a type.
        except (TypeError, ValueError, KeyError, AttributeError) as problem:
            raise RunDamaged(f'"{self.path / name}" is damaged: {problem}') from problem

    def lines(self, name: str, start: int = 0) -> Iterator[JsonObject]:
        """Read the objects of a JSONL artifact from a line on, one at a time; raises RunNotFound when it is gone."""
        path = self.artifact(name)
        for line in islice(split_lines(read_pieces(path)), start, None):
            yield decoded(line, path)

    def typed_lines(self, name: str, kind: type[T], start: int = 0) -> Iterator[T]:
        """Read the lines of a JSONL artifact as structs, from a line on; raises RunNotFound as `lines` does, RunDamaged.

        A struct with the few members that a caller needs costs less than a dict with all of them.
        """
        path, decode = self.artifact(name), msgspec.json.Decoder(kind).decode
        # Lines before the start are split but not decoded, which is most of the cost.
        for line in islice(split_lines(read_pieces(path)), start, None):
            yield decoded_as(decode, line, path)

    def raw_lines(self, name: str) -> Iterator[bytes]:
        """Read the undecoded lines of a JSONL artifact, for callers that need few members; raises RunNotFound as `lines` does."""
        return split_lines(read_pieces(self.artifact(name)))

    def lines_at(self, name: str, kind: type[T], offsets: Iterable[int]) -> Iterator[T]:
        """Read the lines of a JSONL artifact at these byte offsets only; raises as `typed_lines` does."""
        path, decode = self.artifact(name), msgspec.json.Decoder(kind).decode
        return (decoded_as(decode, line, path) for line in self.raw_lines_at(name, offsets))

    def raw_lines_at(self, name: str, offsets: Iterable[int]) -> Iterator[bytes]:
        """Read the undecoded lines of a JSONL artifact at these byte offsets; raises RunNotFound as `lines` does."""
        path = self.artifact(name)
        with disk_errors(path), path.open("rb") as file:
            for offset in offsets:
                file.seek(offset)
                yield file.readline().removesuffix(b"\n")

    def span(self, name: str, start: int, size: int) -> bytes:
        """Read a part of an artifact; raises RunNotFound as `lines` does, StoreUnavailable when the file has become shorter."""
        path = self.artifact(name)
        with disk_errors(path), path.open("rb", buffering=0) as file:
            file.seek(start)
            found = file.read(size)
        if len(found) != size:
            raise RunDamaged(f'"{path}" is damaged: it is shorter than it was')
        return found

    @property
    def cases_name(self) -> str:
        """Return the artifact with the cases: a file of their own, or the input of a run that an earlier version sealed."""
        return CASES if CASES in (self.members.get("artifacts") or {}) else INPUT

    def raw_records(self) -> Iterator[tuple[int, bytes]]:
        """Read the cases as they were asked, in order, each with its offset in its artifact; raises RunNotFound as `lines` does."""
        name = self.cases_name
        start = 0
        for number, line in enumerate(split_lines(read_pieces(self.artifact(name)))):
            entry = line.removesuffix(b",") if name == INPUT else line
            # In the input of an earlier version the first line is the head of the document, and the last one its end.
            if entry and (name == CASES or (number and entry != b"]}")):
                yield start, entry
            start += len(line) + 1

    def records(self) -> Iterator[CaseLine]:
        """Read the cases as they were asked, one at a time; raises RunNotFound as `lines` does, RunDamaged."""
        path = self.path / self.cases_name
        return (decoded_as(decode_case_line, entry, path) for _, entry in self.raw_records())

    def case_of(self, entry: CaseLine) -> Case:
        """Decode the case of one of the records; raises RunDamaged."""
        try:
            return entry.case()
        except ValueError as problem:
            raise RunDamaged(f'"{self.path / self.cases_name}" is damaged: {problem}') from problem

    def purged(self) -> tuple[Tombstone, ...]:
        """List what retention has removed so far."""
        return read_tombstones(self.path)

    def removed(self) -> tuple[Tombstone, ...]:
        """List removed artifacts that are really gone; none when the list is damaged, which a verification reports."""
        try:
            return tuple(tombstone for tombstone in self.purged() if not (self.path / tombstone.name).exists())
        except StoreUnavailable:
            return ()

    def artifact(self, name: str) -> Path:
        """Return the path of an artifact; raises RunNotFound, or ArtifactGone when retention has removed it."""
        path = self.path / name
        if not path.is_file():
            hint = "`assay verify` names what is left"
            if any(tombstone.name == name for tombstone in self.removed()):
                raise ArtifactGone(f'"{path}" was removed by retention', hint=hint)
            raise RunNotFound(f'"{path}" is missing', hint=hint)
        return path


def open_run_folder(path: Path) -> PublishedRun:
    """Open a published run; raises RunNotFound when the folder holds none, StoreUnavailable when its manifest is damaged."""
    members = decoded(read_manifest(path), path / MANIFEST)
    if not isinstance(members, dict):
        raise RunDamaged(f'"{path / MANIFEST}" is damaged: it is not an object')
    return PublishedRun(path, members)


def read_manifest(path: Path) -> bytes:
    """Read the bytes of a run folder's manifest; raises RunNotFound when there is none."""
    manifest = path / MANIFEST
    if not manifest.is_file():
        raise RunNotFound(f'there is no finished run at "{path}"', hint="`assay runs` lists the runs of a folder")
    return b"".join(read_pieces(manifest))


def read_tombstones(path: Path) -> tuple[Tombstone, ...]:
    """Read the tombstones of a run folder; raises StoreUnavailable when the list is damaged."""
    file = path / TOMBSTONES
    if not file.is_file():
        return ()
    try:
        return parsed_tombstones(b"".join(read_pieces(file)))
    except ValueError as problem:
        raise StoreUnavailable(f'"{file}" is damaged: {problem}', hint="restore it from a copy") from problem


def parsed_tombstones(text: bytes) -> tuple[Tombstone, ...]:
    """Parse a list of tombstones; raises ValueError when it is damaged."""
    return msgspec.json.decode(text, type=_PurgedFile).purged


def decoded(text: bytes, path: Path) -> Any:
    """Decode JSON of a run folder; raises StoreUnavailable when it is invalid."""
    return decoded_as(msgspec.json.decode, text, path)


def decoded_as(decode: Callable[[bytes], T], text: bytes, path: Path) -> T:
    """Decode a part of a run folder as a type; raises RunDamaged when it is something else."""
    try:
        return decode(text)
    except ValueError as problem:
        raise RunDamaged(f'"{path}" is damaged: {problem}') from problem


def split_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Split pieces into lines without their newlines; text after the last newline is a line too."""
    rest = b""
    for piece in pieces:
        # Pieces may come from an object store, which cannot be read line by line.
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        yield rest
