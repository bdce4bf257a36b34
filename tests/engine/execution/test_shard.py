"""Records of a run in this process: a cancel of another process is noticed while none of them ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import api
from tests.crash.job import steady, write_job
from tests.crash.provider import CountingProvider


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


def test_a_cancel_from_another_process_ends_a_run_under_way(tmp_path: Path, provider: CountingProvider) -> None:
    job = write_job(tmp_path, provider.base_url, records=400)
    provider.hold(after=20)
    running = job.start("x")
    provider.wait_for(21, while_alive=running)
    api.cancel("x", runs_dir=job.runs)
    calls = provider.calls.total()
    provider.let_go()
    running.communicate()
    result = api.open_run("x", runs_dir=job.runs).result
    assert (running.returncode, result.state) == (130, "cancelled")
    assert provider.calls.total() - calls <= 2 * job.concurrency
    assert result.counts.cancelled_records > 300
    assert api.verify("x", runs_dir=job.runs) == []
