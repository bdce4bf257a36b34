"""Where runs live: a private folder while they are under way, a sealed one afterwards."""

from math import inf
from pathlib import Path

import msgspec

from assay.core.errors import RunNotFound
from assay.engine.run_id import check_run_id

ACTIVE = ".active"
LEDGER = "ledger.sqlite"


class RunFolders(msgspec.Struct, frozen=True):
    """The places of one run below a runs folder."""

    runs_dir: Path
    run_id: str

    @property
    def sealed(self) -> Path:
        """The published artifacts; exists when the run has ended."""
        return self.runs_dir / self.run_id

    @property
    def active(self) -> Path:
        """The run's private working state; exists until the run has ended."""
        return self.runs_dir / ACTIVE / self.run_id

    @property
    def ledger(self) -> Path:
        """The run's ledger."""
        return self.active / LEDGER

    @property
    def is_sealed(self) -> bool:
        """True when the artifacts are published."""
        return (self.sealed / "run_manifest.json").is_file()

    @property
    def exists(self) -> bool:
        """True when there is such a run."""
        return self.is_sealed or self.ledger.is_file()


def folders_of(runs_dir: Path, run_id: str) -> RunFolders:
    """The folders of a run id, whether it exists or not; raises UsageProblem for an id that is none."""
    return RunFolders(runs_dir, check_run_id(run_id))


def find_run(runs_dir: Path, run: str) -> RunFolders:
    """The run with an id, a unique beginning of one, `latest`, or a path to its folder; raises RunNotFound."""
    path = Path(run)
    if (path / "run_manifest.json").is_file():
        return RunFolders(path.parent, path.name)
    known = run_ids(runs_dir)
    if run == "latest" and known:
        return RunFolders(runs_dir, known[-1])
    matches = [run_id for run_id in known if run_id == run] or [run_id for run_id in known if run_id.startswith(run)]
    if len(matches) == 1:
        return RunFolders(runs_dir, matches[0])
    if matches:
        raise RunNotFound(f"'{run}' is the beginning of {len(matches)} runs", hint="give more of the id; see: assay runs")
    raise RunNotFound(f"there is no run '{run}' in '{runs_dir}'", hint="list the runs with: assay runs")


def run_ids(runs_dir: Path) -> list[str]:
    """The ids of all runs, oldest first."""
    sealed = {path.parent for path in runs_dir.glob("*/run_manifest.json")}
    active = {path.parent for path in runs_dir.glob(f"{ACTIVE}/*/{LEDGER}")}
    newest = {path.name: _modified(path) for path in sorted(active | sealed)}
    return sorted(newest, key=lambda run_id: (newest[run_id], run_id))


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        # The run was sealed at this very moment, which makes it the newest.
        return inf
