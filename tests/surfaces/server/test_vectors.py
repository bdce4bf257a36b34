"""Conformance vectors of batch_v1 against a real service; ASSAY_VECTORS names their folder."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import content_of, differences
from tests.surfaces.server.serving import JSON, Answered, Serving

FOLDER = Path(os.environ.get("ASSAY_VECTORS", ""), "batch_v1")
VECTORS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
UPLOADS = [vector for vector in VECTORS if vector["target"] in ("dataset", "http_upload")]


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A service whose runs never get far, so that only the answers cost anything."""
    settings = "requests_per_minute: 100000\nmax_queue: 10000\nmax_runs: 1\n"
    run_file = "candidates: [scripted/slow-600000]\njudges: [scripted/judge-5]\n"
    with Serving(tmp_path_factory.mktemp("patient"), settings=settings, run_file=run_file) as serving:
        yield serving


def outcome_of(service: Serving, answer: Answered) -> dict[str, Any]:
    """What the service said, in the words of the vectors; a list that was cut is read to its end."""
    found = answer.json
    if answer.status != 202:
        error = found["error"]
        details = error.get("details", {})
        named = {"http_status": answer.status, "error_code": error["code"], "message": error["message"], "details": details}
        return {"outcome": "rejected", **named, "record_errors": details.get("record_errors", [])}
    named = {"outcome": found["status"], "http_status": 202, "summary": found["summary"], "record_errors": found["record_errors"]}
    return {**named, "record_errors": all_errors(service, found["record_errors_url"])} if "record_errors_url" in found else named


def all_errors(service: Serving, url: str) -> list[Any]:
    errors: list[Any] = []
    cursor = "0"
    while cursor is not None:
        page = service.ask("GET", f"{url}?limit=1000&cursor={cursor}").json
        errors += page["items"]
        cursor = page["next_cursor"]
    return errors


@pytest.mark.skipif(not UPLOADS, reason="ASSAY_VECTORS is not set")
@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["id"]) for vector in UPLOADS])
def test_service_answers_as_the_vector_says(patient: Serving, vector: dict[str, Any]) -> None:
    headers = vector["input"].get("headers", JSON)
    answer = patient.ask("POST", "/v1/runs", content_of(vector["input"]), headers)
    assert differences(outcome_of(patient, answer), vector) == []
