"""The batches of one run on this machine: what they take from its surroundings, and how they are shown."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from assay.core.plan import Plan
from assay.engine.planning.plugins import OpenPlugins
from assay.engine.running.batches import Collecting, collect, has_open_batches
from assay.engine.running.rooms import grading_settings
from assay.engine.running.surroundings import Surroundings
from assay.engine.tally import BatchProgress, Tally
from assay.store.ledger import Ledger
from assay.store.sqlite import SqliteLedger


def collect_batches(ledger: Ledger, plan: Plan, *, folder: Path, around: Surroundings, has_work: bool) -> bool:
    """Bring answers from batches into the ledger; those of a cancelled run too, as far as they are paid for.

    False when it was left before that was done. `folder` has the run's working state.
    """
    assert isinstance(ledger, SqliteLedger), "a run with batches has a ledger of its own"
    if not (has_work or has_open_batches(ledger)):
        return True
    collecting = Collecting(
        ledger=ledger,
        plan=plan,
        settings=grading_settings(plan, OpenPlugins(plan, around.plugins)),
        folder=folder,
        environ=around.environ,
        clock=around.clock,
        attachments=around.inputs[0].attachments if around.inputs else None,
        spent=lambda: ledger.spent() if plan.max_cost is not None else 0.0,
        show=_display(ledger, around),
        is_stopping=around.is_stopping,
        takes_signals=around.takes_signals,
        is_detached=around.is_detached,
    )
    return collect(collecting)


def _display(ledger: Ledger, around: Surroundings) -> Callable[[BatchProgress], None] | None:
    """What shows the run while it waits for its batches; None where nobody looks."""
    watch, started = around.watch, around.clock()
    if watch is None:
        return None
    counts = ledger.counts()
    opened = counts.pop("open", 0)
    tally = Tally(sum(counts.values()) + opened, counts, started=started)

    def show(progress: BatchProgress) -> None:
        snapshot = tally.snapshot("running", around.clock(), is_stopping=progress.is_stopping)
        watch(msgspec.structs.replace(snapshot, batch=progress))

    return show
