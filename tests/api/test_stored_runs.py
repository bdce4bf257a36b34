"""Finished runs: scored anew under another name, and what is refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import RunSealed, UsageProblem
from assay.core.run_result import RunResult
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider
from tests.engine.test_rescore import ROWS, run_all
from tests.engine.test_runs import run


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    return write_job(tmp_path, provider.base_url, records=40)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run with every kind of failure; its provider is gone, so that nobody could be asked any more."""
    return run_all(tmp_path_factory.mktemp("first"), *ROWS, gates={"min_score": 0.5, "max_error_rate": 0.9})


def test_a_run_that_was_changed_is_not_rescored(first: RunResult, tmp_path: Path) -> None:
    copy = tmp_path / "runs" / "copy"
    shutil.copytree(first.run_dir, copy)
    (copy / "predictions.jsonl").chmod(0o644)
    (copy / "predictions.jsonl").write_text("")
    with pytest.raises(UsageProblem, match=r"run 'copy' is not as it was published: predictions\.jsonl"):
        api.rescore(str(copy), profile="prbench")


def test_a_run_whose_records_were_purged_is_not_rescored(first: RunResult, tmp_path: Path) -> None:
    copy = tmp_path / "runs" / "copy"
    shutil.copytree(first.run_dir, copy)
    api.purge(tmp_path / "runs", run_name="copy", reason="a test")
    with pytest.raises(UsageProblem, match="of run 'copy' were removed by retention"):
        api.rescore("copy", profile="prbench", runs_dir=tmp_path / "runs")


def test_a_run_of_that_name_is_not_written_again(first: RunResult) -> None:
    with pytest.raises(RunSealed, match="run 'first' exists already"):
        api.rescore(first.run_dir, profile="prbench", run_id="first")


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"profile": "mmlu"}, "unknown profile 'mmlu'"), ({"profile": "prbench", "min_score": 50}, "50 is not on the scale 0-1")],
)
def test_wrong_options_are_refused(first: RunResult, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageProblem, match=problem):
        api.rescore(first.run_dir, **options)


def test_the_newest_run_is_the_one_that_was_created_last(job: Job) -> None:
    for run_id in ("b", "a", "c"):
        run(job, run_id, limit=1)
    (job.runs / "b" / "note.txt").touch()
    assert [listed.run_id for listed in api.list_runs(job.runs)] == ["c", "a", "b"]
    assert api.open_run("latest", runs_dir=job.runs).folders.run_id == "c"
