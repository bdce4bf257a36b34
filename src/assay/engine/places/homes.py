"""The home of a run besides this machine: a place in an object store, where its artifacts are published and fetched from again."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from assay.core.errors import RunNotFound, RunSealed, StoreUnavailable, UsageProblem
from assay.core.input_document import MANIFEST
from assay.core.moment import iso
from assay.core.run_state import TERMINAL
from assay.store.failures import disk_errors
from assay.store.fetching import Published, fetch_run, published_at
from assay.store.ledger import Ledger, RunRow
from assay.store.ledgers import empty_ledger, open_ledger, pointed_to
from assay.store.lock import RunLock
from assay.store.objects import ObjectPlace, publish_objects
from assay.store.verify import verify_run

STORE = "store"
"""Under this name the ledger says in which store the run has its home."""
SEALED_IN = "sealed_in"
"""Under this name it says on which machine, and in which folder, the artifacts are of a run that has ended."""
_PATIENCE = 60.0


def home_of(store: str, run_id: str) -> str:
    """The address of a run in a store; empty without one."""
    return f"{store.rstrip('/')}/{run_id}" if store else ""


def check_store(store: str) -> None:
    """Raises UsageProblem for an address that holds a secret or means no place, before anybody keeps it.

    Raises StoreRefused for a bucket that is not there or that nobody here may use, StoreUnavailable for a store that is away.
    """
    ObjectPlace(home_of(store, "RUN")).check()


def note_store(ledger: Ledger, store: str, *, run_id: str) -> str:
    """Tell an unfinished run in which store it has its home, unless none is given; returns where that is, empty for nowhere."""
    row = ledger.run()
    known = row.notes.get(STORE, "")
    if not store or store == known or row.state in TERMINAL:
        return home_of(known, run_id)
    check_store(store)
    ledger.set_note(STORE, store)
    return home_of(store, run_id)


def publish_sealed(sealed: Path, store: str) -> str:
    """Write a finished run of this machine to a store, each file once and the manifest last; returns where it is.

    Repeating it changes nothing. Raises UsageProblem for a run that is not as it was published, RunSealed where another one is.
    """
    if problems := verify_run(sealed):
        raise UsageProblem(
            f"run '{sealed.name}' is not as it was published: {problems[0]}", hint=f"see: assay verify {sealed.name}"
        )
    home = home_of(store, sealed.name)
    publish_objects(sealed, home)
    return home


def is_at(home: str, row: RunRow) -> bool:
    """True when the artifacts of this very run are whole in its store: whoever published them may have died right after it."""
    found = published_at(ObjectPlace(home))
    return found is not None and _is_same(found, row)


def _is_same(found: Published, row: RunRow) -> bool:
    decided = row.notes.get("completed_at")
    return found.plan_sha256 == row.plan_sha256 and decided is not None and found.completed_at == iso(float(decided))


def fetch_ended(row: RunRow, *, active: Path, sealed: Path) -> None:
    """Fetch the artifacts of a run that has ended, by what the ledger says, for the holder of its lock.

    Raises RunNotFound for one without a home, StoreUnavailable, and RunDamaged for one that was changed.
    """
    home = home_of(row.notes.get(STORE, ""), sealed.name)
    if not home:
        raise are_elsewhere(sealed.name, row.notes)
    if not is_at(home, row):
        raise StoreUnavailable(
            f"run '{sealed.name}' has ended, but is not at {home}", hint="it was published there: bring it back from a copy"
        )
    fetch_run(ObjectPlace(home), sealed, work=active)


def are_elsewhere(run_id: str, notes: Mapping[str, str]) -> RunNotFound:
    """What to say where the artifacts of a run are wanted that has ended on another machine, and has no home in a store."""
    where = notes.get(SEALED_IN) or "in the runs folder of the machine that has sealed it"
    return RunNotFound(
        f"run '{run_id}' has ended on another machine, and its artifacts are there: {where}",
        hint="look there; one folder for all machines, or --store, keeps runs where every machine can fetch them",
    )


def bring_home(active: Path, sealed: Path) -> str:
    """Fetch the artifacts of a run that has ended on another machine; nothing happens to one that is here, or has not ended.

    Once, however many processes ask for it at the same time. Returns where they come from; raises as `fetch_ended`.
    """
    if _is_sealed(sealed) or not pointed_to(active):
        return ""
    try:
        row = _row(active)
    except RunNotFound:
        # Another process may have sealed it, or brought it, at this very moment.
        if not _is_sealed(sealed):
            raise
        return ""
    if row.state not in TERMINAL or STORE not in row.notes:
        return ""
    _once(partial(fetch_ended, row, active=active, sealed=sealed), active=active, sealed=sealed)
    return home_of(row.notes[STORE], sealed.name)


def _row(active: Path) -> RunRow:
    ledger = open_ledger(active)
    try:
        return ledger.run()
    finally:
        ledger.close()


def fetch_same(home: str, *, plan_sha256: str, active: Path, sealed: Path) -> None:
    """Fetch the finished run that a new one would repeat, where its home has it; raises RunSealed where it has another one."""
    place = ObjectPlace(home)
    found = published_at(place)
    if found is None:
        return
    if found.run_id != sealed.name or found.plan_sha256 != plan_sha256:
        raise RunSealed(
            f"{place.shown} holds a run that has ended, and was made with other settings",
            hint="artifacts are written once: choose another --run-id, or another --store",
        )
    fetch_new(place, active=active, sealed=sealed)


def fetch_new(place: ObjectPlace, *, active: Path, sealed: Path) -> None:
    """Fetch a run that this machine knows nothing of."""
    with disk_errors(active):
        active.mkdir(mode=0o700, parents=True, exist_ok=True)
    _once(partial(fetch_run, place, sealed, work=active), active=active, sealed=sealed)


def _once(fetch: Callable[[], None], *, active: Path, sealed: Path) -> None:
    """Fetch unless somebody else does so first; what stood for the run here goes away."""
    lock = RunLock(active)
    try:
        while not lock.wait(_PATIENCE):
            pass
        if not _is_sealed(sealed):
            fetch()
        empty_ledger(active, sealed)
        shutil.rmtree(active, ignore_errors=True)
    except StoreUnavailable:
        # Whoever had the lock may have brought the run and cleared the folder away.
        if not _is_sealed(sealed):
            raise
    finally:
        lock.release()


def _is_sealed(sealed: Path) -> bool:
    return (sealed / MANIFEST).is_file()
