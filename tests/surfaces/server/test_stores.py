"""Servers that share a ledger and a store, and no folder: each shows every finished run, whoever has made it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay import api
from assay.surfaces.server.keys import Caller
from assay.surfaces.server.run_routes import run_view
from assay.surfaces.server.server import Server
from assay.surfaces.server.settings import ServerSettings
from tests.crash.job import steady
from tests.crash.provider import CountingProvider
from tests.store.buckets import Bucket, running_bucket
from tests.store.databases import Database
from tests.surfaces.server.serving import PATIENCE, Serving, free_port

DOCUMENT = {
    "dataset_id": "d",
    "dataset_version": "1",
    "schema_version": "1.0",
    "records": [{"record_id": "r", "input": {"prompt": "Tell of [case 1]."}}],
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with running_bucket() as bucket, pytest.MonkeyPatch.context() as environ:
        for name, value in bucket.environ.items():
            environ.setenv(name, value)
        yield bucket


@pytest.fixture
def ledger(database: Database) -> str:
    """Of the servers of one test: what others have left, they would go on with, and publish in their store."""
    return database.another()


def server_over(ledger: str, folder: Path, provider: CountingProvider, store: str = "s3://runs/served") -> Serving:
    folder.mkdir()
    run_file = {
        "candidates": [{"model": "stub/candidate"}],
        "judges": [{"model": "stub/judge"}],
        "providers": [{"name": "stub", "base_url": provider.base_url, "timeout": 120}],
    }
    options = ("--ledger", ledger, "--store", store)
    return Serving(folder, settings="requests_per_minute: 100000\n", run_file=json.dumps(run_file), options=options)


def event_of_stop(server: Serving, run_id: str) -> Any:
    """The last event, when the server has ended the stream."""
    told = server.ask("GET", f"/v1/runs/{run_id}/events").body.decode().strip().rpartition("event: stopped\ndata: ")
    return json.loads(told[2])


def test_a_bucket_that_is_gone_is_the_problem_of_the_run_at_every_server_until_somebody_resumes_it(
    bucket: Bucket, ledger: str, tmp_path: Path
) -> None:
    bucket.ask("PUT", "/fleeting")
    with (
        CountingProvider(steady) as provider,
        server_over(ledger, tmp_path / "a", provider, "s3://fleeting/served") as first,
        server_over(ledger, tmp_path / "b", provider, "s3://fleeting/served") as second,
    ):
        assert bucket.ask("DELETE", "/fleeting")[0] == 204
        run_id = str(first.submit(DOCUMENT).json["run_id"])
        assert "NoSuchBucket" in event_of_stop(second, run_id)["problem"]
        first.wait_for(lambda: "NoSuchBucket" in (first.ask("GET", f"/v1/runs/{run_id}").json["problem"] or ""))
        assert "NoSuchBucket" in event_of_stop(first, run_id)["problem"]
        notes = [{run["run_id"]: run["note"] for run in server.runs()}[run_id] for server in (first, second)]
        assert all("NoSuchBucket" in note for note in notes)
        assert all(b"NoSuchBucket" in server.ask("GET", f"/runs/{run_id}").body for server in (first, second))
        bucket.ask("PUT", "/fleeting")
        assert second.ask("POST", f"/v1/runs/{run_id}/resume").status == 202
        assert second.ended(run_id)["problem"] is None


def test_a_bucket_that_is_not_there_is_refused_before_a_server_takes_anything(bucket: Bucket, tmp_path: Path) -> None:
    assert bucket.ask("HEAD", "/nowhere")[0] == 404
    server = Serving(tmp_path, options=("--store", "s3://nowhere/runs"))
    ended = subprocess.run(server.command(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert "NoSuchBucket" in ended.stderr


def test_a_server_serves_and_says_so_while_its_store_is_away(
    monkeypatch: pytest.MonkeyPatch, bucket: Bucket, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.environ["AWS_ENDPOINT_URL"].replace(str(bucket.port), str(free_port())))
    with Serving(tmp_path, options=("--store", "s3://runs/away")) as server:
        assert "the store is away at this moment" in (server.folder / "server.log").read_text(encoding="utf-8")


def test_a_server_fetches_the_run_that_another_has_made(bucket: Bucket, ledger: str, tmp_path: Path) -> None:
    records = [{"record_id": f"r-{number}", "input": {"prompt": f"Tell of [case {number}]."}} for number in range(5)]
    document = {"dataset_id": "stored", "dataset_version": "1", "schema_version": "1.0", "records": records}
    with (
        CountingProvider(steady) as provider,
        server_over(ledger, tmp_path / "a", provider) as first,
        server_over(ledger, tmp_path / "b", provider) as second,
    ):
        run_id = str(first.submit(document).json["run_id"])
        ended = first.ended(run_id)
        assert second.ask("GET", f"/v1/runs/{run_id}/records").json["total"] == 5
        assert second.ended(run_id)["counts"] == ended["counts"]
        assert second.ask("GET", f"/runs/{run_id}").status == 200
    assert bucket.ask("HEAD", f"/runs/served/{run_id}/run_manifest.json")[0] == 200
    folders = [{path.name: path.read_bytes() for path in (server.runs_dir / run_id).iterdir()} for server in (first, second)]
    assert folders[0] == folders[1]


def test_a_run_that_ends_elsewhere_while_a_server_looks_at_it_is_fetched_and_looked_at_again(
    bucket: Bucket, ledger: str, tmp_path: Path
) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    placement = api.RunBackend(ledger=ledger, store="s3://runs/looked")
    models = {"model": "scripted/echo", "judge": "scripted/judge-5"}
    placed = {"runs_dir": str(tmp_path / "a"), "ledger": placement.ledger, "store": placement.store}
    (begun,) = api.run(tmp_path / "dataset.json", is_stopping=lambda: True, **models, **placed)
    parts = dict.fromkeys(Server.__struct_fields__) | {
        "runs_dir": tmp_path / "b",
        "shared": api.SharedRuns(ledger, tmp_path / "b"),
    }
    server = Server(**parts)

    def at(run: api.RunReader) -> int:
        if not run.artifacts():
            # The answer of a ledger whose run ends between two questions.
            api.resume(begun.run_id, runs_dir=tmp_path / "a", placement=placement)
        return len(list(run.predictions()))

    assert (begun.is_finished, server.read_run(begun.run_id, Caller(), at)) == (False, 1)
    server.shared.close()
    assert bucket.ask("HEAD", f"/runs/looked/{begun.run_id}/run_manifest.json")[0] == 200


def test_a_run_that_ends_between_two_looks_is_not_shown_as_ended_by_half(ledger: str, tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    placed = {"runs_dir": str(tmp_path / "a"), "ledger": ledger, "is_stopping": lambda: True}
    (begun,) = api.run(tmp_path / "dataset.json", model="scripted/echo", judge="scripted/judge-5", **placed)

    class Ending(api.RunReader):
        @property
        def moments(self) -> dict[str, Any]:
            if not self.result.is_finished:
                api.resume(begun.run_id, runs_dir=tmp_path / "a", placement=api.RunBackend(ledger=ledger))
            return super().moments

    class Looking(Server, frozen=True, kw_only=True):
        def run(self, run_id: str, caller: Caller) -> api.RunReader:
            return Ending(Server.run(self, run_id, caller).folders)

    idle = SimpleNamespace(has=lambda _: False, snapshot=lambda _: None, problem=lambda _: "")
    parts = {
        "runs_dir": tmp_path / "b",
        "shared": api.SharedRuns(ledger, tmp_path / "b"),
        "queue": idle,
        "settings": ServerSettings(),
    }
    server = Looking(**dict.fromkeys(Server.__struct_fields__) | parts)
    view = run_view(server, begun.run_id, caller=Caller(), request_id="r")
    assert (view.state, view.completed_at is not None, view.done_records) == ("completed", True, 1)
    server.shared.close()


def test_a_bucket_alone_is_a_store(bucket: Bucket, tmp_path: Path) -> None:
    with Serving(tmp_path, options=("--store", "s3://runs")) as server:
        run_id = str(server.submit(DOCUMENT).json["run_id"])
        server.ended(run_id)
    assert bucket.ask("HEAD", f"/runs/{run_id}/run_manifest.json")[0] == 200
