"""Ids and paths of runs: a private folder while they are in progress, a sealed one afterwards, and a copy in an object store."""

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Self

import msgspec

from assay.core.contract import MANIFEST
from assay.core.errors import AssayError, LedgerUnavailable, MissingExtra, RunNotFound, RunSealed, StoreUnavailable, UsageProblem
from assay.core.runs import TERMINAL
from assay.core.text import iso
from assay.datasets.parsing.checks import nearest
from assay.store.audit import AUDIT_FILE
from assay.store.download import ManifestSummary, fetch_run, published_at
from assay.store.failures import disk_errors
from assay.store.ledger import Ledger, RunRow
from assay.store.ledgers import (
    LEDGER,
    POINTER,
    LedgerOpener,
    adopt_known,
    empty_ledger,
    has_ledger,
    ledger_file,
    open_ledger,
    pointed_to,
)
from assay.store.lock import RunLock
from assay.store.published_run import (
    PublishedRun,
    RemoteRunStorage,
    open_remote_storage,
    open_run_folder,
    publish_files,
    read_manifest,
)
from assay.store.verify import FileProblem, changed_artifacts, verify_run

STORE = "store"
"""Note in the ledger with the store that the run is published to."""
SEALED_IN = "sealed_in"
"""Note in the ledger with the host and folder that hold the artifacts of a finished run."""
_LOCK_TIMEOUT = 60.0


def store_url(store: str, run_id: str) -> str:
    """Return the address of a run in a store; empty without a store."""
    return f"{store.rstrip('/')}/{run_id}" if store else ""


def check_store(store: str) -> None:
    """Check the address of a store before it is written anywhere.

    Raises UsageProblem for an address that is invalid or contains a secret, StoreRefused for a bucket that does not exist or denies
    access, StoreUnavailable for a store that cannot be reached.
    """
    open_remote_storage(store_url(store, "RUN")).check()


def note_store(ledger: Ledger, store: str, *, run_id: str) -> str:
    """Note the store of an unfinished run, if one is given; return the run's address in its store, empty without one."""
    row = ledger.run()
    known = row.notes.get(STORE, "")
    if not store or store == known or row.state in TERMINAL:
        return store_url(known, run_id)
    check_store(store)
    ledger.set_note(STORE, store)
    return store_url(store, run_id)


def publish_sealed(sealed: Path, store: str) -> str:
    """Publish a finished run of this machine to a store, each file once and the manifest last; return its address there.

    Repeating it changes nothing. Raises UsageProblem for a run whose files were changed, RunSealed when the address holds another
    run.
    """
    if problems := verify_run(sealed):
        raise UsageProblem(
            f"run '{sealed.name}' is not as it was published: {problems[0]}", hint=f"see: assay verify {sealed.name}"
        )
    address = store_url(store, sealed.name)
    publish_files(sealed, address)
    return address


def is_at(address: str, row: RunRow) -> bool:
    """Return True when the store already holds this run's complete artifacts: a publisher may have crashed right afterwards."""
    found = published_at(open_remote_storage(address))
    return found is not None and _is_same(found, row)


def _is_same(found: ManifestSummary, row: RunRow) -> bool:
    decided = row.notes.get("completed_at")
    # The time of completion is decided before publication, so that a second attempt writes the same manifest.
    return found.plan_sha256 == row.plan_sha256 and decided is not None and found.completed_at == iso(float(decided))


def fetch_ended(row: RunRow, *, active: Path, sealed: Path) -> None:
    """Fetch the artifacts of a finished run from the store noted in its ledger; the caller holds the run's lock.

    Raises RunNotFound for a run without a store, StoreUnavailable, and RunDamaged for one that was changed.
    """
    address = store_url(row.notes.get(STORE, ""), sealed.name)
    if not address:
        raise not_here_error(sealed.name, row.notes)
    if not is_at(address, row):
        raise StoreUnavailable(
            f"run '{sealed.name}' has ended, but is not at {address}", hint="it was published there: bring it back from a copy"
        )
    fetch_run(open_remote_storage(address), sealed, work=active)


def not_here_error(run_id: str, notes: Mapping[str, str]) -> RunNotFound:
    """Return the error for a run that ended on another machine and was not published to a store."""
    where = notes.get(SEALED_IN) or "in the runs folder of the machine that has sealed it"
    return RunNotFound(
        f"run '{run_id}' has ended on another machine, and its artifacts are there: {where}",
        hint="look there; one folder for all machines, or --store, keeps runs where every machine can fetch them",
    )


