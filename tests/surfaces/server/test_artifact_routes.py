"""Files of finished runs over HTTP: whole, in part, and as tables."""

import csv
import hashlib
import io
import json
import shutil
from typing import Any

import openpyxl
import pytest
from pyarrow import parquet

from tests.surfaces.server.serving import HOSTILE, Serving, dataset


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
