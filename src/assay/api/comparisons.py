"""Finished runs beside each other."""

from collections.abc import Sequence
from pathlib import Path

from assay.api.kept_runs import sealed_folder
from assay.core.placement import RUNS_DIR
from assay.engine.comparing import kept_comparisons
from assay.engine.comparing.comparison import Choices, Comparison, Measured
from assay.engine.comparing.comparison import compare as compare_folders
from assay.engine.comparing.flips import Flip, FlipPlace, tell

__all__ = ["Comparison", "Flip", "Measured", "compare", "keep_comparison", "kept_comparison", "read_flips"]


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


def kept_comparison(before: str, after: str, *, runs_dir: str | Path = RUNS_DIR, cluster: str | None = None) -> Measured | None:
    """What an earlier comparison of two finished runs found; None where nobody has made it yet. Raises RunNotFound."""
    folders = sealed_folder(before, runs_dir), sealed_folder(after, runs_dir)
    return kept_comparisons.find_comparison(Path(runs_dir), *folders, choices=Choices(cluster=cluster))


def keep_comparison(before: str, after: str, *, runs_dir: str | Path = RUNS_DIR, cluster: str | None = None) -> None:
    """Compare two finished runs, which takes seconds for large ones, and keep what comes out; raises as `compare` does."""
    folders = sealed_folder(before, runs_dir), sealed_folder(after, runs_dir)
    kept_comparisons.keep_comparison(Path(runs_dir), *folders, choices=Choices(cluster=cluster))


def read_flips(places: Sequence[FlipPlace], *, before: str, after: str, runs_dir: str | Path = RUNS_DIR) -> tuple[Flip, ...]:
    """Flips of a kept comparison with both answers; raises RunNotFound where retention has removed them."""
    return tell(places, before=sealed_folder(before, runs_dir), after=sealed_folder(after, runs_dir))
