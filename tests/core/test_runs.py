"""States of a run, and which may follow which."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from assay import api
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.runs import start
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    return write_job(tmp_path, provider.base_url, records=40)


def test_no_state_is_entered_before_the_one_it_follows(job: Job) -> None:
    (plan,) = api.plan_runs(api.RunRequest(run_file=str(job.folder / "run.json"), run_id="x", limit=1)).plans
    backwards = count(1_700_000_000, -1)
    start(plan, job.runs, RunEnvironment(environ={}, clock=lambda: float(next(backwards))))
    manifest = api.open_run("x", runs_dir=job.runs).run_manifest
    entered = [state.entered_at for state in manifest.states]
    assert entered == sorted(entered)
    assert manifest.completed_at == entered[-1] == entered[-2]
