"""Records over HTTP: pages, searches, one record, and errors."""

from typing import Any
from urllib.parse import quote

from tests.surfaces.server.serving import Serving, dataset


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


def test_page_of_long_records_ends_early_and_names_the_next(service: Serving) -> None:
    document = dataset(60, dataset_id="long")
    for record in document["records"]:
        record["input"]["prompt"] = "x" * 200_000
    run_id = service.ended(service.submit(document, "?model=scripted/echo").json["run_id"])["run_id"]
    first = service.ask("GET", f"/v1/runs/{run_id}/records?limit=1000")
    rest = service.ask("GET", f"/v1/runs/{run_id}/records?limit=1000&cursor={first.json['next_cursor']}")
    assert 1_000_000 < len(first.body) < 10_000_000
    assert [item["index"] for item in first.json["items"] + rest.json["items"]] == list(range(60))


def test_record_is_found_by_its_id_wherever_that_has_slashes(service: Serving) -> None:
    ids = ["a", "a/", "a/b", "a//b", "/etc/passwd", "//", "..", "a%2Fb", "ä ö"]
    document = dataset(len(ids))
    for record, record_id in zip(document["records"], ids, strict=True):
        record["record_id"] = record_id
    run_id = service.ended(service.submit(document).json["run_id"])["run_id"]
    answers = [service.ask("GET", f"/v1/runs/{run_id}/records/{quote(record_id, safe='')}") for record_id in ids]
    assert [answer.json["record"]["prediction"]["record_id"] for answer in answers] == ids
