"""Comparisons that were made once and are looked at often: kept beside the runs, under the hashes of both manifests.

What is kept has no word of a prompt or an answer, so that nothing outlives the artifacts that retention removes.
"""

import hashlib
import secrets
from pathlib import Path

import msgspec

from assay.core.version import __version__
from assay.engine.comparing.comparison import Choices, Measured, measure
from assay.store.artifacts import OWN_HASH
from assay.store.failures import disk_errors
from assay.store.folder import RunFolder

KEPT = ".compared"
"""Folder of the kept comparisons, inside the folder of runs."""
MOST_KEPT = 200

_decode = msgspec.json.Decoder(Measured).decode


def find_comparison(runs_dir: Path, before: RunFolder, after: RunFolder, *, choices: Choices) -> Measured | None:
    """The comparison as it was kept; None where there is none, or where it cannot be read."""
    try:
        return _decode(_place(runs_dir, before, after, choices=choices).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def keep_comparison(runs_dir: Path, before: RunFolder, after: RunFolder, *, choices: Choices) -> None:
    """Compare two runs and keep what comes out; raises UsageProblem, RunNotFound and StoreUnavailable."""
    place = _place(runs_dir, before, after, choices=choices)
    measured = msgspec.json.encode(measure(before, after, choices))
    partial = place.with_name(f"{place.name}-{secrets.token_hex(4)}")
    with disk_errors(place):
        place.parent.mkdir(mode=0o700, exist_ok=True)
        partial.write_bytes(measured)
        partial.replace(place)
        _sweep(place.parent)


def _place(runs_dir: Path, before: RunFolder, after: RunFolder, *, choices: Choices) -> Path:
    """Another version may measure otherwise, so that it has comparisons of its own."""
    hashes = [str(run.manifest.get(OWN_HASH, "")) for run in (before, after)]
    named = msgspec.json.encode((__version__, *hashes, choices.cluster, choices.slices))
    return runs_dir / KEPT / f"{hashlib.sha256(named).hexdigest()[:32]}.json"


def _sweep(folder: Path) -> None:
    """Those that were made last stay."""
    made = sorted(folder.glob("*.json*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in made[MOST_KEPT:]:
        path.unlink(missing_ok=True)
