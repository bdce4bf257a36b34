"""Calls that are rejected on arrival: a limit costs no record, an outage three attempts each, and a bad record fails alone."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.run_result import RunResult
from assay.testing import CallsInFlight, StubLimit, StubProvider, StubReply, StubRequest, TokenBucket

BUSY = StubReply(status=503, body={"error": {"message": "overloaded", "type": "overloaded_error"}})


def run(folder: Path, stub: StubProvider, *, records: int, judged: bool = False, **members: Any) -> RunResult:
    """A run over questions that a stub answers."""
    rows = [
        {"record_id": f"r-{number}", "input": {"prompt": f"Question {number}?"}, "reference": {"answer": "4"}}
        for number in range(records)
    ]
    document = {
        "dataset_id": "d",
        "dataset_version": "1",
        "schema_version": "1.0",
        "created_at": "2026-01-01T00:00:00Z",
        "records": rows,
    }
    (folder / "d.json").write_text(json.dumps(document))
    request = {
        "datasets": [{"path": "d.json"}],
        "candidates": ["stub/m"],
        "judges": ["stub/judge"] if judged else [],
        "checks": [] if judged else [{"type": "contains", "value": "answer"}],
        "providers": [{"name": "stub", "kind": "openai", "base_url": stub.base_url}],
        **members,
    }
    (folder / "run.json").write_text(json.dumps(request))
    (result,) = api.run(folder / "run.json", run_id="x", runs_dir=str(folder / "runs"))
    return result


def attempts(result: RunResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(result.run_dir) / "attempt_logs.jsonl").read_text().splitlines()]


def manifest(result: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(result.run_dir) / "run_manifest.json").read_text())
    return found


@pytest.mark.parametrize(
    ("limit", "headers"), [(TokenBucket(100, 10), "none"), (TokenBucket(100, 10), "retry-after-ms"), (CallsInFlight(3), "none")]
)
def test_a_limit_costs_time_and_no_record(tmp_path: Path, limit: StubLimit, headers: Any) -> None:
    with StubProvider(limit=limit, headers=headers, latency=0.01) as stub:
        result = run(tmp_path, stub, records=60)
    lines = attempts(result)
    assert result.counts.evaluated_records == 60
    assert stub.rejected > 0
    assert Counter((line["counted"], line["http_status"], line["error_code"]) for line in lines) == {
        (True, None, None): 60,
        (False, 429, "rate_limited"): stub.rejected,
    }
    assert {line["record_attempt"] for line in lines} == {1}
    assert {line["wait_s"] for line in lines} == {None}


def test_candidate_and_judge_behind_one_limit_are_all_answered(tmp_path: Path) -> None:
    verdict = json.dumps({"score": 4, "justification": "right", "label": ""})

    def answers(request: StubRequest) -> str:
        return verdict if request.body["model"] == "judge" else "The answer is 4."

    with StubProvider(answers, limit=TokenBucket(100, 5)) as stub:
        result = run(tmp_path, stub, records=40, judged=True)
    assert (result.counts.evaluated_records, stub.rejected > 0) == (40, True)


FAST = {"retry": {"base_delay": 0.01, "max_delay": 1}}


def test_where_nothing_gets_through_each_record_has_three_attempts_and_the_run_ends(tmp_path: Path) -> None:
    with StubProvider([BUSY] * 300) as stub:
        result = run(tmp_path, stub, records=20, retry={"base_delay": 0.1})
    lines = attempts(result)
    assert (result.counts.evaluated_records, result.counts.failed_records, len(lines)) == (0, 20, 60)
    assert {line["counted"] for line in lines} == {True}
    waits = {round_: [line["wait_s"] for line in lines if line["record_attempt"] == round_] for round_ in (1, 2, 3)}
    assert all(0.08 <= wait <= 0.12 for wait in waits[1])
    assert all(0.24 <= wait <= 0.36 for wait in waits[2])
    assert set(waits[3]) == {None}
    times = {record: [line for line in lines if line["record_id"] == record] for record in {line["record_id"] for line in lines}}
    assert all([line["record_attempt"] for line in each] == [1, 2, 3] for each in times.values())


def test_calls_that_are_rejected_before_the_first_answer_do_not_count_when_it_comes(tmp_path: Path) -> None:
    with StubProvider(limit=CallsInFlight(1), latency=0.15) as stub:
        result = run(tmp_path, stub, records=4, **FAST)
    lines = attempts(result)
    assert result.counts.evaluated_records == 4
    assert [line["counted"] for line in lines if line["error_code"]] == [False] * stub.rejected


def test_one_record_that_is_always_rejected_fails_alone_after_three_attempts(tmp_path: Path) -> None:
    with StubProvider(lambda request: BUSY if "Question 7?" in str(request.body) else "The answer is 4.") as stub:
        result = run(tmp_path, stub, records=30, **FAST)
    lines = [line for line in attempts(result) if line["record_id"] == "r-7" and line["call_id"] == "candidate"]
    assert (result.counts.evaluated_records, result.counts.failed_records) == (29, 1)
    assert [line["record_attempt"] for line in lines if line["counted"]] == [1, 2, 3]


def test_the_last_record_that_is_rejected_is_compared_with_one_that_was_answered(tmp_path: Path) -> None:
    with StubProvider(lambda request: BUSY if "Question 4?" in str(request.body) else "The answer is 4.") as stub:
        result = run(tmp_path, stub, records=5, run={"concurrency": 1}, **FAST)
    lines = attempts(result)
    assert (result.counts.evaluated_records, result.counts.failed_records) == (4, 1)
    checks = [line for line in lines if line["call_id"] == "check"]
    assert len(checks) <= 2
    assert all(line["error_code"] is None for line in checks)


def test_a_provider_that_goes_on_after_an_outage_keeps_what_was_counted(tmp_path: Path) -> None:
    with StubProvider([*[BUSY] * 2, *["The answer is 4."] * 10]) as stub:
        result = run(tmp_path, stub, records=1, **FAST)
    lines = attempts(result)
    assert result.counts.evaluated_records == 1
    assert [(line["record_attempt"], line["counted"]) for line in lines] == [(1, True), (2, True), (3, True)]
