"""Which engine works on a run: this process, or the workers of a Temporal server. The ledger remembers it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType

import msgspec

from assay.core.errors import MissingExtra, RunNotFound, StoreUnavailable, UsageProblem
from assay.core.placement import Placement, TemporalServer
from assay.core.plan import Plan, read_plan
from assay.core.run_state import TERMINAL
from assay.core.stop_signals import raised_as_interrupt
from assay.engine.places.folders import RunFolders
from assay.engine.running.run import check_shareable, drive, prepare
from assay.engine.running.surroundings import Surroundings
from assay.store.ledger import Ledger
from assay.store.ledgers import pointed_to

TEMPORAL = "temporal"
"""Under this name the ledger says which Temporal server's workers work on the run."""
PROBLEM = "problem"
"""Under this name the ledger says what kept a worker from going on with it."""


def check_placement(plan: Plan, placement: Placement) -> None:
    """Raises UsageProblem for a new run that cannot be kept or worked on there, and MissingExtra."""
    if placement.ledger:
        check_shareable(plan)
    if placement.temporal is not None:
        temporal_engine("submitting").check_placeable(plan)


def check_reachable(run_id: str, surroundings: Surroundings) -> None:
    """Raises what keeps the Temporal server of a new run from being asked: better now than when its records are written."""
    server = surroundings.placement.temporal
    if server is not None:
        temporal_engine("asking").check_server(run_id, server, environ=surroundings.environ)


def carry_out(folders: RunFolders, surroundings: Surroundings, plan: Plan | None = None) -> None:
    """Bring a run to its sealed end, here or through workers; raises Interrupted when somebody stops it, or stops watching."""
    with raised_as_interrupt() if surroundings.takes_signals else nullcontext():
        server = _server_of(folders, surroundings)
        if server is None:
            drive(folders, surroundings, plan=plan, is_patient=surroundings.is_patient)
            return
        prepare(folders, surroundings)
        engine = temporal_engine("submitting")
        if surroundings.is_detached:
            engine.start(folders, server, surroundings)
        else:
            engine.follow(folders, server, surroundings)


def wind_up(folders: RunFolders, surroundings: Surroundings) -> None:
    """See to it that a run that is cancelled is sealed: by whoever works on it or hands it to workers, and else here or by one."""
    server = _server_of(folders, surroundings)
    if server is None:
        drive(folders, surroundings, is_patient=False)
        return
    if prepare(folders, surroundings, is_patient=False):
        temporal_engine("submitting").start(folders, server, surroundings)


@contextmanager
def unless_sealed(folders: RunFolders) -> Iterator[None]:
    """Whoever works on the run may seal it at this very moment, and clear away what leads to its ledger: then nothing is left."""
    try:
        yield
    except (RunNotFound, StoreUnavailable):
        if not folders.is_sealed:
            raise


def temporal_engine(part: str) -> ModuleType:
    """A module of the distributed engine; raises MissingExtra."""
    try:
        return import_module(f"assay.engine.temporal.{part}")
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        raise MissingExtra(f"the engine needs {package}", hint="pip install 'assay[temporal,postgres]'") from problem


def _server_of(folders: RunFolders, surroundings: Surroundings) -> TemporalServer | None:
    """The server whose workers work on the run, which is told to the ledger where it is new; raises UsageProblem."""
    if not folders.has_ledger:
        return None
    wanted = surroundings.placement.temporal
    if wanted is not None and not pointed_to(folders.active):
        raise UsageProblem(
            f"run '{folders.run_id}' has a ledger of its own, which workers elsewhere cannot reach",
            hint="give --ledger postgresql://user@host/database with a new run, or go on with it here",
        )
    ledger = folders.open_ledger()
    try:
        return _noted(ledger, wanted, run_id=folders.run_id, environ=surroundings.environ)
    finally:
        ledger.close()


def _noted(ledger: Ledger, wanted: TemporalServer | None, *, run_id: str, environ: Mapping[str, str]) -> TemporalServer | None:
    row = ledger.run()
    note = row.notes.get(TEMPORAL, "")
    known = msgspec.json.decode(note, type=TemporalServer) if note else None
    if row.state in TERMINAL:
        return None
    if row.notes.get(PROBLEM):
        # It may be mended by now; if it is not, a worker says so again.
        ledger.set_note(PROBLEM, "")
    if wanted is None or wanted == known:
        return known
    temporal_engine("submitting").check_placeable(read_plan(row.plan))
    is_other = known is not None and (known.address, known.namespace) != (wanted.address, wanted.namespace)
    if is_other and not temporal_engine("asking").check_left(run_id, known, wanted, environ=environ):
        return wanted
    ledger.set_note(TEMPORAL, msgspec.json.encode(wanted).decode())
    return wanted
