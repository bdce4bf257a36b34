"""The contract's answers to an upload, on a real socket."""

import gzip
import json
import re

import pytest

from assay.testing import example_dataset
from tests.surfaces.server.serving import Serving, dataset

REQUEST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check_nothing_is_left(service: Serving) -> None:
    """Of others who have hung up in the middle of an upload, the service may be about to remove the last."""
    service.wait_for(lambda: not service.left_over())


def test_clean_upload_is_accepted_with_the_shape_of_the_contract(service: Serving) -> None:
    answer = service.submit(dataset(3))
    assert answer.status == 202
    assert list(answer.json) == ["run_id", "status", "summary", "record_errors", "request_id"]
    assert answer.json["summary"] == {"total_records": 3, "accepted_records": 3, "rejected_records": 0}
    assert (answer.json["status"], answer.json["record_errors"]) == ("accepted", [])
    assert REQUEST_ID.fullmatch(answer.json["request_id"])


def test_dataset_without_a_given_name_is_called_by_its_own_id(service: Serving) -> None:
    run_id = service.submit(dataset(1)).json["run_id"]
    assert service.ended(run_id)["state"] == "completed"
    manifest = service.ask("GET", f"/v1/runs/{run_id}/artifacts/run_manifest.json").json
    assert [found["name"] for found in manifest["plan"]["datasets"]] == [dataset(1)["dataset_id"]]


def test_malformed_record_is_reported_beside_the_accepted_ones(service: Serving) -> None:
    document = dataset(3)
    document["records"][1]["input"]["prompt"] = 7
    answer = service.submit(document).json
    assert answer["status"] == "accepted_with_record_errors"
    assert answer["summary"] == {"total_records": 3, "accepted_records": 2, "rejected_records": 1}
    assert answer["record_errors"] == [
        {
            "index": 1,
            "record_id": "q_0001",
            "code": "invalid_field_type",
            "message": "input.prompt must be a string, not an integer",
            "path": "records[1].input.prompt",
            "severity": "error",
        }
    ]


def test_upload_without_a_valid_record_is_refused_with_the_envelope_of_the_contract(service: Serving) -> None:
    document = dataset(2)
    for record in document["records"]:
        del record["input"]
    answer = service.submit(document)
    assert answer.status == 400
    assert list(answer.json) == ["error", "request_id"]
    error = answer.json["error"]
    assert (error["code"], error["message"]) == ("invalid_request", "All records failed validation")
    assert (error["details"]["rejected_records"], error["details"]["accepted_records"]) == (2, 0)
    assert len(error["details"]["record_errors"]) == 2


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"records":[]}'])
def test_upload_that_is_no_dataset_is_refused_and_makes_no_run(service: Serving, body: bytes) -> None:
    before = len(service.runs())
    answer = service.submit(body)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert answer.json["error"]["details"]["errors"]
    assert len(service.runs()) == before


def test_errors_of_the_dataset_and_of_its_records_are_told_together(service: Serving) -> None:
    document = dataset(2, created_at="yesterday")
    document["dataset_id"] = "a b"
    document["records"][0]["input"] = 7
    details = service.submit(document).json["error"]["details"]
    assert [error["path"] for error in details["errors"]] == ["dataset_id", "created_at"]
    assert [error["path"] for error in details["record_errors"]] == ["records[0].input"]


def test_repeats_beyond_what_the_operator_allows_are_refused(service: Serving) -> None:
    answer = service.submit(dataset(2_000), "?repeat=1000&model=scripted/echo")
    assert (answer.status, "2,000,000 answers" in answer.json["error"]["message"]) == (400, True)


def test_upload_that_is_named_like_a_file_of_the_server_stays_an_upload(service: Serving) -> None:
    rows = (example_dataset("legal_eval_v1").splitlines()[0], b'{"id": "bad"}')
    headers = {"Content-Type": "application/x-ndjson"}
    query = "?contract=legal_eval_v1&name=record_errors&on_invalid=skip&model=scripted/echo"
    answer = service.ask("POST", f"/v1/runs{query}", b"\n".join(rows), headers)
    assert answer.status == 202, answer.body
    errors = service.ask("GET", f"/v1/runs/{answer.json['run_id']}/errors").json["items"]
    assert {error["index"] for error in errors} == {1}


@pytest.mark.parametrize(("header", "query"), [("Question,Answer", ""), ("x,y", "&prompt=x&reference=y")])
def test_table_is_taken_with_the_columns_that_parameters_name(service: Serving, header: str, query: str) -> None:
    body = f"{header}\nWhy?,Because\n,no question\n".encode()
    answer = service.ask(
        "POST", f"/v1/runs?model=scripted/echo&judge=scripted/judge-any{query}", body, {"Content-Type": "text/csv"}
    )
    assert answer.status == 202, answer.body
    assert answer.json["summary"] == {"total_records": 2, "accepted_records": 1, "rejected_records": 1}
    assert ["row 3, column" in error["message"] for error in answer.json["record_errors"]] == [True]


def test_golden_dataset_with_an_invalid_case_is_refused_as_a_whole(service: Serving) -> None:
    document = json.loads(example_dataset("golden_v1"))
    document["cases"][1]["rubric"] = "short"
    for query in ("", "&on_invalid=skip"):
        error = service.submit(document, f"?contract=golden_v1{query}").json["error"]
        assert error["message"] == "the dataset has invalid records, and its contract takes all of them or none"
        assert [found["path"] for found in error["details"]["record_errors"]] == ["cases[1].rubric"]


