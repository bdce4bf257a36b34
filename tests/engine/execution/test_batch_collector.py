"""Answers from a provider's batches: handed in once, collected whatever goes wrong, and the rest asked one by one."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import ServerProblem
from assay.engine.execution.batch_collector import TRIES
from assay.engine.planning.request import RunRequest
from tests.engine.batch_runs import KINDS, attempts, manifest, resumed, run, started, write_run
from tests.engine.run_settings import batch_record, mcq_row, problems_of, write_batch, write_golden, write_rows
from tests.models.batch_provider import BatchProvider, Faults, Refused

FILES = {"openai": "POST /v1/batches", "openai_responses": "POST /v1/batches", "anthropic": "POST /v1/messages/batches"}
VERDICT = json.dumps({"score": 5, "justification": "Right.", "label": ""})
BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_comes_from_a_batch_and_is_graded(kind: str, tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, kind=kind)
        result = run(run_file)
    assert (result.state, result.counts.evaluated_records, result.metrics["pass_rate"]) == ("completed", 6, 1.0)
    assert (provider.seen[FILES[kind]], provider.live) == (1, [])
    assert {tuple(line["flags"]) for line in attempts(run_file)} == {("batched",)}


@BOTH
def test_many_requests_are_handed_in_as_several_batches(kind: str, tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, kind=kind, records=10, batch={"max_requests": 4})
        assert run(run_file).counts.evaluated_records == 10
    assert [batch["requests"] for batch in manifest(run_file)["batches"]] == [4, 4, 2]
    assert provider.created == 3


@BOTH
def test_results_in_any_order_reach_their_own_records(kind: str, tmp_path: Path) -> None:
    def answer(body: dict[str, object]) -> str:
        return "B" if "Is it 3?" in json.dumps(body) else "A"

    with BatchProvider(answer, faults=Faults(is_shuffled=True)) as provider:
        run_file = write_run(tmp_path, provider, kind=kind, records=8)
        run(run_file)
    failed = [line.record_id for line in api.open_run(str(tmp_path / "runs" / "x")).predictions() if not line.passed]
    assert failed == ["q-3"]


@BOTH
def test_whatever_has_no_answer_is_asked_one_by_one_and_every_record_has_one_outcome(kind: str, tmp_path: Path) -> None:
    faults = Faults(missing=1, malformed=1, errored=1, expired=2, duplicated=2, unknown=1, is_shuffled=True)
    with BatchProvider(faults=faults) as provider:
        run_file = write_run(tmp_path, provider, kind=kind, records=12)
        result = run(run_file)
    (batch,) = manifest(run_file)["batches"]
    assert (result.counts.evaluated_records, len(provider.live)) == (12, 5)
    assert (batch["answered"], batch["asked_live"], sum(batch["errors"].values())) == (7, 5, 5)
    assert (batch["duplicates"], batch["unknown"], batch["malformed"]) == (2, 1, 1)
    codes = Counter(line["error_code"] for line in attempts(run_file))
    assert codes["internal_error"] == 1
    assert codes[None] == 12
    assert codes.total() == 17


def test_a_request_that_would_be_refused_again_is_not_asked_again(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(refused=1)) as provider:
        run_file = write_run(tmp_path, provider)
        result = run(run_file)
    assert (result.counts.evaluated_records, result.counts.failed_records, provider.live) == (5, 1, [])
    assert attempts(run_file)[0]["error_code"] == "invalid_request"


@BOTH
def test_with_fallback_fail_nothing_is_asked_one_by_one(kind: str, tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(expired=2)) as provider:
        result = run(write_run(tmp_path, provider, kind=kind, batch={"fallback": "fail"}))
    assert (result.counts.evaluated_records, result.counts.failed_records, provider.live) == (4, 2, [])


def test_everything_that_is_wrong_with_a_batch_is_said_at_once_and_a_resumed_run_hands_it_in_again(tmp_path: Path) -> None:
    problems = ({"code": "model_not_found", "message": "no such model", "line": 1}, {"code": "x", "message": "bad", "line": 2})
    with BatchProvider(faults=Faults(problems=problems)) as provider:
        run_file = write_run(tmp_path, provider)
        with pytest.raises(ServerProblem, match=r"line 1: no such model \(model_not_found\); line 2: bad \(x\)"):
            run(run_file)
        provider.faults = Faults()
        assert resumed(run_file).counts.evaluated_records == 6
    assert [batch["status"] for batch in manifest(run_file)["batches"]] == ["failed", "completed"]
    assert provider.live == []


def test_batches_that_the_queue_has_no_room_for_are_handed_in_when_the_others_have_ended(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(most_waiting=1)) as provider:
        run_file = write_run(tmp_path, provider, batch={"max_requests": 3})
        assert run(run_file).counts.evaluated_records == 6
    assert Counter(batch["status"] for batch in manifest(run_file)["batches"])["completed"] == 2
    assert provider.live == []


@BOTH
@pytest.mark.parametrize("refused", [Refused(429, headers={"Retry-After": "0"}), Refused(500), Refused(503)])
def test_looks_that_fail_for_the_moment_are_made_again(kind: str, refused: Refused, tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> Refused | None:
        return refused if (method, number) == ("GET", 1) and path.endswith("batches/ID") else None

    with BatchProvider(meddle=meddle) as provider:
        assert run(write_run(tmp_path, provider, kind=kind)).counts.evaluated_records == 6
    assert provider.live == []


@BOTH
@pytest.mark.parametrize("how", ["truncate", "headless", "reset"])
def test_results_that_are_cut_off_are_fetched_again(kind: str, how: str, tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> str | None:
        return how if (method, number) == ("GET", 1) and path.endswith(("/content", "/results")) else None

    with BatchProvider(meddle=meddle) as provider:
        run_file = write_run(tmp_path, provider, kind=kind)
        assert run(run_file).counts.evaluated_records == 6
    (batch,) = manifest(run_file)["batches"]
    assert (provider.created, provider.live, len(attempts(run_file))) == (1, [], 6)
    assert (batch["answered"], batch["duplicates"], batch["errors"]) == (6, 0, {})


@BOTH
@pytest.mark.parametrize("how", ["reset", "truncate"])
def test_a_batch_whose_creation_brought_no_answer_is_found_and_not_handed_in_twice(kind: str, how: str, tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> str | None:
        return how if (method, number) == ("POST", 1) and path.endswith("/batches") else None

    with BatchProvider(meddle=meddle) as provider:
        assert run(write_run(tmp_path, provider, kind=kind)).counts.evaluated_records == 6
    assert (provider.created, provider.live) == (1, [])


def test_a_batch_of_the_same_size_that_is_somebody_elses_is_not_taken_for_ours(tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> str | None:
        return "hang_before" if (method, path, number) == ("POST", "/v1/messages/batches", 2) else None

    with BatchProvider() as provider:
        (tmp_path / "other").mkdir()
        run(write_run(tmp_path / "other", provider, kind="anthropic"))
        provider.meddle = meddle
        run_file = write_run(tmp_path, provider, kind="anthropic", providers=[_impatient(provider)])
        assert run(run_file).counts.evaluated_records == 6
    assert (provider.created, provider.live) == (2, [])
    assert manifest(run_file)["batches"][0]["batch_id"] == "msgbatch_0002"


def _impatient(provider: BatchProvider) -> dict[str, object]:
    return {"name": "shop", "kind": "anthropic", "base_url": provider.base_url, "timeout": 1.5}


@BOTH
def test_the_requests_of_a_batch_that_the_provider_lost_are_asked_one_by_one(kind: str, tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, kind=kind)
        run(run_file, is_detached=True)
        provider.batches.clear()
        assert resumed(run_file).counts.evaluated_records == 6
    assert {line["error_code"] for line in attempts(run_file)} == {"batch_lost", None}
    assert len(provider.live) == 6


@BOTH
def test_a_detached_run_hands_in_and_leaves_and_is_collected_later(kind: str, tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=2)) as provider:
        run_file = write_run(tmp_path, provider, kind=kind)
        assert run(run_file, is_detached=True).state == "running"
        assert resumed(run_file).counts.evaluated_records == 6
    assert (provider.created, provider.live) == (1, [])


def test_a_cancelled_run_cancels_its_batches_and_keeps_what_was_answered(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=999)) as provider:
        run_file = write_run(tmp_path, provider)
        run(run_file, is_detached=True)
        result = api.cancel("x", runs_dir=tmp_path / "runs")
    assert (result.state, result.counts.cancelled_records) == ("cancelled", 6)
    assert [batch.status for batch in provider.batches.values()] == ["cancelled"]
    assert Counter(line["error_code"] for line in attempts(run_file)) == {None: 3, "batch_cancelled": 3}


def test_a_provider_without_batches_is_a_problem_before_any_call(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, candidates=["scripted/echo"])
    (problem,) = problems_of(RunRequest(run_file=str(run_file), runs_dir=str(tmp_path / "runs")))
    assert "the provider 'scripted' of kind scripted takes no batches" in problem


def test_no_key_is_in_what_is_kept_nor_in_what_is_said(tmp_path: Path) -> None:
    key = "sk-canary-0123456789abcdef"
    with BatchProvider(meddle=lambda _, path, __: Refused(400, f"bad key {key}") if path == "/v1/files" else None) as provider:
        run_file = write_run(tmp_path, provider, providers=[{**_impatient(provider), "kind": "openai", "key_variable": "SHOP_KEY"}])
        running = started(run_file, SHOP_KEY=key)
        _, told = running.communicate()
    assert (running.returncode, "could not be handed in" in told, key in told) == (2, True, False)
    assert provider.headers[0]["authorization"] == f"Bearer {key}"
    assert [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()] == []


def test_what_waits_for_a_batch_is_said_in_the_list_of_runs(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run(write_run(tmp_path, provider), is_detached=True)
        (listing,) = api.list_runs(tmp_path / "runs")
    assert (listing.state, listing.note) == ("running", "waits for 1 batch with 6 requests")


def test_every_sample_of_a_record_is_a_request_of_its_own(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        result = run(write_run(tmp_path, provider, records=2, repeat=3, candidates=[{"model": "shop/m", "temperature": 1}]))
    assert (result.counts.evaluated_records, [len(batch.requests) for batch in provider.batches.values()]) == (6, [6])


def test_judges_are_asked_one_by_one_as_soon_as_the_answers_are_there(tmp_path: Path) -> None:
    def answer(body: dict[str, object]) -> str:
        return json.dumps({"score": 5, "justification": "Right."}) if body["model"] == "judge-1" else "It is 4."

    with BatchProvider(answer) as provider:
        run_file = write_run(tmp_path, provider, datasets=["golden.json"], judges=["shop/judge-1"])
        write_golden(tmp_path / "golden.json", 5)
        result = run(run_file)
    assert (result.counts.evaluated_records, {body["model"] for body in provider.live}) == (5, {"judge-1"})
    assert len(provider.live) == 5


def test_failed_records_are_handed_in_again_by_a_retry(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(expired=2)) as provider:
        run(write_run(tmp_path, provider, batch={"fallback": "fail"}))
        provider.faults = Faults()
        result = api.retry("x", runs_dir=tmp_path / "runs")
    assert (result.counts.evaluated_records, provider.live) == (2, [])
    assert [len(batch.requests) for batch in provider.batches.values()] == [6, 2]


def test_an_uploaded_file_that_is_gone_is_uploaded_again(tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> Refused | None:
        return Refused(500) if (method, path) == ("POST", "/v1/batches") and number <= TRIES else None

    with BatchProvider(meddle=meddle) as provider:
        run_file = write_run(tmp_path, provider)
        with pytest.raises(ServerProblem):
            run(run_file)
        provider.files.clear()
        with pytest.raises(ServerProblem, match="a batch needs a file"):
            resumed(run_file)
        assert resumed(run_file).counts.evaluated_records == 6
    assert provider.created == 1


def test_a_record_with_a_limit_on_latency_is_flagged_because_nobody_knows_it(tmp_path: Path) -> None:
    with BatchProvider(lambda body: VERDICT if body["model"] == "judge-1" else "Hello") as provider:
        record = {**batch_record("r-1"), "expected": {"max_latency_ms": 5}}
        run_file = write_run(tmp_path, provider, datasets=["batch.json"], judges=["shop/judge-1"])
        write_batch(tmp_path / "batch.json", record)
        run(run_file)
    (line,) = api.open_run("x", runs_dir=tmp_path / "runs").predictions()
    assert (line.passed, line.latency_ms, "latency_unknown" in line.flags) == (True, None, True)


def test_attachments_go_with_the_requests_of_a_batch(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, datasets=["attached.jsonl"])
        write_rows(tmp_path / "attached.jsonl", mcq_row("a", attachments=[{"path": "a.txt", "title": "The lease"}]))
        (tmp_path / "a.txt").write_text("The lease ends in May.")
        assert run(run_file).counts.evaluated_records == 1
    assert b"The lease ends in May." in provider.files["file-0001"]


def test_a_run_without_batches_does_not_load_what_they_are_handed_in_with() -> None:
    script = "import sys, assay.api.runs; print('httptools' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"
