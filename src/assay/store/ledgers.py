"""Location of a run's ledger: a file in its working folder, or rows in a PostgreSQL that many machines share."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Protocol

import msgspec

from assay.core.errors import LedgerUnavailable, MissingExtra, RunNotFound, StoreUnavailable, UsageProblem
from assay.core.integrations import load_integration
from assay.store.failures import disk_errors, sync_folder
from assay.store.ledger import Ledger, RunStatusRow
from assay.store.published_run import open_run_folder
from assay.store.sqlite import create_ledger as create_file
from assay.store.sqlite import open_ledger as open_file
from assay.store.submissions import NewSubmission, SubmissionRow, WaitingRun

LEDGER = "ledger.sqlite"
# A file in the working folder: commands that get a run's name find its ledger without a setting.
POINTER = "ledger.json"
"""Replaces the ledger file when the run's ledger is shared, and holds its address."""
LEDGER_VARIABLE = "ASSAY_LEDGER"
"""Environment variable with the address of a shared ledger; the only setting of ours that may hold its password."""


class SharedLedger(Ledger, Protocol):
    """Ledger of one run, in a database that many machines share."""

    def remove_records(self, *, shown_plan: bytes) -> None:
        """Delete the records of a run that has ended, and replace its plan by the one that may be shown."""


class SharedLedgers(Protocol):
    """Runs of one database."""

    def create(self, run_id: str, *, plan: bytes, plan_sha256: str, at: float) -> SharedLedger:
        """Create a run in state `queued`; raises UsageProblem when there is a run of that id already."""

    def close(self) -> None:
        """Close the connection."""


class DriverLease(Protocol):
    """Right to drive one run, under a unique owner name."""

    owner: str

    def take(self) -> bool:
        """Take the lease; False while another driver holds it. Raises StoreUnavailable when the database cannot be reached."""

    def renew(self) -> bool:
        """Renew the lease; False when another driver has taken over."""

    def release(self) -> None:
        """Release the lease."""

    def close(self) -> None:
        """Close the connection."""


class RunCatalogue(Protocol):
    """All runs of one database, for callers that poll; from any thread."""

    def standings(self, run_ids: Iterable[str] | None = None) -> list[RunStatusRow]:
        """Read the status of all runs, or of those with some ids, with one query."""

    def plans(self, run_ids: Iterable[str]) -> dict[str, bytes]:
        """Read the plans of runs by id."""

    def has(self, run_id: str) -> bool:
        """Return whether there is a run of that id."""

    def close(self) -> None:
        """Close the database."""


class SharedSubmissions(Protocol):
    """Submissions to all servers of one database; every method is one durable transaction, from any thread."""

    def enter(self, row: SubmissionRow, submitted: NewSubmission) -> bool:
        """Create the run with its records and its key, all or nothing; False when there is a run under that key already."""

    def under(self, owner: str, key: str) -> SubmissionRow | None:
        """Find the submission under an idempotency key."""

    def of(self, run_id: str) -> SubmissionRow | None:
        """Find the submission of a run."""

    def waiting(self, limit: int) -> list[WaitingRun]:
        """List submitted runs that have not ended and have no driver, the oldest first."""

    def set_problem(self, run_id: str, problem: str) -> None:
        """Store why no server continues a run until a user resumes it; empty lets the servers continue."""

    def close(self) -> None:
        """Close the database."""


class Pointer(msgspec.Struct, frozen=True):
    """Content of the pointer file: the shared ledger of a run."""

    ledger: str
    """Address without a password."""
    # Two machines may have a working folder for the same run; the lease tells them apart by this name.
    place: str = ""
    """A name for this working folder that no other has."""


def ledger_file(active: Path) -> Path:
    """Return the file that marks a working folder as that of a run: the ledger, or the pointer to it."""
    # A local ledger wins over a pointer: it is what this machine has written.
    own = active / LEDGER
    return own if own.is_file() else active / POINTER


def is_own(active: Path) -> bool:
    """Return whether the run has a local ledger, so that only processes on this machine can drive it."""
    return (active / LEDGER).is_file()


def has_ledger(active: Path) -> bool:
    """Return whether the working folder is that of a run."""
    return (active / LEDGER).is_file() or (active / POINTER).is_file()


def pointed_to(active: Path) -> str:
    """Read the address of the shared ledger, without its password; empty for a local ledger. Raises StoreUnavailable."""
    return _pointer(active).ledger


def _pointer(active: Path) -> Pointer:
    path = active / POINTER
    try:
        with disk_errors(path):
            return msgspec.json.decode(path.read_bytes(), type=Pointer) if path.is_file() else Pointer("")
    except msgspec.DecodeError as problem:
        raise StoreUnavailable(f'"{path}" is damaged: {problem}', hint="write the address of the ledger into it again") from problem


def create_ledger(active: Path, *, plan: bytes, plan_sha256: str, at: float, address: str = "") -> None:
    """Create a run in state `queued`, in a local file or at the address; raises UsageProblem when it exists already."""
    if not address:
        create_file(active / LEDGER, plan=plan, plan_sha256=plan_sha256, at=at).close()
        return
    ledgers = shared_ledgers(address)
    try:
        ledgers.create(active.name, plan=plan, plan_sha256=plan_sha256, at=at).close()
    finally:
        ledgers.close()


