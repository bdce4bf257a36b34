"""Several servers over one ledger: each answers for every run, and when one is gone another goes on with what it drove."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.surfaces.server.keys import KeyStore
from tests.crash.job import VERDICT
from tests.crash.provider import Answer, CountingProvider
from tests.store.buckets import running_bucket
from tests.store.databases import Database
from tests.surfaces.server.serving import PATIENCE, Serving

CONCURRENCY = 4


def agreeable(model: str, case: str, _: int) -> Answer:
    return 200, (VERDICT if model == "judge" else f"Something about [case {case}]."), {}


@pytest.fixture(scope="module")
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(agreeable, latency=0.05) as opened:
        yield opened


@pytest.fixture(scope="module")
def ledger(database: Database) -> str:
    """Of these servers alone: they would go on with what other tests have left."""
    return database.another()


def server_over(ledger: str, folder: Path, provider: CountingProvider) -> Serving:
    folder.mkdir()
    run_file = {
        "candidates": [{"model": "stub/candidate"}],
        "judges": [{"model": "stub/judge"}],
        "providers": [{"name": "stub", "base_url": provider.base_url, "timeout": 120}],
        "run": {"concurrency": CONCURRENCY},
    }
    settings = "requests_per_minute: 100000\nmax_runs: 8\n"
    return Serving(folder, settings=settings, run_file=json.dumps(run_file), options=("--ledger", ledger))


@pytest.fixture(scope="module")
def environ() -> Iterator[Mapping[str, str]]:
    """An object store, and the variables with which everybody finds it."""
    with running_bucket() as bucket, pytest.MonkeyPatch.context() as environ:
        for name, value in bucket.environ.items():
            environ.setenv(name, value)
        yield os.environ


@pytest.fixture(scope="module")
def both(
    ledger: str, provider: CountingProvider, environ: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Serving, Serving]]:
    """Two of them, each with a folder of its own."""
    assert "AWS_ENDPOINT_URL" in environ
    folder = tmp_path_factory.mktemp("servers")
    with server_over(ledger, folder / "a", provider) as first, server_over(ledger, folder / "b", provider) as second:
        yield first, second


@pytest.fixture
def servers(both: tuple[Serving, Serving]) -> tuple[Serving, Serving]:
    """The two, whatever the test before has done to them."""
    for server in both:
        if not server.is_alive():
            server.start()
    return both


def document(name: str, records: int) -> dict[str, Any]:
    listed = [
        {"record_id": f"{name}-{number}", "input": {"prompt": f"Tell of [case {name}-{number}]."}} for number in range(records)
    ]
    return {"dataset_id": name, "dataset_version": "1", "schema_version": "1.0", "records": listed}


def submitted(server: Serving, name: str, records: int, **headers: str) -> str:
    answer = server.submit(document(name, records), headers=headers)
    assert answer.status == 202, answer.body
    return str(answer.json["run_id"])


def state_of(server: Serving, run_id: str) -> str:
    return str(server.ask("GET", f"/v1/runs/{run_id}").json["state"])


def begun(server: Serving, run_id: str, records: int = 1) -> None:
    server.wait_for(lambda: server.ask("GET", f"/v1/runs/{run_id}").json["done_records"] >= records)


def events_of(server: Serving, run_id: str, seen: str = "") -> list[dict[str, Any]]:
    """Every event until the server ends the stream."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("GET", f"/v1/runs/{run_id}/events", headers={"Last-Event-ID": seen} if seen else {})
    found = read_events(connection.getresponse().read())
    connection.close()
    return found


def read_events(stream: bytes) -> list[dict[str, Any]]:
    text = stream.decode()
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if block.startswith("id: ")]
    return [{**block, "data": json.loads(block["data"])} for block in blocks]


@contextmanager
def holding(provider: CountingProvider, *, after: int) -> Iterator[None]:
    """So many answers and no more, so that a run is under way for as long as a test looks at it."""
    provider.hold(after=after)
    try:
        yield
    finally:
        provider.let_go()


