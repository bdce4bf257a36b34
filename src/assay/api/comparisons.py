"""Finished runs beside each other."""

from pathlib import Path

from assay.api.runs import RUNS_DIR, sealed_folder
from assay.engine.comparison import Choices, Comparison
from assay.engine.comparison import compare as compare_folders

__all__ = ["Comparison", "compare"]


def compare(
    before: str,
    after: str,
    *,
    runs_dir: str | Path = RUNS_DIR,
    cluster: str | None = None,
    slices: tuple[str, ...] | None = None,
    max_flips: int | None = 20,
) -> Comparison:
    """Two finished runs record by record; raises RunNotFound, and UsageProblem where they have nothing in common."""
    choices = Choices(cluster=cluster, slices=slices, max_flips=max_flips)
    return compare_folders(sealed_folder(before, runs_dir), sealed_folder(after, runs_dir), choices)