def download_if_remote(active: Path, sealed: Path) -> str:
    """Fetch the artifacts of a run that ended on another machine; a no-op for a local or an unfinished run.

    Concurrent calls fetch once. Returns the run's address in its store, or nothing; raises as `fetch_ended`.
    """
    if _is_sealed(sealed) or not pointed_to(active):
        return ""
    try:
        row = _row(active)
    except RunNotFound:
        # Another process may have sealed or fetched it, and removed the pointer, since the check above.
        if not _is_sealed(sealed):
            raise
        return ""
    if row.state not in TERMINAL or STORE not in row.notes:
        return ""
    _fetch_locked(partial(fetch_ended, row, active=active, sealed=sealed), active=active, sealed=sealed)
    return store_url(row.notes[STORE], sealed.name)


def _row(active: Path) -> RunRow:
    ledger = open_ledger(active)
    try:
        return ledger.run()
    finally:
        ledger.close()


def fetch_same(address: str, *, plan_sha256: str, active: Path, sealed: Path) -> None:
    """Fetch the finished run that a new one would repeat, if it is at `address`; raises RunSealed when another run is there."""
    storage = open_remote_storage(address)
    found = published_at(storage)
    if found is None:
        return
    if found.run_id != sealed.name or found.plan_sha256 != plan_sha256:
        raise RunSealed(
            f"{storage.shown} holds a run that has ended, and was made with other settings",
            hint="artifacts are written once: choose another --run-id, or another --store",
        )
    fetch_new(storage, active=active, sealed=sealed)


def fetch_new(storage: RemoteRunStorage, *, active: Path, sealed: Path) -> None:
    """Fetch a run of which this machine has no working state."""
    with disk_errors(active):
        active.mkdir(mode=0o700, parents=True, exist_ok=True)
    _fetch_locked(partial(fetch_run, storage, sealed, work=active), active=active, sealed=sealed)


def _fetch_locked(fetch: Callable[[], None], *, active: Path, sealed: Path) -> None:
    """Fetch under the run's lock unless another process has done so, then delete the run's working state here."""
    lock = RunLock(active)
    try:
        while not lock.wait(_LOCK_TIMEOUT):
            pass
        if not _is_sealed(sealed):
            fetch()
        empty_ledger(active, sealed)
        shutil.rmtree(active, ignore_errors=True)
    except StoreUnavailable:
        # The previous holder of the lock may have fetched the run and removed the folder that holds the lock.
        if not _is_sealed(sealed):
            raise
    finally:
        lock.release()


def _is_sealed(sealed: Path) -> bool:
    return (sealed / MANIFEST).is_file()


_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MAX_RUN_ID = 128
"""Characters of a run id: it is the name of a folder."""
_SAFE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_RUN_ID - 1}}}", re.ASCII)
_RESERVED = ("latest", AUDIT_FILE)
"""Names with another meaning in a folder of runs."""


def new_run_id() -> str:
    """Return `run_` and a ULID: 48 bits of milliseconds and 80 random bits, in Crockford's base 32."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return "run_" + "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))


def could_be_run_id(text: str) -> bool:
    """Return True for a name that is valid, and distinct, as a folder on every file system."""
    # File systems of macOS and Windows do not tell upper from lower case.
    return _SAFE.fullmatch(text) is not None and text.lower() not in _RESERVED


def check_run_id(run_id: str) -> str:
    """Return the id; raises UsageProblem when it could not name a folder."""
    if _SAFE.fullmatch(run_id) is None:
        raise UsageProblem(
            f"{run_id!r} cannot be a run id", hint="use up to 128 letters, digits, dots, dashes and underscores, no dot first"
        )
    if run_id.lower() in _RESERVED:
        raise UsageProblem(f"{run_id!r} cannot be a run id", hint="that name is taken in every folder of runs; choose another one")
    return run_id


GROUP_COMMANDS = "assay show, gate, report, export and compare take a whole group"
"""Hint where a name is that of a group, and one run is wanted."""
MAX_MATCHES = 3
"""Ids that a message lists where a prefix is not unique."""
ACTIVE = ".active"
GIVEN = "given"
"""Folder of data that was given in memory, inside the run's working state; deleted with it when the run is sealed."""
UPLOAD = "upload"
"""Folder of an upload to a server, inside the run's working state; deleted with it when the run is sealed."""