def next_event(stream: HTTPResponse) -> bytes:
    """The lines up to the end of the next event."""
    return b"".join(iter(stream.readline, b"\n"))


def calls_about(provider: CountingProvider, name: str) -> Counter[tuple[str, str]]:
    return Counter({key: count for key, count in provider.calls.items() if key[1].startswith(f"{name}-")})


def test_a_run_that_one_server_drives_is_followed_to_its_end_at_another(
    servers: tuple[Serving, Serving], provider: CountingProvider
) -> None:
    first, second = servers
    with holding(provider, after=20):
        run_id = submitted(first, "followed", 60)
        connection = HTTPConnection("127.0.0.1", second.port, timeout=PATIENCE)
        connection.request("GET", f"/v1/runs/{run_id}/events")
        stream = connection.getresponse()
        told = [next_event(stream)]
        provider.let(20)
        told.append(next_event(stream))
    events = read_events(b"\n".join([*told, stream.read()]))
    connection.close()
    assert [event["event"] for event in events[-2:]] == ["progress", "end"]
    assert len({event["id"] for event in events}) == len(events) > 2
    assert events[-1]["data"]["counts"] == first.ended(run_id)["counts"]


def test_a_client_goes_on_at_another_server_where_it_was(servers: tuple[Serving, Serving]) -> None:
    first, second = servers
    run_id = submitted(first, "continued", 20)
    last = events_of(first, run_id)[-1]
    # The end is told where the artifacts are, a moment before it is in the ledger.
    second.ended(run_id)
    assert events_of(second, run_id, seen=last["id"]) == []
    assert [event["id"] for event in events_of(second, run_id)] == [last["id"]]


def test_every_server_lists_and_shows_the_runs_of_the_others(servers: tuple[Serving, Serving], provider: CountingProvider) -> None:
    first, second = servers
    with holding(provider, after=20):
        run_id = submitted(first, "listed", 120)
        begun(second, run_id, 5)
        listed = {run["run_id"]: run for run in second.runs()}[run_id]
        records = second.ask("GET", f"/v1/runs/{run_id}/records?limit=3").json["items"]
        page = second.ask("GET", f"/runs/{run_id}")
        second.ask("POST", f"/v1/runs/{run_id}/cancel")
    second.ended(run_id)
    assert (listed["dataset"], listed["total_records"], len(records), page.status) == ("listed", 120, 3, 200)


def test_a_cancel_reaches_the_driver_through_any_server(servers: tuple[Serving, Serving], provider: CountingProvider) -> None:
    first, second = servers
    with holding(provider, after=20):
        run_id = submitted(first, "cancelled", 400)
        begun(first, run_id)
        assert second.ask("POST", f"/v1/runs/{run_id}/cancel").status == 200
    assert second.ended(run_id)["state"] == "cancelled"
    assert calls_about(provider, "cancelled").total() < 800
    assert (first.runs_dir / run_id / "run_manifest.json").is_file()


def test_of_a_run_that_ended_elsewhere_a_server_says_how_and_where_its_artifacts_are(servers: tuple[Serving, Serving]) -> None:
    first, second = servers
    run_id = submitted(first, "elsewhere", 5)
    ended = first.ended(run_id)
    shown = second.ended(run_id)
    records = second.ask("GET", f"/v1/runs/{run_id}/records")
    assert (shown["counts"], shown["completed_at"]) == (ended["counts"], ended["completed_at"])
    assert (records.status, str(first.runs_dir / run_id) in records.json["error"]["message"]) == (404, True)
    assert [second.ask("GET", path).status for path in (f"/runs/{run_id}", f"/v1/runs/{run_id}/artifacts")] == [404, 404]
    assert second.ask("POST", f"/v1/runs/{run_id}/cancel").status == 409


