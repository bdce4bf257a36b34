"""Servers that share a ledger and a store, and no folder: each shows every finished run, whoever has made it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.job import steady
from tests.crash.provider import CountingProvider
from tests.server.serving import Serving
from tests.store.buckets import Bucket, running_bucket
from tests.store.databases import Database


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with running_bucket() as bucket:
        for name, value in bucket.environ.items():
            monkeypatch.setenv(name, value)
        yield bucket


def server_over(database: Database, folder: Path, provider: CountingProvider) -> Serving:
    folder.mkdir()
    run_file = {
        "candidates": [{"model": "stub/candidate"}],
        "judges": [{"model": "stub/judge"}],
        "providers": [{"name": "stub", "base_url": provider.base_url, "timeout": 20}],
    }
    options = ("--ledger", database.address, "--store", "s3://runs/served")
    return Serving(folder, settings="requests_per_minute: 100000\n", run_file=json.dumps(run_file), options=options)


def test_a_server_fetches_the_run_that_another_has_made(bucket: Bucket, database: Database, tmp_path: Path) -> None:
    records = [{"record_id": f"r-{number}", "input": {"prompt": f"Tell of [case {number}]."}} for number in range(5)]
    document = {"dataset_id": "stored", "dataset_version": "1", "schema_version": "1.0", "records": records}
    with (
        CountingProvider(steady) as provider,
        server_over(database, tmp_path / "a", provider) as first,
        server_over(database, tmp_path / "b", provider) as second,
    ):
        run_id = str(first.submit(document).json["run_id"])
        ended = first.ended(run_id)
        assert second.ask("GET", f"/v1/runs/{run_id}/records").json["total"] == 5
        assert second.ended(run_id)["counts"] == ended["counts"]
        assert second.ask("GET", f"/runs/{run_id}").status == 200
    assert bucket.ask("HEAD", f"/runs/served/{run_id}/run_manifest.json")[0] == 200
    folders = [{path.name: path.read_bytes() for path in (server.runs_dir / run_id).iterdir()} for server in (first, second)]
    assert folders[0] == folders[1]


def test_a_bucket_alone_is_a_store(bucket: Bucket, tmp_path: Path) -> None:
    document = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0"}
    records = [{"record_id": "r", "input": {"prompt": "Tell."}}]
    with Serving(tmp_path, options=("--store", "s3://runs")) as server:
        run_id = str(server.submit({**document, "records": records}).json["run_id"])
        server.ended(run_id)
    assert bucket.ask("HEAD", f"/runs/{run_id}/run_manifest.json")[0] == 200
