"""A run by its address alone: from an object store into a folder of runs."""

from pathlib import Path

from assay.core.errors import RunNotFound, RunSealed, UsageProblem
from assay.engine.places.folders import RunFolders, check_place, folders_of
from assay.engine.places.homes import fetch_new
from assay.store.fetching import published_at
from assay.store.folder import open_run_folder
from assay.store.objects import ObjectPlace


def fetch_published(address: str, runs_dir: Path) -> RunFolders:
    """Make a finished run of an object store one of a folder of runs; one that is there already stays as it is.

    Raises RunNotFound, RunDamaged, StoreUnavailable, and RunSealed or UsageProblem where another run of that id is.
    """
    place = ObjectPlace(address)
    found = published_at(place)
    if found is None:
        raise RunNotFound(f"there is no finished run at {place.shown}", hint="write s3://BUCKET/PREFIX/RUN, as it was published")
    folders = folders_of(runs_dir, found.run_id).bring_home()
    if not folders.is_sealed:
        if folders.has_ledger:
            raise UsageProblem(f"run '{found.run_id}' has not ended here", hint=f"go on with it: assay resume {found.run_id}")
        check_place(folders)
        fetch_new(place, active=folders.active, sealed=folders.sealed)
    if open_run_folder(folders.sealed).manifest.get("manifest_sha256") != found.manifest_sha256:
        raise RunSealed(f"'{folders.sealed}' is another run of that id", hint="fetch it into another --runs-dir")
    return folders
