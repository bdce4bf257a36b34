"""Checks that a finished run, on which another run or a decision depends, is complete and unchanged."""

from assay.core.errors import UsageProblem
from assay.engine.storage.run_paths import RunPaths
from assay.store.published_run import PublishedRun, open_run_folder
from assay.store.verify import changed_artifacts, verify_run


def intact_run(folders: RunPaths) -> PublishedRun:
    """Return a finished run after verifying all its files; raises UsageProblem when one was changed or removed.

    A new run made from changed files would have consistent hashes, and so hide the change.
    """
    if not folders.is_sealed:
        raise UsageProblem(f"run '{folders.run_id}' is unfinished", hint=f"resume it: assay resume {folders.run_id}")
    _refuse(folders.run_id, verify_run(folders.sealed))
    run = open_run_folder(folders.sealed)
    removed = [tombstone.name for tombstone in run.removed()]
    if removed:
        raise UsageProblem(
            f"{', '.join(removed)} of run '{folders.run_id}' were removed by retention", hint="its records are gone for good"
        )
    return run


def check_unchanged(run: PublishedRun, *names: str) -> None:
    """Raise UsageProblem when the manifest or one of these artifacts was changed, before a decision uses them."""
    _refuse(run.path.name, changed_artifacts(run.path, names))


def _refuse(run_id: str, problems: list[str]) -> None:
    if problems:
        raise UsageProblem(f"run '{run_id}' is not as it was published: {problems[0]}", hint=f"see: assay verify {run_id}")
