"""Finished runs that another run is made of: they have ended, are as they were published, and have lost nothing."""

from assay.core.errors import UsageProblem
from assay.engine.places.folders import RunFolders
from assay.store.folder import RunFolder, open_run_folder
from assay.store.verify import verify_run


def intact_run(folders: RunFolders) -> RunFolder:
    """The finished run; raises UsageProblem where a new run over its files would make them look as if nothing were amiss."""
    if not folders.is_sealed:
        raise UsageProblem(f"run '{folders.run_id}' has not ended", hint=f"go on with it: assay resume {folders.run_id}")
    problems = verify_run(folders.sealed)
    if problems:
        raise UsageProblem(
            f"run '{folders.run_id}' is not as it was published: {problems[0]}", hint=f"see: assay verify {folders.run_id}"
        )
    run = open_run_folder(folders.sealed)
    removed = [tombstone.name for tombstone in run.removed()]
    if removed:
        raise UsageProblem(
            f"{', '.join(removed)} of run '{folders.run_id}' were removed by retention", hint="its records are gone for good"
        )
    return run
