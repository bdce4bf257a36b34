"""Choice of the engine that evaluates a run: this process, or the workers of a Temporal server as noted in the ledger."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

import msgspec

from assay.core.errors import MissingExtra, RunNotFound, StoreUnavailable, UsageProblem
from assay.core.integrations import load_integration
from assay.core.plan import Plan, read_plan
from assay.core.runs import TERMINAL, RunBackend, TemporalServer
from assay.engine.execution.run import check_shareable
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import Ledger
from assay.store.ledgers import pointed_to

TEMPORAL = "temporal"
"""Note in the ledger with the Temporal server whose workers evaluate the run."""
PROBLEM = "problem"
"""Note in the ledger with the problem that keeps workers from continuing the run."""


def check_placement(plan: Plan, placement: RunBackend) -> None:
    """Raise UsageProblem or MissingExtra when a new run cannot be stored or evaluated on this backend."""
    if placement.ledger:
        check_shareable(plan)
    if placement.temporal is not None:
        temporal_engine("workflow_client").check_placeable(plan)


def check_reachable(run_id: str, environment: RunEnvironment) -> None:
    """Raise when the Temporal server of a new run cannot be reached, before the run's records are written."""
    server = environment.placement.temporal
    if server is not None:
        temporal_engine("connection").check_server(run_id, server, environ=environment.environ)


@contextmanager
def ignore_if_sealed(folders: RunPaths) -> Iterator[None]:
    """Ignore a missing run inside the block when another process has sealed it and removed its ledger meanwhile."""
    try:
        yield
    except (RunNotFound, StoreUnavailable):
        if not folders.is_sealed:
            raise


def temporal_engine(part: str) -> ModuleType:
    """Import a module of the Temporal engine; raises MissingExtra."""
    try:
        return load_integration("temporal", part, user="the engine")
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        raise MissingExtra(f"the engine needs {package}", hint="pip install 'assay[temporal,postgres]'") from problem


def assigned_server(folders: RunPaths, environment: RunEnvironment) -> TemporalServer | None:
    """Return the server whose workers evaluate the run, noting a new one in the ledger; raises UsageProblem."""
    if not folders.has_ledger:
        return None
    wanted = environment.placement.temporal
    if wanted is not None and not pointed_to(folders.active):
        raise UsageProblem(
            f"run '{folders.run_id}' has a local ledger, which workers on other machines cannot reach",
            hint="start a new run with --ledger postgresql://user@host/database, or resume this one without --temporal",
        )
    ledger = folders.open_ledger()
    try:
        return _read_or_set_server(ledger, wanted, run_id=folders.run_id, environ=environment.environ)
    finally:
        ledger.close()


def _read_or_set_server(
    ledger: Ledger, wanted: TemporalServer | None, *, run_id: str, environ: Mapping[str, str]
) -> TemporalServer | None:
    row = ledger.run()
    note = row.notes.get(TEMPORAL, "")
    known = msgspec.json.decode(note, type=TemporalServer) if note else None
    if row.state in TERMINAL:
        return None
    if row.notes.get(PROBLEM):
        # The cause may be fixed by now; if not, the next worker notes it again.
        ledger.set_note(PROBLEM, "")
    if wanted is None or wanted == known:
        return known
    temporal_engine("workflow_client").check_placeable(read_plan(row.plan))
    is_other = known is not None and (known.address, known.namespace) != (wanted.address, wanted.namespace)
    if is_other and not temporal_engine("connection").check_left(run_id, known, wanted, environ=environ):
        return wanted
    ledger.set_note(TEMPORAL, msgspec.json.encode(wanted).decode())
    return wanted
