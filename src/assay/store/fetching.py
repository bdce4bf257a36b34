"""A run that lies in an object store into a folder of this machine: whole and unchanged, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.core.errors import RunDamaged
from assay.core.input_document import MANIFEST
from assay.store.artifacts import ArtifactHash, Staging
from assay.store.folder import TOMBSTONES
from assay.store.places import Place
from assay.store.verify import verify_run


class Published(msgspec.Struct, frozen=True):
    """The members of a manifest by which a run is known again, wherever it lies."""

    run_id: str
    plan_sha256: str
    completed_at: str
    manifest_sha256: str
    artifacts: dict[str, ArtifactHash]


_decode = msgspec.json.Decoder(Published).decode


def published_at(place: Place) -> Published | None:
    """The finished run at a place; None where there is none. Raises RunDamaged, StoreUnavailable."""
    if MANIFEST not in place.names():
        return None
    return _read(_manifest(place), place)


def fetch_run(place: Place, target: Path, *, work: Path) -> None:
    """Make a folder of the finished run at a place; raises RunDamaged when it is not as it was published.

    The files are written and checked in the work folder, and appear in one step. A folder that is there already stays, which is
    fine when it is the same run, and RunSealed when it is not.
    """
    manifest = _manifest(place)
    names = {*_read(manifest, place).artifacts, TOMBSTONES} & place.names()
    with Staging(work) as staging:
        staging.restore(manifest, _files(place, names))
        problems = verify_run(staging.folder)
        if problems:
            raise RunDamaged(f"the run at {place.shown} is not as it was published: {problems[0]}")
        staging.publish(target)


def _manifest(place: Place) -> bytes:
    return b"".join(place.pieces(MANIFEST))


def _read(manifest: bytes, place: Place) -> Published:
    try:
        return _decode(manifest)
    except ValueError as problem:
        raise RunDamaged(f"the manifest at {place.shown} is damaged: {problem}") from problem


def _files(place: Place, names: set[str]) -> Iterator[tuple[str, Iterator[bytes]]]:
    for name in sorted(names):
        if Path(name).name != name or name == MANIFEST:
            # Whoever wrote this manifest may want to write elsewhere, too.
            raise RunDamaged(f"the manifest at {place.shown} is damaged: '{name}' is no name of an artifact")
        yield name, place.pieces(name)