class RunPaths(msgspec.Struct, frozen=True):
    """Paths of one run below a folder of runs."""

    runs_dir: Path
    run_id: str

    @property
    def sealed(self) -> Path:
        """Published artifacts; exists when the run has ended."""
        return self.runs_dir / self.run_id

    @property
    def active(self) -> Path:
        """Run's private working state; exists until the run has ended."""
        return self.runs_dir / ACTIVE / self.run_id

    @property
    def given(self) -> Path:
        """Folder of data that was given in memory."""
        return self.active / GIVEN

    @property
    def ledger_file(self) -> Path:
        """Run's ledger, or the pointer to a shared one."""
        return ledger_file(self.active)

    @property
    def has_ledger(self) -> bool:
        """True for a run whose working state exists."""
        return has_ledger(self.active)

    def open_ledger(self, *, driver: str = "") -> Ledger:
        """Open the run's ledger, local or shared; raises RunNotFound. With a `driver`, it fails once its lease has expired."""
        return open_ledger(self.active, driver=driver)

    def fetch_if_remote(self) -> Self:
        """Fetch the artifacts of a run that ended on another machine, if its store has them; return the same paths."""
        download_if_remote(self.active, self.sealed)
        return self

    @property
    def is_sealed(self) -> bool:
        """True when the artifacts are published."""
        return (self.sealed / MANIFEST).is_file()

    @property
    def is_obstructed(self) -> bool:
        """True when the target path of the artifacts is taken by something that is not a run."""
        if self.is_sealed or not os.path.lexists(self.sealed):
            return False
        return self.sealed.is_symlink() or not self.sealed.is_dir() or any(self.sealed.iterdir())

    @property
    def exists(self) -> bool:
        """True when the run exists, finished or not."""
        # Working state is checked first. A run that is being sealed gains its artifacts before it loses its working state, so
        # that one of the checks succeeds.
        return self.has_ledger or self.is_sealed


def folders_of(runs_dir: Path, run_id: str) -> RunPaths:
    """Return the paths of a run id, whether the run exists or not; raises UsageProblem for an invalid id."""
    return RunPaths(runs_dir, check_run_id(run_id))


def check_target_free(folders: RunPaths) -> None:
    """Raise UsageProblem when the artifacts could not be published, before any call is paid for."""
    with disk_errors(folders.sealed):
        is_obstructed = folders.is_obstructed
    if is_obstructed:
        raise UsageProblem(f"'{folders.sealed}' exists and is not a run", hint="choose another --run-id, or move it away")


def find_run(runs_dir: Path, run: str) -> RunPaths:
    """Find a run by its id, a unique prefix of it, `latest`, or a path to its folder; raises RunNotFound.

    A run in the shared ledger of the environment is found by its full id and, if it has ended, fetched from its store.
    """
    return _find_paths(runs_dir, run).fetch_if_remote()


def _find_paths(runs_dir: Path, run: str) -> RunPaths:
    if not run:
        raise UsageProblem("the name of the run is empty", hint="list the runs with: assay runs")
    at_path = _at_path(run)
    if at_path is not None:
        return at_path
    known = run_names(runs_dir)
    if run in known or (could_be_run_id(run) and adopt_known(RunPaths(runs_dir, run).active)):
        return RunPaths(runs_dir, run)
    if run == "latest" and known:
        return _latest(runs_dir)
    matches = [run_id for run_id in known if run_id.startswith(run)]
    if len(matches) == 1:
        return RunPaths(runs_dir, matches[0])
    if matches:
        raise _ambiguous(runs_dir, run, matches)
    members = find_group(runs_dir, run)
    if len(members) == 1:
        return members[0]
    if members:
        raise _group_error(run, [folders.run_id for folders in members])
    raise _not_found(runs_dir, run, known)


def _ambiguous(runs_dir: Path, run: str, matches: list[str]) -> RunNotFound:
    """Return the error for a name that several runs begin with, with the groups that they are in."""
    ledgers = LedgerOpener()
    found = {run_id: group_names(RunPaths(runs_dir, run_id), ledgers) for run_id in matches}
    members = [run_id for run_id, names in found.items() if run in names]
    if members:
        return _group_error(run, members)
    groups = list(dict.fromkeys(names[0] for names in found.values() if names))
    also = f"; groups among them: {_listed(groups)} ({GROUP_COMMANDS})" if groups else ""
    return RunNotFound(
        f"'{run}' matches {len(matches)} runs: {_listed(matches)}",
        hint=f"give more of the id; list the runs with: assay runs{also}",
    )


