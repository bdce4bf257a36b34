"""Runs that several workers evaluate: the same artifacts as on one machine, whatever becomes of who works on them."""

import subprocess

from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import Job, steady
from tests.crash.provider import CountingProvider
from tests.temporal.machines import PATIENCE, Site, finished


def expected_of(job: Job) -> dict[str, object]:
    """What a run of the job on this machine alone leaves."""
    subprocess.run(job.command("here"), check=False, timeout=PATIENCE, capture_output=True)
    return stable_artifacts(job.runs / "here")


def test_two_workers_leave_the_artifacts_of_one_machine(site: Site) -> None:
    with CountingProvider(steady, latency=0.005) as provider:
        job = site.job(provider, records=600, concurrency=16)
        expected = expected_of(job)
        provider.calls.clear()
        with site.worker("one"), site.worker("two"):
            result = finished(site.start("there"))
        assert result["state"] == "completed_with_failures"
        assert problems_of(job, "there", expected) == []
