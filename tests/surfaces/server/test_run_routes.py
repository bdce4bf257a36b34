"""What can be read of a run, on a real socket."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assay.surfaces.server.keys import KeyStore
from tests.surfaces.server.serving import Serving, dataset


def test_events_end_with_the_run_and_go_on_where_they_were_left(service: Serving, finished: Any) -> None:
    path = f"/v1/runs/{finished['run_id']}/events"
    events = service.ask("GET", path)
    assert events.headers["content-type"].startswith("text/event-stream")
    assert b"event: end\n" in events.body
    assert b'"state":"completed_with_failures"' in events.body
    seen = events.body.split(b"\n")[0].removeprefix(b"id: ").decode()
    assert service.ask("GET", path, headers={"Last-Event-ID": seen}).body == b""


def test_runs_are_listed_by_filter_and_page(service: Serving, finished: Any) -> None:
    found = service.ask("GET", "/v1/runs?dataset=reading&state=completed_with_failures&model=scripted/echo").json
    assert [run["run_id"] for run in found["runs"]] == [finished["run_id"]]
    service.submit(dataset(1))
    page = service.ask("GET", "/v1/runs?limit=1").json
    rest = service.ask("GET", f"/v1/runs?limit=1000&cursor={page['next_cursor']}").json
    listed = [run["run_id"] for run in page["runs"] + rest["runs"]]
    assert listed == [run["run_id"] for run in service.runs()]


def test_runs_of_a_group_are_listed_by_its_name_and_shown_together(service: Serving) -> None:
    models = ("scripted/echo", "scripted/say-Hello")
    ids = [service.submit(dataset(3), f"?model={model}&group=pair").json["run_id"] for model in models]
    assert [service.ended(run_id)["group"] for run_id in ids] == ["pair", "pair"]
    found = service.ask("GET", "/v1/runs?group=pair").json["runs"]
    assert [(run["run_id"], run["group"]) for run in reversed(found)] == [(run_id, "pair") for run_id in ids]
    assert service.ask("GET", "/v1/runs?group=other").json["runs"] == []
    page = service.ask("GET", "/groups/pair")
    assert page.status == 200
    assert all(model.encode() in page.body for model in models)
    assert b'href="/groups/pair"' in service.ask("GET", f"/runs/{ids[0]}").body
    assert service.ask("GET", "/groups/other").status == 404


def test_finished_run_cannot_be_cancelled_or_resumed(service: Serving, finished: Any) -> None:
    for action in ("cancel", "resume"):
        answer = service.ask("POST", f"/v1/runs/{finished['run_id']}/{action}")
        assert (answer.status, answer.json["error"]["code"]) == (409, "conflict")
    assert service.ask("GET", f"/v1/runs/{finished['run_id']}").json["state"] == "completed_with_failures"


def test_running_run_is_cancelled_and_cancelling_it_again_changes_nothing(service: Serving) -> None:
    run_id = service.submit(dataset(200), "?model=scripted/slow-500&concurrency=2").json["run_id"]
    assert service.ask("POST", f"/v1/runs/{run_id}/cancel").status == 200
    assert service.ended(run_id)["state"] == "cancelled"
    assert service.ask("POST", f"/v1/runs/{run_id}/cancel").status == 200


def test_events_tell_of_a_run_that_nobody_works_on_and_end(tmp_path: Path) -> None:
    slow = "candidates: [scripted/slow-500]\njudges: [scripted/judge-5]\nrun: {concurrency: 1}\n"
    with Serving(tmp_path, run_file=slow) as serving:
        # The first two take so long that the third waits for its turn until its upload is gone.
        accepted = [serving.submit(dataset(100)).json["run_id"] for _ in range(3)]
        shutil.rmtree(serving.runs_dir / ".active" / accepted[2] / "upload")
        for run_id in accepted[:2]:
            serving.ask("POST", f"/v1/runs/{run_id}/cancel")
        events = serving.ask("GET", f"/v1/runs/{accepted[2]}/events").body
        assert b"event: stopped\n" in events
        assert b"cannot read" in events
        assert str(tmp_path).encode() not in events
        last = events.rpartition(b"id: ")[2].partition(b"\n")[0].decode()
        assert serving.ask("GET", f"/v1/runs/{accepted[2]}/events", headers={"Last-Event-ID": last}).body == b""
        again = serving.ask("GET", f"/v1/runs/{accepted[2]}/events", headers={"Last-Event-ID": "validating-0"}).body
        assert again.startswith(f"id: {last}\nevent: stopped\n".encode())


def test_events_go_on_where_they_were_left_after_the_service_was_away(tmp_path: Path) -> None:
    with Serving(
        tmp_path, run_file="candidates: [scripted/slow-300]\njudges: [scripted/judge-5]\nrun: {concurrency: 1}\n"
    ) as serving:
        run_id = serving.submit(dataset(4)).json["run_id"]
        serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").json["done_records"] >= 1)
        serving.kill()
        serving.start()
        events = serving.ask("GET", f"/v1/runs/{run_id}/events", headers={"Last-Event-ID": "running-1"}).body
        assert b"id: running-1\n" not in events
        assert events.count(b"event: end\n") == 1
        assert b"id: completed-4\n" in events


def test_cancelled_run_ends_its_events(service: Serving) -> None:
    run_id = service.submit(dataset(200), "?model=scripted/slow-500&concurrency=2").json["run_id"]
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(service.ask, "GET", f"/v1/runs/{run_id}/events")
        service.wait_for(lambda: service.ask("GET", f"/v1/runs/{run_id}").json["state"] == "running")
        service.ask("POST", f"/v1/runs/{run_id}/cancel")
        assert b'event: end\ndata: {"run_id":"%s","state":"cancelled"' % run_id.encode() in following.result().body


@pytest.mark.parametrize("part", ["", "/records", "/failures", "/artifacts", "/distribution", "/export?format=csv"])
def test_damaged_run_is_called_damaged_and_invites_no_retry(service: Serving, part: str) -> None:
    run_id = service.ended(service.submit(dataset(2), "?model=scripted/echo").json["run_id"])["run_id"]
    manifest = service.runs_dir / run_id / "run_manifest.json"
    manifest.chmod(0o644)
    manifest.write_bytes(b"{}")
    answer = service.ask("GET", f"/v1/runs/{run_id}{part}")
    assert (answer.status, answer.json["error"]["code"], answer.headers.get("retry-after")) == (500, "internal_error", None)
    assert "damaged" in answer.json["error"]["message"]


def test_head_of_an_address_is_that_of_its_answer(service: Serving, finished: Any) -> None:
    parts = ("", "/artifacts", "/artifacts/predictions.jsonl", "/records", "/events", "/export?format=csv")
    for path in ("/healthz", *(f"/v1/runs/{finished['run_id']}{part}" for part in parts)):
        head, whole = service.ask("HEAD", path), service.ask("GET", path)
        assert (head.status, head.body, head.headers["content-type"]) == (200, b"", whole.headers["content-type"])
    assert service.ask("HEAD", "/v1/runs/nobody").status == 404


def test_page_of_a_damaged_run_does_not_tell_where_the_runs_are(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    key = KeyStore(serving.runs_dir).add("operator", "admin")
    (serving.runs_dir / "broken").mkdir()
    (serving.runs_dir / "broken" / "run_manifest.json").write_bytes(b"{")
    with serving:
        pages = [
            serving.ask("GET", path, headers={"x-api-key": key, "Accept": "text/html"}).body.decode()
            for path in ("/runs", "/judges")
        ]
    assert [page for page in pages if str(tmp_path) in page] == []
    assert "damaged" in pages[0]
