"""Comparisons and the audit log over HTTP."""

from typing import Any

from tests.surfaces.server.serving import HOSTILE, Serving, dataset


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
