"""What can be read of a run, on a real socket."""

import csv
import hashlib
import io
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import openpyxl
import pytest
from pyarrow import parquet

from assay.surfaces.server.keys import KeyStore
from tests.surfaces.server.serving import Serving, dataset

HOSTILE = ["=1+1", "-1+1", "\t=1", " =1+1", '=HYPERLINK("http://x","y")', '=1","=2', "@SUM(1)", "<script>alert(1)</script>"]


@pytest.fixture(scope="module")
def finished(service: Serving) -> Any:
    """A run of five records, one of them invalid, answered by an echo of hostile prompts."""
    document = dataset(5, dataset_id="reading")
    for record, prompt in zip(document["records"], HOSTILE, strict=False):
        record["input"]["prompt"] = prompt
    document["records"][4]["input"]["prompt"] = 7
    return service.ended(service.submit(document, "?model=scripted/echo").json["run_id"])


def test_records_are_read_in_pages(service: Serving, finished: Any) -> None:
    first = service.ask("GET", f"/v1/runs/{finished['run_id']}/records?limit=3").json
    second = service.ask("GET", f"/v1/runs/{finished['run_id']}/records?limit=3&cursor={first['next_cursor']}").json
    assert [item["record_id"] for item in first["items"] + second["items"]] == ["q_0000", "q_0001", "q_0002", "q_0003"]
    assert (first["total"], second["next_cursor"]) == (4, None)


def test_records_are_found_by_words_and_sorted(service: Serving, finished: Any) -> None:
    path = f"/v1/runs/{finished['run_id']}/records"
    found = service.ask("GET", f"{path}?text=HYPERLINK&passed=true").json
    assert ([item["record_id"] for item in found["items"]], found["total"]) == ([], 0)
    found = service.ask("GET", f"{path}?text=%3D1&sort=-id&limit=2").json
    assert ([item["record_id"] for item in found["items"]], found["total"]) == (["q_0003", "q_0002"], 3)
    assert [item["status"] for item in service.ask("GET", f"{path}?status=invalid_record").json["items"]] == ["invalid_record"]


