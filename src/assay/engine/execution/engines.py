"""Which engine works on a run: this process, or the workers of a Temporal server. The ledger remembers it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType

import msgspec

from assay.core.errors import MissingExtra, RunNotFound, StoreUnavailable, UsageProblem
from assay.core.plan import Plan, read_plan
from assay.core.run_backend import RunBackend, TemporalServer
from assay.core.run_state import TERMINAL
from assay.core.stop_signals import raised_as_interrupt
from assay.engine.execution.run import check_shareable, prepare, run_to_completion
from assay.engine.execution.run_environment import RunEnvironment
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import Ledger
from assay.store.ledgers import pointed_to

TEMPORAL = "temporal"
"""Under this name the ledger says which Temporal server's workers work on the run."""
PROBLEM = "problem"
"""Under this name the ledger says what kept a worker from going on with it."""


def check_placement(plan: Plan, placement: RunBackend) -> None:
    """Raises UsageProblem for a new run that cannot be kept or worked on there, and MissingExtra."""
    if placement.ledger:
        check_shareable(plan)
    if placement.temporal is not None:
        temporal_engine("workflow_client").check_placeable(plan)


def check_reachable(run_id: str, environment: RunEnvironment) -> None:
    """Raises what keeps the Temporal server of a new run from being asked: better now than when its records are written."""
    server = environment.placement.temporal
    if server is not None:
        temporal_engine("preflight").check_server(run_id, server, environ=environment.environ)


def execute_run(folders: RunPaths, environment: RunEnvironment, plan: Plan | None = None) -> None:
    """Bring a run to its sealed end, here or through workers; raises RunInterrupted when somebody stops it, or stops watching."""
    with raised_as_interrupt() if environment.takes_signals else nullcontext():
        server = _server_of(folders, environment)
        if server is None:
            run_to_completion(folders, environment, plan=plan, is_patient=environment.is_patient)
            return
        prepare(folders, environment)
        engine = temporal_engine("workflow_client")
        if environment.is_detached:
            engine.start(folders, server, environment)
        else:
            engine.follow(folders, server, environment)


def finish_cancelled_run(folders: RunPaths, environment: RunEnvironment) -> None:
    """See to it that a run that is cancelled is sealed: by whoever works on it or hands it to workers, and else here or by one."""
    server = _server_of(folders, environment)
    if server is None:
        run_to_completion(folders, environment, is_patient=False)
        return
    if prepare(folders, environment, is_patient=False):
        temporal_engine("workflow_client").start(folders, server, environment)


@contextmanager
def ignore_if_sealed(folders: RunPaths) -> Iterator[None]:
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


def _server_of(folders: RunPaths, environment: RunEnvironment) -> TemporalServer | None:
    """The server whose workers work on the run, which is told to the ledger where it is new; raises UsageProblem."""
    if not folders.has_ledger:
        return None
    wanted = environment.placement.temporal
    if wanted is not None and not pointed_to(folders.active):
        raise UsageProblem(
            f"run '{folders.run_id}' has a ledger of its own, which workers elsewhere cannot reach",
            hint="give --ledger postgresql://user@host/database with a new run, or go on with it here",
        )
    ledger = folders.open_ledger()
    try:
        return _noted(ledger, wanted, run_id=folders.run_id, environ=environment.environ)
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
    temporal_engine("workflow_client").check_placeable(read_plan(row.plan))
    is_other = known is not None and (known.address, known.namespace) != (wanted.address, wanted.namespace)
    if is_other and not temporal_engine("preflight").check_left(run_id, known, wanted, environ=environ):
        return wanted
    ledger.set_note(TEMPORAL, msgspec.json.encode(wanted).decode())
    return wanted
