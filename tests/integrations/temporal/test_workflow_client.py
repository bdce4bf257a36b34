"""Runs that workers elsewhere go on with, as somebody sees them who follows."""

from contextlib import closing
from pathlib import Path

import pytest

from assay.engine.execution.run_context import RunEnvironment
from tests.store.samples import done, new_ledger

pytest.importorskip("temporalio")
from assay.integrations.temporal.workflow_client import WorkflowFollower


def test_the_pace_of_a_run_that_goes_on_counts_what_is_done_since(tmp_path: Path) -> None:
    times = iter((100.0, 105.0, 105.0, 110.0))
    with closing(new_ledger(tmp_path, records=200)) as ledger:
        claim = ledger.claim(0, owner="a worker")
        ledger.append(claim, [done(position) for position in range(90)])
        following = WorkflowFollower("r", ledger, RunEnvironment(environ={}, clock=lambda: next(times)))
        assert (following.snapshot().done, following.snapshot().rate) == (90, None)
        ledger.append(claim, [done(position) for position in range(90, 110)])
        assert following.snapshot().rate == pytest.approx(2.0)
