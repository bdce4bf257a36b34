"""Runs that are started: names that are taken, and what is refused before any call."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import RunSealed, UsageProblem
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider
from tests.engine.test_runs import interrupt, run


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    return write_job(tmp_path, provider.base_url, records=40)


def test_a_finished_run_is_not_repeated_with_other_settings(job: Job) -> None:
    run(job, "x")
    with pytest.raises(RunSealed, match=r"other settings \(limit\)"):
        run(job, "x", limit=3)


def test_an_unfinished_run_is_not_resumed_with_other_settings(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    with pytest.raises(UsageProblem, match=r"other settings \(limit\)"):
        run(job, "x", limit=3)


def test_a_folder_that_is_no_run_is_refused_before_any_call(job: Job, provider: CountingProvider) -> None:
    (job.runs / "x").mkdir(parents=True)
    (job.runs / "x" / "notes.txt").write_text("mine")
    with pytest.raises(UsageProblem, match="is not a run"):
        run(job, "x")
    assert provider.calls.total() == 0


def test_a_retry_asks_only_for_what_failed(job: Job, provider: CountingProvider) -> None:
    first = run(job, "x")
    calls = provider.calls.total()
    second = api.retry("x", runs_dir=job.runs, run_id="y")
    assert second.counts.total_records == first.counts.failed_records - first.counts.invalid_records
    assert provider.calls.total() - calls < calls / 2
    assert api.open_run("y", runs_dir=job.runs).run_manifest.settings.parent_run_id == "x"


@pytest.mark.parametrize("run_id", ["audit.jsonl", "latest", "LATEST"])
def test_a_name_that_means_something_else_is_refused_before_any_call(job: Job, provider: CountingProvider, run_id: str) -> None:
    with pytest.raises(UsageProblem, match="cannot be a run id"):
        run(job, run_id)
    assert provider.calls.total() == 0


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_a_file_in_the_place_of_a_run_is_refused_before_any_call(
    job: Job, provider: CountingProvider, make: Callable[[Path], None]
) -> None:
    job.runs.mkdir()
    make(job.runs / "x")
    with pytest.raises(UsageProblem, match="is not a run"):
        run(job, "x")
    assert provider.calls.total() == 0


def test_an_empty_run_id_is_refused(job: Job) -> None:
    with pytest.raises(UsageProblem, match="empty"):
        run(job, "")
    run(job, "x")
    with pytest.raises(UsageProblem, match="cannot be a run id"):
        api.retry("x", runs_dir=job.runs, run_id="")