def open_ledger(active: Path, *, driver: str = "") -> Ledger:
    """Open the ledger of an existing run, local or shared; raises RunNotFound when there is none."""
    address = pointed_to(active)
    return open_shared(address, active.name, driver=driver) if address else open_file(active / LEDGER)


def open_briefly(active: Path) -> Ledger:
    """Open the shared ledger of a run, with a short timeout."""
    return open_shared(pointed_to(active), active.name, is_brief=True)


def open_shared(address: str, run_id: str, *, driver: str = "", is_brief: bool = False) -> Ledger:
    """Open the ledger of a run in PostgreSQL; raises RunNotFound when there is none."""
    return _shared_run(address, run_id, driver=driver, is_brief=is_brief)


def _shared_run(address: str, run_id: str, *, driver: str = "", is_brief: bool = False) -> SharedLedger:
    ledger: SharedLedger = _postgres().open_run(reachable(address), run_id, driver=driver, is_brief=is_brief)
    return ledger


class LedgerOpener:
    """Opens the ledgers of many runs: waits once, and briefly, for a shared ledger that does not answer."""

    def __init__(self) -> None:
        self._away: dict[str, LedgerUnavailable] = {}

    def open(self, active: Path) -> Ledger:
        """Open a ledger as open_ledger does; raises LedgerUnavailable at once for an address that did not answer before."""
        address = pointed_to(active)
        if not address:
            return open_file(active / LEDGER)
        if address in self._away:
            # A list of a hundred runs would otherwise wait for the same timeout a hundred times.
            raise self._away[address]
        try:
            return open_shared(address, active.name, is_brief=True)
        except LedgerUnavailable as problem:
            self._away[address] = problem
            raise


def lease_of(active: Path, *, owner: str) -> DriverLease | None:
    """Create the lease to drive a run in a shared ledger; None for a local ledger, which a lock in its folder guards."""
    pointer = _pointer(active)
    if not pointer.ledger:
        return None
    lease: DriverLease = _postgres().PostgresLease(reachable(pointer.ledger), active.name, owner=owner, place=pointer.place)
    return lease


def shared_catalogue(address: str) -> RunCatalogue:
    """Open the list of all runs in a shared ledger."""
    catalogue: RunCatalogue = _postgres().PostgresCatalogue(reachable(address))
    return catalogue


def shared_submissions(address: str) -> SharedSubmissions:
    """Open the submissions to all servers that use a shared ledger."""
    submissions: SharedSubmissions = _postgres().PostgresSubmissions(reachable(address))
    return submissions


def point_to(active: Path, address: str) -> None:
    """Point a working folder to a run in a shared ledger; raises UsageProblem for an address that cannot be stored."""
    # The pointer may be copied, shown or backed up, so it never holds the password.
    pointer = msgspec.json.encode(Pointer(_postgres().address_without_password(address), secrets.token_hex(8)))
    # Written aside and renamed: a folder with half a pointer would be a run without a ledger.
    path, new = active / POINTER, active / f".{POINTER}-{secrets.token_hex(8)}"
    with disk_errors(path):
        new.write_bytes(pointer)
        new.replace(path)
    sync_folder(active)


def adopt(active: Path, address: str) -> None:
    """Create a working folder for a run in a shared ledger."""
    with disk_errors(active):
        active.mkdir(mode=0o700, parents=True, exist_ok=True)
    point_to(active, address)


def adopt_known(active: Path) -> bool:
    """Adopt a run of the ledger that the environment names; False without such a ledger or run."""
    address = os.environ.get(LEDGER_VARIABLE, "")
    if not address:
        return False
    try:
        open_shared(address, active.name).close()
    except RunNotFound:
        return False
    adopt(active, address)
    return True


def empty_ledger(active: Path, sealed: Path) -> None:
    """Delete the records of a published run from a shared ledger; its final state stays, and its plan as in the manifest."""
    address = pointed_to(active)
    if address:
        ledger = _shared_run(address, active.name)
        try:
            ledger.remove_records(shown_plan=msgspec.json.encode(open_run_folder(sealed).manifest.plan_members))
        finally:
            ledger.close()


def shared_ledgers(address: str) -> SharedLedgers:
    """Open a shared ledger and bring its tables up to date; raises UsageProblem for an invalid address."""
    ledgers: SharedLedgers = _postgres().PostgresLedgers(reachable(address))
    return ledgers


def reachable(address: str) -> str:
    """Return the address with the password from the environment, if it is set there."""
    given = os.environ.get(LEDGER_VARIABLE, "")
    without = _postgres().address_without_password
    if given and without(given) == without(address):
        return given
    if without(address) != address:
        raise UsageProblem(
            "the address of the ledger holds a password, which others on this machine can read",
            hint=f"give the whole address in {LEDGER_VARIABLE}, or the password in PGPASSWORD or ~/.pgpass",
        )
    return address


def _postgres() -> ModuleType:
    try:
        return load_integration("postgres", user="a shared ledger")
    except ModuleNotFoundError as problem:
        raise MissingExtra("a shared ledger needs psycopg", hint="install it: pip install 'assay[postgres]'") from problem
