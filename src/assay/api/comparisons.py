"""Finished runs beside each other."""

from collections.abc import Sequence
from pathlib import Path

from assay.api.stored_runs import sealed_folder
from assay.core.run_backend import RUNS_DIR
from assay.engine.comparison import comparison_cache
from assay.engine.comparison.flips import Flip, FlipOffsets, load_flips
from assay.engine.comparison.run_comparison import ComparisonOptions, RunComparison, StoredComparison
from assay.engine.comparison.run_comparison import compare as compare_folders

__all__ = ["Flip", "RunComparison", "StoredComparison", "compare", "keep_comparison", "kept_comparison", "read_flips"]


def compare(
    before: str,
    after: str,
    *,
    runs_dir: str | Path = RUNS_DIR,
    cluster: str | None = None,
    slices: tuple[str, ...] | None = None,
    max_flips: int | None = 20,
) -> RunComparison:
    """Two finished runs record by record; raises RunNotFound, and UsageProblem where they have nothing in common."""
    choices = ComparisonOptions(cluster=cluster, slices=slices, max_flips=max_flips)
    return compare_folders(sealed_folder(before, runs_dir), sealed_folder(after, runs_dir), choices)


def kept_comparison(
    before: str, after: str, *, runs_dir: str | Path = RUNS_DIR, cluster: str | None = None
) -> StoredComparison | None:
    """Return the stored comparison of two finished runs; None if it was not made yet. Raises RunNotFound."""
    folders = sealed_folder(before, runs_dir), sealed_folder(after, runs_dir)
    return comparison_cache.find_comparison(Path(runs_dir), *folders, choices=ComparisonOptions(cluster=cluster))


def keep_comparison(before: str, after: str, *, runs_dir: str | Path = RUNS_DIR, cluster: str | None = None) -> None:
    """Compare two finished runs, which takes seconds for large ones, and keep what comes out; raises as `compare` does."""
    folders = sealed_folder(before, runs_dir), sealed_folder(after, runs_dir)
    comparison_cache.keep_comparison(Path(runs_dir), *folders, choices=ComparisonOptions(cluster=cluster))


def read_flips(places: Sequence[FlipOffsets], *, before: str, after: str, runs_dir: str | Path = RUNS_DIR) -> tuple[Flip, ...]:
    """Flips of a kept comparison with both answers; raises RunNotFound where retention has removed them."""
    return load_flips(places, before=sealed_folder(before, runs_dir), after=sealed_folder(after, runs_dir))
