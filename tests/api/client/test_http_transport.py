"""How the client takes what services do on a bad day, and what it keeps to itself."""

import json
from pathlib import Path

import pytest

import assay
from assay.core.http_answers import RunEvent
from tests.api.client.answering import HANG_UP, SILENT, Answering, Told, refused, told

HEALTHY = told({"status": "ok", "version": "1"})
TAKEN = {
    "run_id": "run_1",
    "status": "accepted",
    "summary": {"total_records": 1, "accepted_records": 1, "rejected_records": 0},
    "record_errors": [],
    "request_id": "r",
}
RUN = {"run_id": "run_1", "created_at": "", "dataset_id": "d", "model": "m", "counts": {}, "done_records": 0, "request_id": "r"}
KEY = "assay_secret-of-mine"


def event(number: int, kind: str, state: str = "running") -> bytes:
    text = json.dumps({"run_id": "run_1", "state": state, "counts": {}, "done_records": number})
    return f"id: {state}-{number}\nevent: {kind}\ndata: {text}\n\n".encode()


@pytest.mark.parametrize(
    "bad", [refused(503, "service_unavailable", Retry_After="0"), refused(429, "rate_limited"), Told(502, b"")]
)
def test_reading_is_tried_again_when_a_moment_later_may_do(bad: Told) -> None:
    with Answering([bad, HEALTHY]) as server:
        assert assay.Client(server.url).health().status == "ok"
        assert len(server.asked) == 2


def test_wait_beyond_the_patience_is_not_begun() -> None:
    with Answering([refused(429, "rate_limited", Retry_After="86400")]) as server:
        with pytest.raises(assay.ServerProblem) as caught:
            assay.Client(server.url).health()
        assert (caught.value.code, caught.value.request_id, len(server.asked)) == ("rate_limited", "r-1", 1)


def test_silent_request_is_repeated_however_long_it_was_silent() -> None:
    with Answering([HEALTHY, SILENT, HEALTHY]) as server:
        client = assay.Client(server.url, timeout=1.5, patience=1.5)
        client.health()
        assert client.health().status == "ok"
        assert len(server.asked) == 3


def test_submission_without_an_answer_says_how_to_find_its_run() -> None:
    with Answering([HANG_UP]) as server:
        with pytest.raises(assay.ServerProblem) as caught:
            assay.Client(server.url).start(b"{}", idempotency_key="mine")
        assert "idempotency_key='mine'" in caught.value.hint


def test_lost_answer_to_a_submission_is_asked_for_under_the_same_key() -> None:
    with Answering([HEALTHY, HANG_UP, told(TAKEN, 202)]) as server:
        client = assay.Client(server.url)
        client.health()
        assert client.start(b"{}").run_id == "run_1"
        keys = [asked.headers["idempotency-key"] for asked in server.asked[1:]]
        assert (len(keys), len(set(keys)), len(keys[0])) == (2, 1, 36)


@pytest.mark.parametrize("bad", [refused(503, "service_unavailable", Retry_After="0"), HANG_UP])
def test_what_is_not_the_same_twice_is_asked_once(bad: Told | None) -> None:
    with Answering([HEALTHY, bad]) as server:
        client = assay.Client(server.url)
        client.health()
        with pytest.raises(assay.ServerProblem):
            client.cancel("run_1")
        assert len(server.asked) == 2


def test_nobody_who_never_answered_is_waited_for() -> None:
    with Answering([HANG_UP]) as server:
        with pytest.raises(assay.ServerProblem) as caught:
            assay.Client(server.url).health()
        assert (caught.value.code, caught.value.status, len(server.asked)) == ("server_unreachable", 0, 1)


def test_refusal_is_not_tried_again() -> None:
    with Answering([refused(400, "invalid_request")]) as server:
        with pytest.raises(assay.ServerProblem, match="not now"):
            assay.Client(server.url).health()
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer", [told([1]), Told(200, b"<html>"), Told(404, b"<html>"), Told(302, b"", {"Location": "/elsewhere"})]
)
def test_what_is_no_assay_service_is_told_as_that(answer: Told) -> None:
    with Answering([answer]) as server:
        with pytest.raises(assay.ServerProblem) as caught:
            assay.Client(server.url, KEY).health()
        assert (caught.value.code, len(server.asked)) == ("unexpected_answer", 1)
        assert "assay service" in caught.value.hint