def test_search_that_cannot_be_understood_is_refused(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/records?sort=luck")
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


def test_status_that_no_record_can_have_is_refused_and_not_taken_for_none(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/records?status=broken")
    assert (answer.status, "status is 'broken'; allowed: " in answer.json["error"]["message"]) == (400, True)


NO_SEARCH = [
    ("text=%00", "'text' has no words that a record could have"),
    ("text=force%00majeure", "'text' has no words that a record could have"),
    ("min_score=nan", "'min_score' is nan, which is not a score"),
    ("max_score=-inf", "'max_score' is -inf, which is not a score"),
]


@pytest.mark.parametrize("place", ["/v1/runs", "/runs"])
@pytest.mark.parametrize(("query", "why"), NO_SEARCH)
def test_search_that_finds_all_or_none_whatever_there_is_is_refused(
    service: Serving, finished: Any, place: str, query: str, why: str
) -> None:
    answer = service.ask("GET", f"{place}/{finished['run_id']}/records?{query}")
    assert (answer.status, why in answer.json["error"]["message"]) == (400, True)


def test_text_of_blanks_is_refused_and_in_the_form_of_a_page_left_out(service: Serving, finished: Any) -> None:
    assert service.ask("GET", f"/v1/runs/{finished['run_id']}/records?text=%20").status == 400
    assert service.ask("GET", f"/runs/{finished['run_id']}/records?text=%20").status == 200


@pytest.mark.parametrize("path", ["/docs", "/docs/style.css", "/metrics", "/static/style.css", "/runs"])
def test_charset_is_told_once(service: Serving, path: str) -> None:
    assert service.ask("GET", path).headers["content-type"].count("charset=utf-8") == 1


def test_pages_of_a_run_under_way_show_each_record_once(service: Serving) -> None:
    document = dataset(20, dataset_id="under-way")
    for number, record in enumerate(document["records"]):
        record["input"]["prompt"] = f"What is {number // 2} + 1?"
    run_id = service.submit(document, "?model=scripted/flaky-1&concurrency=4").json["run_id"]
    service.wait_for(lambda: service.ask("GET", f"/v1/runs/{run_id}/records?limit=3").json["items"])
    page = service.ask("GET", f"/v1/runs/{run_id}/records?limit=3").json
    first, cursor = [item["index"] for item in page["items"]], page["next_cursor"] or str(page["items"][-1]["index"] + 1)
    service.ended(run_id)
    rest = service.ask("GET", f"/v1/runs/{run_id}/records?limit=1000&cursor={cursor}").json["items"]
    assert [item["index"] for item in rest] == list(range(int(cursor), 20))
    assert max(first) < int(cursor)


def test_one_record_shows_what_was_asked_and_every_attempt(service: Serving, finished: Any) -> None:
    record = service.ask("GET", f"/v1/runs/{finished['run_id']}/records/q_0000").json["record"]
    assert record["input"]["prompt"] == record["prediction"]["model_response"] == "=1+1"
    assert [attempt["stage"] for attempt in record["attempts"]] == ["candidate", "judge"]


def test_errors_and_failures_name_the_invalid_record(service: Serving, finished: Any) -> None:
    errors = service.ask("GET", f"/v1/runs/{finished['run_id']}/errors").json["items"]
    failures = service.ask("GET", f"/v1/runs/{finished['run_id']}/failures").json["items"]
    assert [(error["index"], error["code"]) for error in errors] == [(4, "invalid_field_type")]
    assert set(errors[0]) == {"index", "record_id", "code", "message", "path", "severity"}
    assert [(failure["index"], failure["status"]) for failure in failures] == [(4, "invalid_record")]


def test_distribution_counts_the_graded_records(service: Serving, finished: Any) -> None:
    found = service.ask("GET", f"/v1/runs/{finished['run_id']}/distribution").json
    assert (found["scale"], found["graded_records"], found["scores"]) == ("1-5", 4, [{"score": 5.0, "records": 4}])


def test_artifact_comes_with_its_hash_and_not_again(service: Serving, finished: Any) -> None:
    listed = service.ask("GET", f"/v1/runs/{finished['run_id']}/artifacts").json["artifacts"]
    assert {entry["name"] for entry in listed} >= {"run_manifest.json", "predictions.jsonl", "failures.jsonl", "input_dataset.json"}
    for entry in listed:
        answer = service.ask("GET", entry["url"])
        assert hashlib.sha256(answer.body).hexdigest() == entry["sha256"] == answer.headers["etag"].strip('"')
        assert service.ask("GET", entry["url"], headers={"If-None-Match": answer.headers["etag"]}).status == 304


@pytest.mark.parametrize(
    ("asked", "expected"), [("bytes=0-9", slice(0, 10)), ("bytes=10-", slice(10, None)), ("bytes=-5", slice(-5, None))]
)
def test_part_of_an_artifact_can_be_asked_for(service: Serving, finished: Any, asked: str, expected: slice) -> None:
    path = f"/v1/runs/{finished['run_id']}/artifacts/predictions.jsonl"
    whole, part = service.ask("GET", path).body, service.ask("GET", path, headers={"Range": asked})
    assert (part.status, part.body) == (206, whole[expected])


@pytest.mark.parametrize("asked", ["bytes=5-3", "bytes=a-b", "lines=1-2"])
def test_range_that_makes_no_sense_is_the_whole_file(service: Serving, finished: Any, asked: str) -> None:
    path = f"/v1/runs/{finished['run_id']}/artifacts/predictions.jsonl"
    answer = service.ask("GET", path, headers={"Range": asked})
    assert (answer.status, answer.body) == (200, service.ask("GET", path).body)


def test_conditions_on_an_artifact_are_kept(service: Serving, finished: Any) -> None:
    path = f"/v1/runs/{finished['run_id']}/artifacts/predictions.jsonl"
    etag = service.ask("GET", path).headers["etag"]
    conditions = [{"If-None-Match": "*"}, {"If-None-Match": f'"x", W/{etag}'}, {"If-Match": '"x"'}, {"If-Match": etag}]
    assert [service.ask("GET", path, headers=condition).status for condition in conditions] == [304, 304, 412, 200]


def test_page_of_long_records_ends_early_and_names_the_next(service: Serving) -> None:
    document = dataset(60, dataset_id="long")
    for record in document["records"]:
        record["input"]["prompt"] = "x" * 200_000
    run_id = service.ended(service.submit(document, "?model=scripted/echo").json["run_id"])["run_id"]
    first = service.ask("GET", f"/v1/runs/{run_id}/records?limit=1000")
    rest = service.ask("GET", f"/v1/runs/{run_id}/records?limit=1000&cursor={first.json['next_cursor']}")
    assert 1_000_000 < len(first.body) < 10_000_000
    assert [item["index"] for item in first.json["items"] + rest.json["items"]] == list(range(60))


def test_range_outside_of_the_file_is_refused(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/artifacts/predictions.jsonl", headers={"Range": "bytes=999999-"})
    assert (answer.status, answer.json["error"]["code"]) == (416, "invalid_request")


def test_exported_table_is_evaluated_by_no_spreadsheet(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/export?format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))
    assert [row["model_response"] for row in rows] == [f"'{text}" for text in HOSTILE[:4]]
    assert [(row["index"], row["raw_score"]) for row in rows] == [(str(number), "5.0") for number in range(4)]


def test_exported_json_and_lines_say_the_same(service: Serving, finished: Any) -> None:
    document = service.ask("GET", f"/v1/runs/{finished['run_id']}/export?format=json").json["records"]
    lines = service.ask("GET", f"/v1/runs/{finished['run_id']}/export").body.splitlines()
    assert [json.loads(line) for line in lines] == document
    assert len(document) == 4


def test_exported_parquet_has_the_same_rows(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/export?format=parquet")
    rows = parquet.read_table(io.BytesIO(answer.body)).to_pylist()
    assert [(row["record_id"], row["raw_score"], row["passed"]) for row in rows] == [(f"q_{n:04}", 5.0, True) for n in range(4)]


def test_exported_workbook_opens_and_is_no_formula(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/export?format=xlsx")
    assert answer.headers["content-disposition"].endswith(f'"{finished["run_id"]}.xlsx"')
    sheet = openpyxl.load_workbook(io.BytesIO(answer.body))["Records"]
    header, *rows = sheet.iter_rows(values_only=True)
    place = header.index("model_response")
    assert [row[place] for row in rows] == list(HOSTILE[:4])
    assert {cell.data_type for cell in next(sheet.iter_cols(place + 1, place + 1))} == {"s"}


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


def test_two_runs_are_compared(service: Serving, finished: Any) -> None:
    document = dataset(5, dataset_id="reading")
    for record, prompt in zip(document["records"], HOSTILE, strict=False):
        record["input"]["prompt"] = prompt
    other = service.ended(service.submit(document, "?model=scripted/echo&judge=scripted/judge-1").json["run_id"])
    answer = service.ask("GET", f"/v1/compare?before={finished['run_id']}&after={other['run_id']}")
    assert (answer.status, answer.json["comparison"]["n"]) == (200, 4)


def test_audit_log_says_who_submitted_what(service: Serving, finished: Any) -> None:
    entries = service.ask("GET", "/v1/audit?limit=1000").json["entries"]
    assert [entry["action"] for entry in entries if entry.get("run_id") == finished["run_id"]] == ["run_submitted"]


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


def test_metrics_openapi_and_page_are_there(service: Serving) -> None:
    assert b"assay_http_requests_total{" in service.ask("GET", "/metrics").body
    assert "/v1/runs/{run_id}/records/{record_id}" in service.ask("GET", "/openapi.json").json["paths"]
    page = service.ask("GET", "/docs")
    assert b"<script" not in page.body
    assert "script-src 'self'" in page.headers["content-security-policy"]


def test_record_is_found_by_its_id_wherever_that_has_slashes(service: Serving) -> None:
    ids = ["a", "a/", "a/b", "a//b", "/etc/passwd", "//", "..", "a%2Fb", "ä ö"]
    document = dataset(len(ids))
    for record, record_id in zip(document["records"], ids, strict=True):
        record["record_id"] = record_id
    run_id = service.ended(service.submit(document).json["run_id"])["run_id"]
    answers = [service.ask("GET", f"/v1/runs/{run_id}/records/{quote(record_id, safe='')}") for record_id in ids]
    assert [answer.json["record"]["prediction"]["record_id"] for answer in answers] == ids


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


def test_changed_copy_of_a_run_is_not_taken_for_the_run(service: Serving) -> None:
    run_id = service.ended(service.submit(dataset(2), "?model=scripted/echo").json["run_id"])["run_id"]
    copy = service.runs_dir / "copy"
    shutil.copytree(service.runs_dir / run_id, copy)
    predictions = copy / "predictions.jsonl"
    predictions.chmod(0o644)
    predictions.write_bytes(predictions.read_bytes() + b"{}\n")
    page = service.ask("GET", "/runs/copy?verify=1").body.decode()
    assert "not as published" in page
    assert f"/runs/{run_id}/records" not in page
    assert "as published" in service.ask("GET", f"/runs/{run_id}?verify=1").body.decode()


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
