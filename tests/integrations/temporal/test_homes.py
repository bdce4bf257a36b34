"""Runs on machines that share no folder: whoever seals one publishes it in a store, and whoever asks for it fetches it."""

from collections.abc import Iterator

import pytest

from tests.integrations.temporal.machines import Plant, finished
from tests.store.buckets import Bucket, running_bucket

pytestmark = pytest.mark.xdist_group("temporal")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with running_bucket() as bucket:
        for name, value in bucket.environ.items():
            monkeypatch.setenv(name, value)
        yield bucket


def test_a_run_that_a_worker_sealed_elsewhere_is_fetched_where_it_was_started(site: Plant, bucket: Bucket) -> None:
    with site.worker("apart", "--runs-dir", str(site.folder / "worker"), "--store", "s3://runs/many"):
        result = finished(site.start("apart", "--limit", "20"))
    assert (result["state"], result["store"]) == ("completed_with_failures", "s3://runs/many/apart")
    assert site.assay("verify", "apart").returncode == 0
    assert {path.name for path in site.runs.iterdir()} >= {"apart"}
    assert bucket.ask("HEAD", "/runs/many/apart/run_manifest.json")[0] == 200
