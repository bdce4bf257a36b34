"""The batches of one run on this machine: what they take from its environment, and how their progress is reported."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from assay.core.plan import Plan
from assay.engine.execution.batch_collector import CollectorConfig, collect, has_open_batches
from assay.engine.execution.run_context import grading_settings
from assay.engine.execution.run_environment import RunEnvironment
from assay.engine.planning.plugins import OpenPlugins
from assay.engine.run_counters import BatchProgress, RunCounters
from assay.store.ledger import Ledger
from assay.store.sqlite import SqliteLedger


def collect_batches(ledger: Ledger, plan: Plan, *, folder: Path, environment: RunEnvironment, has_work: bool) -> bool:
    """Bring answers from batches into the ledger; those of a cancelled run too, as far as they are paid for.

    False when it was left before that was done. `folder` has the run's working state.
    """
    assert isinstance(ledger, SqliteLedger), "a run with batches has a ledger of its own"
    if not (has_work or has_open_batches(ledger)):
        return True
    collecting = CollectorConfig(
        ledger=ledger,
        plan=plan,
        settings=grading_settings(plan, OpenPlugins(plan, environment.plugins)),
        folder=folder,
        environ=environment.environ,
        clock=environment.clock,
        attachments=environment.inputs[0].attachments if environment.inputs else None,
        spent=lambda: ledger.spent() if plan.max_cost is not None else 0.0,
        show=_display(ledger, environment),
        is_stopping=environment.is_stopping,
        takes_signals=environment.takes_signals,
        is_detached=environment.is_detached,
    )
    return collect(collecting)


def _display(ledger: Ledger, environment: RunEnvironment) -> Callable[[BatchProgress], None] | None:
    """What shows the run while it waits for its batches; None where nobody looks."""
    watch, started = environment.watch, environment.clock()
    if watch is None:
        return None
    counts = ledger.counts()
    opened = counts.pop("open", 0)
    counters = RunCounters(sum(counts.values()) + opened, counts, started=started)

    def show(progress: BatchProgress) -> None:
        snapshot = counters.snapshot("running", environment.clock(), is_stopping=progress.is_stopping)
        watch(msgspec.structs.replace(snapshot, batch=progress))

    return show
