"""Download of a run from an object store into a local folder: whole and unchanged, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.core.contract import MANIFEST
from assay.core.errors import RunDamaged
from assay.core.manifest import ArtifactHash
from assay.store.artifacts import StagingFolder
from assay.store.published_run import TOMBSTONES, RunStorage
from assay.store.verify import verify_run


class ManifestSummary(msgspec.Struct, frozen=True):
    """Members of a manifest that identify a run."""

    run_id: str
    plan_sha256: str
    completed_at: str
    manifest_sha256: str
    artifacts: dict[str, ArtifactHash]


_decode = msgspec.json.Decoder(ManifestSummary).decode


def published_at(storage: RunStorage) -> ManifestSummary | None:
    """Read the manifest of a finished run in a storage; None when it has none. Raises RunDamaged, StoreUnavailable."""
    if MANIFEST not in storage.names():
        return None
    return _read(_manifest(storage), storage)


def fetch_run(storage: RunStorage, target: Path, *, work: Path) -> None:
    """Download a finished run into a folder; raises RunDamaged when it is not as it was published.

    The files are written and checked in the work folder, and appear in one step. A folder that is there already stays; raises
    RunSealed when it holds another run.
    """
    manifest = _manifest(storage)
    # Only what the manifest names: other objects below the prefix are not part of the run.
    names = {*_read(manifest, storage).artifacts, TOMBSTONES} & storage.names()
    with StagingFolder(work) as staging:
        staging.restore(manifest, _files(storage, names))
        # Checked before it is published: a damaged copy must never have the name of the run.
        problems = verify_run(staging.folder)
        if problems:
            raise RunDamaged(f"the run at {storage.shown} is not as it was published: {problems[0]}")
        staging.publish(target)


def _manifest(storage: RunStorage) -> bytes:
    return b"".join(storage.pieces(MANIFEST))


def _read(manifest: bytes, storage: RunStorage) -> ManifestSummary:
    try:
        return _decode(manifest)
    except ValueError as problem:
        raise RunDamaged(f"the manifest at {storage.shown} is damaged: {problem}") from problem


def _files(storage: RunStorage, names: set[str]) -> Iterator[tuple[str, Iterator[bytes]]]:
    for name in sorted(names):
        if Path(name).name != name or name == MANIFEST:
            # The manifest is untrusted input: a name with a slash would write outside the folder.
            raise RunDamaged(f"the manifest at {storage.shown} is damaged: '{name}' is not a name of an artifact")
        yield name, storage.pieces(name)
