"""Where the ledger of a run is: a file in its working folder, or rows in a PostgreSQL that many machines share."""

import os
import secrets
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from assay.core.errors import LedgerUnavailable, MissingExtra, RunNotFound, StoreUnavailable, UsageProblem
from assay.store.failures import disk_errors, sync_folder
from assay.store.folder import open_run_folder
from assay.store.ledger import Ledger
from assay.store.sqlite import create_ledger as create_file
from assay.store.sqlite import open_ledger as open_file

if TYPE_CHECKING:
    from assay.store.postgres import PostgresCatalogue, PostgresLease, PostgresLedgers, PostgresSubmissions

LEDGER = "ledger.sqlite"
POINTER = "ledger.json"
"""In the place of the file it says where the shared ledger of the run is."""
LEDGER_VARIABLE = "ASSAY_LEDGER"
"""The variable of the environment with the address of a shared ledger; the one place of ours that may hold its password."""


class Pointer(msgspec.Struct, frozen=True):
    """Where the shared ledger of a run is."""

    ledger: str
    """Its address, without a password."""
    place: str = ""
    """A name for this working folder that no other has."""


def ledger_file(active: Path) -> Path:
    """What makes a working folder that of a run: the ledger, or what points to it."""
    own = active / LEDGER
    return own if own.is_file() else active / POINTER


def is_own(active: Path) -> bool:
    """True for a run with a ledger of its own, which nobody on another machine works on."""
    return (active / LEDGER).is_file()


def has_ledger(active: Path) -> bool:
    """True when the working folder is that of a run."""
    return (active / LEDGER).is_file() or (active / POINTER).is_file()


def pointed_to(active: Path) -> str:
    """The address of the shared ledger, as it is kept; empty for a run with a ledger of its own. Raises StoreUnavailable."""
    return _pointer(active).ledger


def _pointer(active: Path) -> Pointer:
    path = active / POINTER
    try:
        with disk_errors(path):
            return msgspec.json.decode(path.read_bytes(), type=Pointer) if path.is_file() else Pointer("")
    except msgspec.DecodeError as problem:
        raise StoreUnavailable(f'"{path}" is damaged: {problem}', hint="write the address of the ledger into it again") from problem


def create_ledger(active: Path, *, plan: bytes, plan_sha256: str, at: float, address: str = "") -> None:
    """A new run in state `queued`, here or at the address; raises UsageProblem when there is one already."""
    if not address:
        create_file(active / LEDGER, plan=plan, plan_sha256=plan_sha256, at=at).close()
        return
    ledgers = shared_ledgers(address)
    try:
        ledgers.create(active.name, plan=plan, plan_sha256=plan_sha256, at=at).close()
    finally:
        ledgers.close()


def open_ledger(active: Path, *, driver: str = "") -> Ledger:
    """The ledger of an existing run, wherever it is; raises RunNotFound when there is none."""
    address = pointed_to(active)
    return open_shared(address, active.name, driver=driver) if address else open_file(active / LEDGER)


def open_briefly(active: Path) -> Ledger:
    """The shared ledger of a run, without a long wait where it does not answer."""
    return open_shared(pointed_to(active), active.name, is_brief=True)


def open_shared(address: str, run_id: str, *, driver: str = "", is_brief: bool = False) -> Ledger:
    """The ledger of a run in PostgreSQL; raises RunNotFound when there is none."""
    ledger: Ledger = _postgres().open_run(reachable(address), run_id, driver=driver, is_brief=is_brief)
    return ledger


class Looks:
    """Looks at many runs in a row: a shared ledger that does not answer is waited for once, and briefly."""

    def __init__(self) -> None:
        self._away: dict[str, LedgerUnavailable] = {}

    def open(self, active: Path) -> Ledger:
        """As open_ledger; raises LedgerUnavailable at once for an address that has not answered before."""
        address = pointed_to(active)
        if not address:
            return open_file(active / LEDGER)
        if address in self._away:
            raise self._away[address]
        try:
            return open_shared(address, active.name, is_brief=True)
        except LedgerUnavailable as problem:
            self._away[address] = problem
            raise


def lease_of(active: Path, *, owner: str) -> "PostgresLease | None":
    """The right to drive a run in a shared ledger; None for a run with a ledger of its own, which a lock in its folder guards."""
    pointer = _pointer(active)
    if not pointer.ledger:
        return None
    lease: PostgresLease = _postgres().PostgresLease(reachable(pointer.ledger), active.name, owner=owner, place=pointer.place)
    return lease


def shared_catalogue(address: str) -> "PostgresCatalogue":
    """All runs of a shared ledger at a glance."""
    catalogue: PostgresCatalogue = _postgres().PostgresCatalogue(reachable(address))
    return catalogue


def shared_submissions(address: str) -> "PostgresSubmissions":
    """What was submitted to all servers over a shared ledger."""
    submissions: PostgresSubmissions = _postgres().PostgresSubmissions(reachable(address))
    return submissions


def point_to(active: Path, address: str) -> None:
    """Let a working folder stand for a run whose ledger is elsewhere; raises UsageProblem for an address that cannot be kept."""
    kept = msgspec.json.encode(Pointer(_postgres().address_without_password(address), secrets.token_hex(8)))
    path, new = active / POINTER, active / f".{POINTER}-{secrets.token_hex(8)}"
    with disk_errors(path):
        new.write_bytes(kept)
        new.replace(path)
    sync_folder(active)


def adopt(active: Path, address: str) -> None:
    """Let a working folder that is not there yet stand for a run of a shared ledger."""
    with disk_errors(active):
        active.mkdir(mode=0o700, parents=True, exist_ok=True)
    point_to(active, address)


def adopt_known(active: Path) -> bool:
    """The same for a run of the ledger that the environment names; False without one, or when it has no such run."""
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
    """Delete the records of a published run from a shared ledger; how it ended stays, and its plan as the manifest has it."""
    address = pointed_to(active)
    if address:
        ledger = _postgres().open_run(reachable(address), active.name)
        try:
            ledger.remove_records(shown_plan=msgspec.json.encode(open_run_folder(sealed).manifest["plan"]))
        finally:
            ledger.close()


def shared_ledgers(address: str) -> "PostgresLedgers":
    """The runs of a shared ledger, whose tables are brought up to date; raises UsageProblem for an address that is none."""
    ledgers: PostgresLedgers = _postgres().PostgresLedgers(reachable(address))
    return ledgers


def reachable(address: str) -> str:
    """The address with the password that the environment has for it."""
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
        return import_module("assay.store.postgres")
    except ModuleNotFoundError as problem:
        raise MissingExtra("a shared ledger needs psycopg", hint="install it: pip install 'assay[postgres]'") from problem