def _group_error(name: str, members: Sequence[str]) -> RunNotFound:
    what = f"'{name}' is a group of {len(members)} runs: {_listed(members)}"
    return RunNotFound(what, hint=f"name one of them; {GROUP_COMMANDS}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_MATCHES]) + (", …" if len(names) > MAX_MATCHES else "")


def _latest(runs_dir: Path) -> RunPaths:
    """Return the run that was created last, skipping runs that a shared ledger no longer has.

    Raises when the newest run's ledger is unavailable: with the next one in its place, a caller would cancel, or gate a release on,
    the wrong run.
    """
    ledgers = LedgerOpener()
    known = [RunPaths(runs_dir, run_id) for run_id in reversed(run_ids(runs_dir, ledgers))]
    for index, folders in enumerate(known):
        try:
            _check_ledger_available(folders, ledgers)
        except RunNotFound:
            continue
        except (LedgerUnavailable, MissingExtra) as problem:
            other = next((ended.run_id for ended in known[index:] if ended.is_sealed), "")
            or_name = f"; or name another run, such as {other}" if other else ""
            what = f"'{folders.run_id}' seems to be the latest run: {problem.message}"
            raise type(problem)(what, hint=f"{problem.hint}{or_name}") from problem
        return folders
    raise _not_found(runs_dir, "latest", [])


def _check_ledger_available(folders: RunPaths, ledgers: LedgerOpener) -> None:
    """Open and close an unfinished run's shared ledger, to raise what keeps it from being read."""
    if not folders.is_sealed and pointed_to(folders.active):
        ledgers.open(folders.active).close()


def _not_found(runs_dir: Path, run: str, known: list[str]) -> RunNotFound:
    listed = (
        "list the runs with: assay runs" if known else "no runs here yet; start one with `assay run`, or name another --runs-dir"
    )
    return RunNotFound(
        f"there is no run '{run}' in '{runs_dir}'", hint=(nearest(run, ("latest", *known)) if known else "") or listed
    )


def find_named_run(runs_dir: Path, run: str) -> RunPaths:
    """Find a run for an action that cannot be undone: as find_run, but raise UsageProblem for `latest` or a prefix of an id."""
    found = find_run(runs_dir, run)
    # The latest run may be another one by the time the command is confirmed.
    if _at_path(run) is None and found.run_id != run:
        raise UsageProblem(f"'{run}' is not the whole id of a run", hint=f"this cannot be undone; if you mean it: {found.run_id}")
    return found


def _at_path(run: str) -> RunPaths | None:
    path = Path(run)
    if not (path / MANIFEST).is_file():
        return None
    # A path such as `.` has no name.
    folder = path.resolve() if path.name in ("", "..") else path
    return RunPaths(folder.parent, folder.name)


def run_ids(runs_dir: Path, ledgers: LedgerOpener | None = None) -> list[str]:
    """Return the ids of all runs in the order of their creation."""
    ledgers = ledgers or LedgerOpener()
    created = {run_id: _created_at(RunPaths(runs_dir, run_id), ledgers) for run_id in run_names(runs_dir)}
    return sorted(created, key=lambda run_id: (created[run_id], run_id))


def run_names(runs_dir: Path) -> list[str]:
    """Return the ids of all runs in alphabetical order."""
    # Active runs are listed first: a run that is sealed between the two listings is then in at least one of them.
    active = active_names(runs_dir)
    sealed = {path.parent.name for path in runs_dir.glob(f"*/{MANIFEST}")}
    return sorted(active | sealed)


def active_names(runs_dir: Path) -> set[str]:
    """Return the ids of the runs that have working state."""
    return {path.parent.name for name in (LEDGER, POINTER) for path in runs_dir.glob(f"{ACTIVE}/*/{name}")}


class _GroupCandidate(msgspec.Struct, frozen=True):
    name: str = ""


class _GroupMembers(msgspec.Struct, frozen=True):
    """The part of a plan that tells the groups of its run."""

    candidate: _GroupCandidate = _GroupCandidate()
    suite: str = ""
    group: str = ""


class _GroupManifest(msgspec.Struct, frozen=True):
    plan: _GroupMembers = _GroupMembers()


_decode_manifest_group = msgspec.json.Decoder(_GroupManifest).decode
_decode_plan_group = msgspec.json.Decoder(_GroupMembers).decode


def run_suffix(candidate: str) -> str:
    """Return the name of a candidate as the end of a run id."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", candidate).strip("-.")


def group_names(folders: RunPaths, ledgers: LedgerOpener) -> tuple[str, ...]:
    """Return the names of the groups that a run belongs to, its own first; none for an unreadable run."""
    try:
        plan = _group_members(folders, ledgers)
    except (AssayError, ValueError):
        return ()
    names = [plan.group] if plan.group else []
    suffix = f"-{run_suffix(plan.candidate.name)}"
    # Runs of earlier versions have no group, and a part of a suite with several candidates is a group within that of the suite.
    if plan.suite and folders.run_id.endswith(suffix):
        common = folders.run_id.removesuffix(suffix)
        names += [common, re.sub(r"-\d+$", "", common)]
    return tuple(dict.fromkeys(names))


def _group_members(folders: RunPaths, ledgers: LedgerOpener) -> _GroupMembers:
    if folders.is_sealed:
        return _decode_manifest_group(read_manifest(folders.sealed)).plan
    ledger = ledgers.open(folders.active)
    try:
        return _decode_plan_group(ledger.run().plan)
    finally:
        ledger.close()


def find_group(runs_dir: Path, name: str) -> tuple[RunPaths, ...]:
    """Return the runs of a group in the order of their creation; none when no run says that it belongs to it."""
    if not could_be_run_id(name):
        return ()
    ledgers = LedgerOpener()
    members = [RunPaths(runs_dir, run_id) for run_id in run_names(runs_dir)]
    members = [folders for folders in members if name in group_names(folders, ledgers)]
    return tuple(sorted(members, key=lambda folders: (_created_at(folders, ledgers), folders.run_id)))


def find_runs(runs_dir: Path, name: str) -> tuple[RunPaths, ...]:
    """Find the runs of a group by its name, or a run as `find_run` does; raises RunNotFound.

    A run with exactly this name comes first, then the group, then a run that begins with the name.
    """
    # Groups are looked for only where the name is no run: that reads the plan of each run.
    if name != "latest" and _at_path(name) is None and not _is_run(runs_dir, name):
        found = find_group(runs_dir, name)
        if found:
            return tuple(folders.fetch_if_remote() for folders in found)
    return (find_run(runs_dir, name),)


def _is_run(runs_dir: Path, name: str) -> bool:
    return could_be_run_id(name) and (RunPaths(runs_dir, name).exists or adopt_known(RunPaths(runs_dir, name).active))


class _CreationTime(msgspec.Struct):
    created_at: datetime


_decode_created = msgspec.json.Decoder(_CreationTime).decode


def _created_at(folders: RunPaths, ledgers: LedgerOpener) -> float:
    """Return a run's creation time in seconds; for an unreadable run, when its ledger, pointer or manifest was last written."""
    try:
        if folders.is_sealed:
            return _decode_created(read_manifest(folders.sealed)).created_at.timestamp()
        ledger = ledgers.open(folders.active)
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
        # The run was sealed between the two reads, which makes it the newest.
        return inf


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


def _refuse(run_id: str, problems: list[FileProblem]) -> None:
    if problems:
        raise UsageProblem(f"run '{run_id}' is not as it was published: {problems[0]}", hint=f"see: assay verify {run_id}")


def fetch_published(address: str, runs_dir: Path) -> RunPaths:
    """Fetch a finished run from an object store into `runs_dir`; a run that is there already stays as it is.

    Raises RunNotFound, RunDamaged, StoreUnavailable, and RunSealed or UsageProblem when `runs_dir` has another run of that id.
    """
    storage = open_remote_storage(address)
    found = published_at(storage)
    if found is None:
        raise RunNotFound(f"there is no finished run at {storage.shown}", hint="write s3://BUCKET/PREFIX/RUN, as it was published")
    folders = folders_of(runs_dir, found.run_id).fetch_if_remote()
    if not folders.is_sealed:
        if folders.has_ledger:
            raise UsageProblem(f"run '{found.run_id}' is unfinished here", hint=f"resume it: assay resume {found.run_id}")
        check_target_free(folders)
        fetch_new(storage, active=folders.active, sealed=folders.sealed)
    # Checked after fetching, so that a run that was there before is checked too.
    if open_run_folder(folders.sealed).manifest.own_hash != found.manifest_sha256:
        raise RunSealed(f"'{folders.sealed}' is another run of that id", hint="fetch it into another --runs-dir")
    return folders
