"""Runs in an object store: publishing finished runs to it, and fetching runs that ended on another machine."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from assay.core.contract import MANIFEST
from assay.core.errors import RunNotFound, RunSealed, StoreUnavailable, UsageProblem
from assay.core.runs import TERMINAL
from assay.core.text import iso
from assay.store.download import ManifestSummary, fetch_run, published_at
from assay.store.failures import disk_errors
from assay.store.ledger import Ledger, RunRow
from assay.store.ledgers import empty_ledger, open_ledger, pointed_to
from assay.store.lock import RunLock
from assay.store.published_run import RemoteRunStorage, open_remote_storage, publish_files
from assay.store.verify import verify_run

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
