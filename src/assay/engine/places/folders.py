"""Where runs live: a private folder while they are under way, a sealed one afterwards."""

import os
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Self

import msgspec

from assay.core.errors import AssayError, LedgerUnavailable, MissingExtra, RunNotFound, UsageProblem
from assay.core.input_document import MANIFEST
from assay.datasets.checks import nearest
from assay.engine.places.homes import bring_home
from assay.engine.places.run_id import check_run_id, could_be_run_id
from assay.store.failures import disk_errors
from assay.store.folder import read_manifest
from assay.store.ledger import Ledger
from assay.store.ledgers import LEDGER, POINTER, Looks, adopt_known, has_ledger, ledger_file, open_ledger, pointed_to

ACTIVE = ".active"
UPLOAD = "upload"
"""Folder of what was sent to a server, inside the run's working state; it goes with it when the run is sealed."""


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
    def ledger_file(self) -> Path:
        """The run's ledger, or what points to it."""
        return ledger_file(self.active)

    @property
    def has_ledger(self) -> bool:
        """True for a run that has begun and is not cleared away."""
        return has_ledger(self.active)

    def open_ledger(self, *, driver: str = "") -> Ledger:
        """The run's ledger, wherever it is; raises RunNotFound when there is none. A driver's ends with its lease."""
        return open_ledger(self.active, driver=driver)

    def bring_home(self) -> Self:
        """The same folders, with the artifacts of a run that has ended on another machine and is to be had from its store."""
        bring_home(self.active, self.sealed)
        return self

    @property
    def is_sealed(self) -> bool:
        """True when the artifacts are published."""
        return (self.sealed / MANIFEST).is_file()

    @property
    def is_obstructed(self) -> bool:
        """True when something that is no run has the place of the artifacts, so that they could not be published."""
        if self.is_sealed or not os.path.lexists(self.sealed):
            return False
        return self.sealed.is_symlink() or not self.sealed.is_dir() or any(self.sealed.iterdir())

    @property
    def exists(self) -> bool:
        """True when there is such a run."""
        # In this order, because a run that is sealed at this very moment loses the second after it has gained the first.
        return self.has_ledger or self.is_sealed


def folders_of(runs_dir: Path, run_id: str) -> RunFolders:
    """The folders of a run id, whether it exists or not; raises UsageProblem for an id that is none."""
    return RunFolders(runs_dir, check_run_id(run_id))


def check_place(folders: RunFolders) -> None:
    """Raises UsageProblem when the artifacts could not be published in the end: better now than when everything is paid for."""
    with disk_errors(folders.sealed):
        is_obstructed = folders.is_obstructed
    if is_obstructed:
        raise UsageProblem(f"'{folders.sealed}' exists and is no run", hint="choose another --run-id, or move it away")


def find_run(runs_dir: Path, run: str) -> RunFolders:
    """The run with an id, a unique beginning of one, `latest`, or a path to its folder; raises RunNotFound.

    One that is kept in the ledger of the environment is found by its whole id, and if it has ended, fetched from its store.
    """
    return _named(runs_dir, run).bring_home()


def _named(runs_dir: Path, run: str) -> RunFolders:
    if not run:
        raise UsageProblem("the name of the run is empty", hint="list the runs with: assay runs")
    at_path = _at_path(run)
    if at_path is not None:
        return at_path
    known = run_names(runs_dir)
    if run in known or (could_be_run_id(run) and adopt_known(RunFolders(runs_dir, run).active)):
        return RunFolders(runs_dir, run)
    if run == "latest" and known:
        return _latest(runs_dir)
    matches = [run_id for run_id in known if run_id.startswith(run)]
    if len(matches) == 1:
        return RunFolders(runs_dir, matches[0])
    if matches:
        raise RunNotFound(f"'{run}' is the beginning of {len(matches)} runs", hint="give more of the id; see: assay runs")
    raise _not_found(runs_dir, run, known)