def test_a_run_of_the_command_that_is_in_a_store_is_shown_whole(
    servers: tuple[Serving, Serving], ledger: str, tmp_path: Path
) -> None:
    dataset = tmp_path / "dataset.json"
    dataset.write_text(json.dumps(document("stored", 4)), encoding="utf-8")
    placed = {"ledger": ledger, "store": "s3://runs/servers"}
    (result,) = api.run(dataset, model="scripted/echo", judge="scripted/judge-5", runs_dir=str(tmp_path / "runs"), **placed)
    shown = servers[1].ask("GET", f"/v1/runs/{result.run_id}").json
    records = servers[1].ask("GET", f"/v1/runs/{result.run_id}/records").json
    assert (shown["state"], shown["metrics"], records["total"]) == ("completed", result.metrics, 4)


def test_the_same_key_at_two_servers_at_once_makes_one_run(servers: tuple[Serving, Serving], provider: CountingProvider) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda server: submitted(server, "once", 10, **{"Idempotency-Key": "k1"}), servers * 2))
    assert len(set(found)) == 1
    servers[0].ended(found[0])
    assert set(calls_about(provider, "once").values()) == {1}
    other = servers[1].submit(document("other", 1), headers={"Idempotency-Key": "k1"})
    assert (other.status, other.json["error"]["details"]["run_id"]) == (409, found[0])


def test_servers_may_share_a_folder(
    servers: tuple[Serving, Serving], ledger: str, provider: CountingProvider, tmp_path: Path
) -> None:
    first, _ = servers
    third = server_over(ledger, tmp_path / "third", provider)
    third.runs_dir = first.runs_dir
    with third:
        run_id = submitted(first, "shared", 10)
        first.ended(run_id)
        assert third.ask("GET", f"/v1/runs/{run_id}/records").json["total"] == 10


