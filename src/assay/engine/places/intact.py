"""Finished runs that another run or a decision rests on: they have ended, and are as they were published."""

from assay.core.errors import UsageProblem
from assay.engine.places.folders import RunFolders
from assay.store.folder import RunFolder, open_run_folder
from assay.store.verify import changed_artifacts, verify_run


def intact_run(folders: RunFolders) -> RunFolder:
    """The finished run; raises UsageProblem where a new run over its files would make them look as if nothing were amiss."""
    if not folders.is_sealed:
        raise UsageProblem(f"run '{folders.run_id}' has not ended", hint=f"go on with it: assay resume {folders.run_id}")
    _refuse(folders.run_id, verify_run(folders.sealed))
    run = open_run_folder(folders.sealed)
    removed = [tombstone.name for tombstone in run.removed()]
    if removed:
        raise UsageProblem(
            f"{', '.join(removed)} of run '{folders.run_id}' were removed by retention", hint="its records are gone for good"
        )
    return run


def check_unchanged(run: RunFolder, *names: str) -> None:
    """Raises UsageProblem where the manifest or one of these artifacts was changed: no decision may rest on it."""
    _refuse(run.path.name, changed_artifacts(run.path, names))


def _refuse(run_id: str, problems: list[str]) -> None:
    if problems:
        raise UsageProblem(f"run '{run_id}' is not as it was published: {problems[0]}", hint=f"see: assay verify {run_id}")