def _latest(runs_dir: Path) -> RunFolders:
    """The run that was created last; one that a shared ledger has no more is passed over, since nothing is left of it.

    Raises what keeps the newest from being looked at: another one in its place could be cancelled, or decide about a release.
    """
    looks = Looks()
    known = [RunFolders(runs_dir, run_id) for run_id in reversed(run_ids(runs_dir, looks))]
    for at, folders in enumerate(known):
        try:
            _look(folders, looks)
        except RunNotFound:
            continue
        except (LedgerUnavailable, MissingExtra) as problem:
            other = next((ended.run_id for ended in known[at:] if ended.is_sealed), "")
            named = f"; or name another run, such as {other}" if other else ""
            what = f"'{folders.run_id}' seems to be the latest run: {problem.message}"
            raise type(problem)(what, hint=f"{problem.hint}{named}") from problem
        return folders
    raise _not_found(runs_dir, "latest", [])


def _look(folders: RunFolders, looks: Looks) -> None:
    """Raises what keeps a run in a shared ledger from being looked at."""
    if not folders.is_sealed and pointed_to(folders.active):
        looks.open(folders.active).close()


def _not_found(runs_dir: Path, run: str, known: list[str]) -> RunNotFound:
    listed = "list the runs with: assay runs" if known else "it holds none yet; make one with assay run, or name another --runs-dir"
    return RunNotFound(
        f"there is no run '{run}' in '{runs_dir}'", hint=(nearest(run, ("latest", *known)) if known else "") or listed
    )


def find_named_run(runs_dir: Path, run: str) -> RunFolders:
    """As find_run, for what cannot be undone: the whole id or a path; raises UsageProblem for `latest` or a beginning."""
    found = find_run(runs_dir, run)
    if _at_path(run) is None and found.run_id != run:
        raise UsageProblem(f"'{run}' is not the whole id of a run", hint=f"this cannot be undone; if you mean it: {found.run_id}")
    return found


def _at_path(run: str) -> RunFolders | None:
    path = Path(run)
    if not (path / MANIFEST).is_file():
        return None
    # A path such as `.` has no name of its own.
    place = path.resolve() if path.name in ("", "..") else path
    return RunFolders(place.parent, place.name)


def run_ids(runs_dir: Path, looks: Looks | None = None) -> list[str]:
    """The ids of all runs in the order of their creation."""
    looks = looks or Looks()
    created = {run_id: _created_at(RunFolders(runs_dir, run_id), looks) for run_id in run_names(runs_dir)}
    return sorted(created, key=lambda run_id: (created[run_id], run_id))


def run_names(runs_dir: Path) -> list[str]:
    """The ids of all runs in the order of the alphabet."""
    # In this order: a run that is sealed at this very moment is in the first list or in the second, or in both.
    active = active_names(runs_dir)
    sealed = {path.parent.name for path in runs_dir.glob(f"*/{MANIFEST}")}
    return sorted(active | sealed)


def active_names(runs_dir: Path) -> set[str]:
    """The ids of the runs that have working state."""
    return {path.parent.name for name in (LEDGER, POINTER) for path in runs_dir.glob(f"{ACTIVE}/*/{name}")}


class _Created(msgspec.Struct):
    created_at: datetime


_decode_created = msgspec.json.Decoder(_Created).decode


def _created_at(folders: RunFolders, looks: Looks) -> float:
    """When the run was created, in seconds; of one that cannot be read when it, or what points to it, was last written."""
    try:
        if folders.is_sealed:
            return _decode_created(read_manifest(folders.sealed)).created_at.timestamp()
        ledger = looks.open(folders.active)
        try:
            return ledger.run().states[0][1]
        finally:
            ledger.close()
    except (AssayError, ValueError):
        return _modified(folders.sealed / MANIFEST if folders.is_sealed else folders.ledger_file)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        # The run was sealed at this very moment, which makes it the newest.
        return inf