def test_errors_of_a_dataset_say_what_to_do(service: Serving) -> None:
    (error,) = service.submit({**dataset(1), "created_at": "today"}).json["error"]["details"]["errors"]
    assert (error["path"], error["hint"]) == ("created_at", "write it like 2026-01-15T10:05:12Z")


def test_payload_of_more_than_100_mb_is_refused(service: Serving) -> None:
    answer = service.submit(b" " * ((100 << 20) + 1))
    assert (answer.status, answer.json["error"]["code"]) == (413, "payload_too_large")
    check_nothing_is_left(service)


def test_packed_upload_is_unpacked(service: Serving) -> None:
    packed = gzip.compress(json.dumps(dataset(2)).encode())
    answer = service.submit(packed, headers={"Content-Encoding": "gzip"})
    assert answer.json["summary"]["accepted_records"] == 2


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_packed_upload_that_does_not_say_so_is_not_utf8(service: Serving, encoding: str) -> None:
    packed = gzip.compress(json.dumps(dataset(2)).encode())
    body = gzip.compress(packed) if encoding == "gzip" else packed
    answer = service.submit(body, headers={"Content-Encoding": encoding})
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    check_nothing_is_left(service)


def test_packed_upload_is_refused_when_it_grows_beyond_the_limit(service: Serving) -> None:
    bomb = gzip.compress(b" " * ((100 << 20) + 1))
    answer = service.submit(bomb, headers={"Content-Encoding": "gzip"})
    assert (answer.status, answer.json["error"]["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize("body", [b"not gzip", gzip.compress(b"{}" * 1000, mtime=0)[:-9]])
def test_packed_upload_that_is_damaged_is_refused(service: Serving, body: bytes) -> None:
    answer = service.submit(body, headers={"Content-Encoding": "gzip"})
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


def test_run_comes_to_its_end_with_metrics_and_leaves_no_upload(service: Serving) -> None:
    run = service.ended(service.submit(dataset(3)).json["run_id"])
    assert run["state"] == "completed"
    assert run["counts"]["evaluated_records"] == run["done_records"] == 3
    assert run["metrics"]["pass_rate"] == 1.0
    assert [state["state"] for state in run["states"]][:3] == ["queued", "validating", "running"]
    # The run is there for readers before the last of what was uploaded is gone.
    service.wait_for(lambda: not (service.runs_dir / ".active" / run["run_id"]).exists())


def test_long_error_list_is_cut_and_says_where_the_rest_is(service: Serving) -> None:
    document = dataset(1_202)
    for record in document["records"][1:]:
        record["input"]["prompt"] = ""
    answer = service.submit(document).json
    assert (len(answer["record_errors"]), answer["record_errors_truncated"], answer["record_errors_total"]) == (1_000, True, 1_201)
    assert answer["record_errors_url"] == f"/v1/runs/{answer['run_id']}/errors"


def test_golden_and_legal_datasets_are_taken_under_their_contract(service: Serving) -> None:
    golden = {
        "version": "1.0.0",
        "cases": [{"id": f"c-{n}", "user_prompt": "Hi", "rubric": "Says hello to them."} for n in range(5)],
    }
    assert service.submit(golden, "?contract=golden_v1&name=greetings").status == 202
    row = {"schema_version": "legal_eval_v1", "id": "a:1", "dataset": "a", "task_type": "mcq", "prompt": "Which?"}
    row |= {"choices": [{"id": "A", "text": "this"}, {"id": "B", "text": "that"}], "correct_choice_ids": ["A"]}
    answer = service.submit(row, "?contract=legal_eval_v1&model=scripted/mcq-first")
    assert (answer.status, service.ended(answer.json["run_id"])["metrics"]["pass_rate"]) == (202, 1.0)


@pytest.mark.parametrize(
    "query",
    [
        "?modle=x",
        "?limit=0",
        "?limit=x",
        "?model=a&model=b",
        "?contract=v9",
        "?on_invalid=maybe",
        "?name=a%0A",
        "?max_cost=inf",
        "?max_cost=nan",
    ],
)
def test_wrong_parameter_is_refused(service: Serving, query: str) -> None:
    answer = service.submit(dataset(1), query)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


def test_criteria_of_the_request_are_those_of_records_without_any(service: Serving) -> None:
    document = dataset(2)
    document["records"][1]["expected"] = {"required_criteria": ["clarity"]}
    run_id = service.ended(service.submit(document, "?criteria=accuracy,reasoning").json["run_id"])["run_id"]
    criteria = service.ask("GET", f"/v1/runs/{run_id}/distribution").json["criteria"]
    assert {name: levels[0]["records"] for name, levels in criteria.items()} == {"accuracy": 1, "reasoning": 1, "clarity": 1}


def test_validation_alone_makes_no_run(service: Serving) -> None:
    before = len(service.runs())
    answer = service.ask("POST", "/v1/validate", dataset(4))
    assert (answer.status, answer.json["outcome"], answer.json["summary"]["total_records"]) == (200, "accepted", 4)
    assert len(service.runs()) == before
    check_nothing_is_left(service)