def test_events_go_on_where_the_connection_broke() -> None:
    first, second = event(1, "progress") + b": still there\n\nid: cut", event(2, "end", "completed")
    with Answering([Told(200, first), told({**RUN, "state": "running"}), Told(200, second)]) as server:
        events: list[RunEvent] = list(assay.Client(server.url).events("run_1"))
        assert [(found.done_records, found.is_end) for found in events] == [(1, False), (2, True)]
        assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, None, "running-1"]


def test_file_with_another_hash_leaves_nothing(tmp_path: Path) -> None:
    listed = {"artifacts": [{"name": "a.json", "sha256": "0" * 64, "bytes": 2}]}
    with Answering([told(listed), Told(200, b"{}")]) as server, pytest.raises(assay.ServerProblem) as caught:
        assay.Client(server.url).artifact("run_1", "a.json", tmp_path / "a.json")
    assert caught.value.code == "different_content"
    assert list(tmp_path.iterdir()) == []


def test_file_that_ends_too_early_is_asked_for_again(tmp_path: Path) -> None:
    with Answering([Told(200, b"ab", {"Content-Length": "4"}), Told(200, b"abcd")]) as server:
        saved = assay.Client(server.url).export("run_1", tmp_path / "all.jsonl")
    assert saved.read_bytes() == b"abcd"
    assert list(tmp_path.iterdir()) == [saved]


@pytest.mark.parametrize("name", ["../outside.json", "/tmp/outside.json", ".hidden", "a\\b"])
def test_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    listed = told({"artifacts": [{"name": name, "sha256": "0" * 64, "bytes": 0}]})
    with Answering([listed]) as server, pytest.raises(assay.ServerProblem) as caught:
        assay.Client(server.url).download("run_1", tmp_path / "runs")
    assert caught.value.code == "unexpected_answer"
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


def test_key_is_sent_and_shown_nowhere() -> None:
    with Answering([HEALTHY, refused(401, "unauthorized")]) as server:
        client = assay.Client(server.url, KEY)
        client.health()
        with pytest.raises(assay.ServerProblem) as caught:
            client.health()
        assert [asked.headers["x-api-key"] for asked in server.asked] == [KEY, KEY]
    shown = [repr(client), repr(assay.AsyncClient(server.url, KEY)), repr(caught.value), str(caught.value), caught.value.hint]
    assert KEY not in "".join(shown)
    assert repr(client) == f"Client('{server.url}')"


@pytest.mark.parametrize("key", ["two\nlines", "two words", "schlüssel"])
def test_key_that_cannot_be_one_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(assay.UsageProblem) as caught:
        assay.Client("http://localhost", key)
    assert key not in caught.value.message


@pytest.mark.parametrize(
    "url", ["", "localhost:8321", "ftp://localhost", "http://", "http://me:secret@localhost", "http://localhost?a=1", "http://[::1"]
)
def test_address_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(assay.UsageProblem) as caught:
        assay.Client(url)
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("url", ["http://example.org", "http://192.168.0.7:8321", "http://localhost.example.org"])
def test_plain_http_to_another_machine_must_be_allowed(url: str) -> None:
    with pytest.raises(assay.UsageProblem, match="another machine"):
        assay.Client(url)
    assert assay.Client(url, allow_http=True).url == url


@pytest.mark.parametrize("url", ["http://localhost:1/", "http://127.9.9.9", "http://[::1]:8321", "https://example.org/assay/"])
def test_this_machine_and_https_are_taken(url: str) -> None:
    assert assay.Client(url).url == url.rstrip("/")


def test_address_may_lie_below_another() -> None:
    with Answering([HEALTHY]) as server:
        assay.Client(f"{server.url}/assay/").health()
        assert server.asked[0].path == "/assay/healthz"


def test_answers_of_an_older_service_lack_members_that_clients_do_not_need() -> None:
    listed = {"items": [{"index": 0, "code": "c", "message": "m", "path": ""}]}
    with Answering([HEALTHY, told({**RUN, "state": "running"}), told(listed), told({"artifacts": []})]) as server:
        client = assay.Client(server.url)
        client.health()
        run = client.run("run_1")
        assert (run.project, run.is_stopped, run.counts.total_records, run.gate) == ("default", False, 0, None)
        assert [error.record_id for error in client.errors("run_1")] == [None]
        assert client.artifacts("run_1") == ()
