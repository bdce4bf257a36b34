"""Cache of comparisons, stored with the runs under the hashes of both manifests.

A cached comparison contains no text of a prompt or an answer, so that no such text outlives the artifacts that retention removes.
"""

import hashlib
from pathlib import Path

import msgspec

from assay.core.version import __version__
from assay.engine.comparison.run_comparison import ComparisonOptions, StoredComparison, measure
from assay.store.failures import disk_errors
from assay.store.files import replace_file
from assay.store.published_run import PublishedRun

CACHE_DIR = ".compared"
"""Folder of cached comparisons, inside the folder of runs."""
MAX_CACHED = 200

_decode = msgspec.json.Decoder(StoredComparison).decode


def find_comparison(
    runs_dir: Path, before: PublishedRun, after: PublishedRun, *, choices: ComparisonOptions
) -> StoredComparison | None:
    """Return a cached comparison; None when there is none or it cannot be read."""
    try:
        # A cache that cannot be read is not an error: the comparison is computed again.
        return _decode(_cache_path(runs_dir, before, after, choices=choices).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def keep_comparison(runs_dir: Path, before: PublishedRun, after: PublishedRun, *, choices: ComparisonOptions) -> None:
    """Compare two runs and cache the result; raises UsageProblem, RunNotFound and StoreUnavailable."""
    path = _cache_path(runs_dir, before, after, choices=choices)
    replace_file(path, msgspec.json.encode(measure(before, after, choices)))
    with disk_errors(path):
        _delete_oldest(path.parent)


def _cache_path(runs_dir: Path, before: PublishedRun, after: PublishedRun, *, choices: ComparisonOptions) -> Path:
    # The version is part of the key: another version may compute other results.
    hashes = [run.manifest.own_hash for run in (before, after)]
    key = msgspec.json.encode((__version__, *hashes, choices.cluster, choices.slices))
    return runs_dir / CACHE_DIR / f"{hashlib.sha256(key).hexdigest()[:32]}.json"


def _delete_oldest(folder: Path) -> None:
    """Delete all but the MAX_CACHED newest comparisons."""
    # Temporary files of writers that died are among them.
    cached = sorted(folder.glob("*.json*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in cached[MAX_CACHED:]:
        path.unlink(missing_ok=True)
