"""Fetching a finished run by its address in an object store into a folder of runs."""

from pathlib import Path

from assay.core.errors import RunNotFound, RunSealed, UsageProblem
from assay.engine.storage.remote_store import fetch_new
from assay.engine.storage.run_paths import RunPaths, check_target_free, folders_of
from assay.store.download import published_at
from assay.store.published_run import open_run_folder
from assay.store.run_storage import open_remote_storage


def fetch_published(address: str, runs_dir: Path) -> RunPaths:
    """Fetch a finished run from an object store into `runs_dir`; a run that is there already stays as it is.

    Raises RunNotFound, RunDamaged, StoreUnavailable, and RunSealed or UsageProblem when `runs_dir` has another run of that id.
    """
    storage = open_remote_storage(address)
    found = published_at(storage)
    if found is None:
        raise RunNotFound(f"there is no finished run at {storage.shown}", hint="write s3://BUCKET/PREFIX/RUN, as it was published")
    folders = folders_of(runs_dir, found.run_id).fetch_if_remote()
    if not folders.is_sealed:
        if folders.has_ledger:
            raise UsageProblem(f"run '{found.run_id}' is unfinished here", hint=f"resume it: assay resume {found.run_id}")
        check_target_free(folders)
        fetch_new(storage, active=folders.active, sealed=folders.sealed)
    if open_run_folder(folders.sealed).manifest.own_hash != found.manifest_sha256:
        raise RunSealed(f"'{folders.sealed}' is another run of that id", hint="fetch it into another --runs-dir")
    return folders
