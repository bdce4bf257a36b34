"""Runs on machines that share no folder: whoever seals one publishes it in a store, and whoever asks for it fetches it."""

from collections.abc import Iterator

import pytest

from tests.crash.check import problems_of
from tests.crash.job import steady
from tests.crash.provider import CountingProvider
from tests.store.buckets import Bucket, running_bucket
from tests.temporal.machines import Site, finished
from tests.temporal.test_runs import expected_of


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with running_bucket() as bucket:
        for name, value in bucket.environ.items():
            monkeypatch.setenv(name, value)
        yield bucket


def test_a_run_that_a_worker_sealed_elsewhere_is_fetched_where_it_was_started(site: Site, bucket: Bucket) -> None:
    with CountingProvider(steady) as provider:
        job = site.job(provider, records=60, concurrency=8)
        expected = expected_of(job)
        with site.worker("one", "--runs-dir", str(site.folder / "worker"), "--store", "s3://runs/many"):
            result = finished(site.start("apart"))
        assert (result["state"], result["store"]) == ("completed_with_failures", "s3://runs/many/apart")
        assert problems_of(job, "apart", expected) == []
        assert bucket.ask("HEAD", "/runs/many/apart/run_manifest.json")[0] == 200
