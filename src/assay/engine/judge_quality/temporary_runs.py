"""Cases that are evaluated like those of a run, with retries, limits and prices, and of which no run is kept."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from assay.core.case import Case
from assay.core.plan import Plan, plan_sha256
from assay.engine.execution.run import evaluate
from assay.engine.execution.run_context import RunEnvironment
from assay.store.ledger import FinishedRecord, RecordRow
from assay.store.sqlite import create_ledger


def evaluate_cases(plan: Plan, cases: Iterable[Case], environment: RunEnvironment) -> list[FinishedRecord]:
    """Evaluate cases and return them with their outcomes, in order; the ledger is temporary."""
    rows = (RecordRow(position, case.id, case.record_sha256, msgspec.json.encode(case)) for position, case in enumerate(cases))
    with tempfile.TemporaryDirectory(prefix="assay-judge-") as folder:
        # A ledger like any run: calls are retried, limited and priced in the same way.
        ledger = create_ledger(
            Path(folder) / "ledger.sqlite", plan=msgspec.json.encode(plan), plan_sha256=plan_sha256(plan), at=environment.clock()
        )
        try:
            ledger.set_state("queued", "validating", at=environment.clock())
            ledger.replace_records(rows)
            ledger.set_state("validating", "running", at=environment.clock())
            evaluate(ledger, plan, environment)
            return list(ledger.finished())
        finally:
            ledger.close()