def begin_upload(server: Serving) -> HTTPConnection:
    """An upload of which the server has a part, and waits for the rest."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.putrequest("POST", "/v1/runs")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "100000")
    connection.endheaders(b'{"records": [' + b" " * 20_000)
    return connection


def uploads_in(server: Serving) -> set[Path]:
    return set(server.runs_dir.glob(".active/*/upload"))


def test_an_upload_whose_server_was_killed_is_removed_by_another_one_of_the_folder_and_no_other_upload(
    ledger: str, provider: CountingProvider, tmp_path: Path
) -> None:
    first, second = (server_over(ledger, tmp_path / name, provider) for name in "ab")
    second.runs_dir = first.runs_dir
    with first, second:
        writing = begin_upload(second)
        second.wait_for(lambda: len(uploads_in(second)) == 1)
        kept = uploads_in(second)
        cut_off = begin_upload(first)
        second.wait_for(lambda: len(uploads_in(second)) == 2)
        first.kill()
        second.wait_for(lambda: len(list(second.runs_dir.glob(".server/temporary/*"))) == 1)
        assert uploads_in(second) == kept
        writing.close()
        cut_off.close()
        second.wait_for(lambda: not second.left_over())


def test_a_server_that_is_stopped_hands_its_runs_over(servers: tuple[Serving, Serving], provider: CountingProvider) -> None:
    first, second = servers
    run_id = submitted(first, "handed", 150)
    begun(first, run_id, 20)
    assert first.end() == 0
    assert second.ended(run_id)["state"] == "completed"
    assert set(calls_about(provider, "handed").values()) == {1}


def check_orphan(server: Serving, run_id: str, name: str) -> None:
    """The run has ended here, with every record once."""
    assert server.ended(run_id)["state"] == "completed"
    lines = (server.runs_dir / run_id / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert Counter(json.loads(line)["record_id"] for line in lines) == Counter(f"{name}-{number}" for number in range(150))


@pytest.mark.heavy
def test_a_server_that_was_frozen_and_wakes_up_leaves_the_run_to_its_successor(
    servers: tuple[Serving, Serving], provider: CountingProvider
) -> None:
    first, second = servers
    run_id = submitted(first, "frozen", 150)
    begun(first, run_id, 20)
    os.kill(first.pid, signal.SIGSTOP)
    second.wait_for(lambda: calls_about(provider, "frozen").total() > 150)
    os.kill(first.pid, signal.SIGCONT)
    check_orphan(second, run_id, "frozen")
    assert first.ended(run_id)["state"] == "completed"
    assert 0 <= calls_about(provider, "frozen").total() - 300 <= 2 * CONCURRENCY


@pytest.mark.heavy
def test_a_run_outlives_a_database_that_is_away_for_longer_than_a_lease(
    servers: tuple[Serving, Serving], database: Database, provider: CountingProvider
) -> None:
    first, _ = servers
    run_id = submitted(first, "away", 150)
    begun(first, run_id, 20)
    database.stop()
    time.sleep(15)
    database.start()
    assert first.ended(run_id)["state"] == "completed"
    assert 0 <= calls_about(provider, "away").total() - 300 <= 2 * CONCURRENCY


def test_when_a_server_is_killed_another_finishes_its_run(servers: tuple[Serving, Serving], provider: CountingProvider) -> None:
    first, second = servers
    run_id = submitted(first, "orphaned", 150)
    begun(first, run_id, 20)
    first.kill()
    assert events_of(second, run_id)[-1]["event"] == "end"
    check_orphan(second, run_id, "orphaned")
    assert 0 <= calls_about(provider, "orphaned").total() - 300 <= CONCURRENCY


def test_the_project_of_a_run_holds_at_every_server(
    database: Database, provider: CountingProvider, environ: Mapping[str, str], tmp_path: Path
) -> None:
    """Each server has keys of its own; whose run it is stands in the ledger, and in the manifest in the store."""
    assert "AWS_ENDPOINT_URL" in environ
    ledger = database.another()
    with server_over(ledger, tmp_path / "a", provider) as first, server_over(ledger, tmp_path / "b", provider) as second:
        own, colleague = ({"x-api-key": KeyStore(one.runs_dir).add("law", "write", project="law")} for one in (first, second))
        foreign = {"x-api-key": KeyStore(second.runs_dir).add("tax", "write", project="tax")}
        run_id = submitted(first, "whose", 40, **own)
        for path in (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/records", f"/v1/runs/{run_id}/events", f"/runs/{run_id}"):
            assert second.ask("GET", path, headers=foreign).status == 404
        assert second.ask("POST", f"/v1/runs/{run_id}/cancel", b"", foreign).status == 404
        assert second.ask("GET", "/v1/runs", headers=foreign).json["runs"] == []
        assert second.ask("GET", f"/v1/runs/{run_id}", headers=colleague).json["project"] == "law"
        assert [run["run_id"] for run in second.ask("GET", "/v1/runs", headers=colleague).json["runs"]] == [run_id]
        second.wait_for(lambda: second.ask("GET", f"/v1/runs/{run_id}", headers=colleague).json["completed_at"])
        assert second.ask("GET", f"/v1/runs/{run_id}", headers=foreign).status == 404


def test_a_ledger_that_is_away_does_not_tell_which_runs_of_another_project_exist(
    database: Database, provider: CountingProvider, tmp_path: Path
) -> None:
    """The run is sealed in the server's folder; an unknown id is looked up in the ledger."""
    with server_over(database.another(), tmp_path / "a", provider) as server:
        keys = KeyStore(server.runs_dir)
        own, foreign = ({"x-api-key": keys.add(name, "write", project=name)} for name in ("law", "tax"))
        run_id = submitted(server, "sealed", 2, **own)
        server.wait_for(lambda: server.ask("GET", f"/v1/runs/{run_id}/artifacts", headers=own).json["artifacts"])
        nowhere = run_id[:-4] + "0000"
        database.stop()
        try:
            answers = [server.ask("GET", f"/v1/runs/{asked}", headers=foreign) for asked in (run_id, nowhere)]
            assert server.ask("GET", f"/v1/runs/{run_id}", headers=own).status == 200
        finally:
            database.start()
        assert [answer.status for answer in answers] == [503, 503]
        first, second = (json.loads(answer.body)["error"] for answer in answers)
        assert first == second
