"""What goes wrong around a run: providers that fail, money that runs out, disks that are full, handles that are missing."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import StoreUnavailable
from assay.core.run_result import RunResult
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import VERDICT, Job, steady, write_job
from tests.crash.provider import Answer, CountingProvider, Script, error

Lines = list[dict[str, Any]]
BUSY = (429, error("slow down", kind="rate_limit_error"), {})
DOWN = (503, error("overloaded"), {})
QUOTA = (429, error("You exceeded your current quota", kind="insufficient_quota"), {})
BAD_KEY = (401, error("no such key", kind="authentication_error"), {})


def good(model: str, case: str, _: int) -> Answer:
    return 200, VERDICT if model == "judge" else f"About [case {case}].", {}


def candidate_says(*answers: Answer) -> Script:
    """The candidate's answers to each case in order, the last one again and again; the judge is content."""
    return lambda model, case, time: good(model, case, time) if model == "judge" else answers[min(time, len(answers)) - 1]


def played(folder: Path, script: Script, *, records: int = 1, **members: Any) -> tuple[RunResult, CountingProvider]:
    """A run against a provider that plays a script."""
    with CountingProvider(script) as provider:
        job = write_job(folder, provider.base_url, records=records, **members)
        return finished(job), provider


def finished(job: Job, run_id: str = "x") -> RunResult:
    (result,) = api.run(job.folder / "run.json", run_id=run_id, runs_dir=str(job.runs))
    return result


def lines(result: RunResult, name: str) -> Lines:
    return [json.loads(line) for line in (Path(result.run_dir) / name).read_text().splitlines()]


def manifest(result: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(result.run_dir) / "run_manifest.json").read_text())
    return found


def states(result: RunResult) -> list[str]:
    return [entry["state"] for entry in manifest(result)["states"]]


# Rounds


def test_a_record_is_tried_three_times(tmp_path: Path) -> None:
    result, provider = played(tmp_path, candidate_says(DOWN, BUSY, good("candidate", "0", 1)))
    attempts = [(line["call_id"], line["record_attempt"], line["error_code"]) for line in lines(result, "attempt_logs.jsonl")]
    failures = [("candidate", 1, "service_unavailable"), ("candidate", 2, "rate_limited")]
    assert attempts == [*failures, ("candidate", 3, None), ("judge:overall", 3, None)]
    assert (result.counts.evaluated_records, provider.calls["candidate", "0"]) == (1, 3)


def test_a_third_failure_is_the_last(tmp_path: Path) -> None:
    result, provider = played(tmp_path, candidate_says(BUSY, DOWN))
    (failure, *_) = lines(result, "failures.jsonl")
    assert (failure["status"], failure["code"], failure["record_attempts"]) == ("evaluation_error", "service_unavailable", 3)
    assert provider.calls == {("candidate", "0"): 3}


def test_an_answer_is_kept_when_only_the_judge_fails(tmp_path: Path) -> None:
    result, provider = played(tmp_path, lambda model, case, time: DOWN if model == "judge" else good(model, case, time))
    (prediction,) = lines(result, "predictions.jsonl")
    assert (prediction["status"], prediction["score"], prediction["model_response"]) == (
        "evaluation_error",
        None,
        "About [case 0].",
    )
    assert provider.calls == {("candidate", "0"): 1, ("judge", "0"): 3}


def test_a_permanent_failure_is_not_tried_again(tmp_path: Path) -> None:
    result, provider = played(tmp_path, candidate_says((400, error("no", kind="invalid_request_error"), {})))
    (attempt,) = lines(result, "attempt_logs.jsonl")
    assert (attempt["error_code"], attempt["wait_s"], provider.calls.total()) == ("invalid_request", None, 1)


@pytest.mark.parametrize("content", [None, ""])
def test_a_reply_of_tool_calls_alone_is_never_graded(tmp_path: Path, content: str | None) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    body = {"choices": [{"message": {"content": content, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    result, provider = played(tmp_path, candidate_says((200, body, {})))
    (prediction,) = lines(result, "predictions.jsonl")
    assert (prediction["status"], prediction["error_code"]) == ("evaluation_error", "tool_call_only")
    assert (prediction["score"], prediction["passed"], provider.calls.total()) == (None, None, 1)


@pytest.mark.parametrize(("retry_after", "waited"), [("0.2", 0.2), ("7200", 0.3), ("-5", 0.01)])
def test_a_provider_s_wish_to_wait_is_heard_up_to_a_limit(tmp_path: Path, retry_after: str, waited: float) -> None:
    busy = (*BUSY[:2], {"Retry-After": retry_after})
    retry = {"base_delay": 0.01, "max_delay": 0.3}
    result, _ = played(tmp_path, candidate_says(busy, good("candidate", "0", 1)), retry=retry)
    (failed, *_) = lines(result, "attempt_logs.jsonl")
    assert failed["wait_s"] == pytest.approx(waited, rel=0.2)


# Breakers and budget


WRONG_MODEL = (404, error("The model `gpt-7` does not exist", kind="invalid_request_error", code="model_not_found"), {})
WRONG_MODEL_400 = (400, error("The requested model does not exist.", kind="invalid_request_error", code="model_not_found"), {})
NO_ACCESS = (403, error("no access to this project", kind="permission_error"), {})
UNPAID = (402, error("payment required"), {})
REJECTIONS = [BAD_KEY, WRONG_MODEL, WRONG_MODEL_400, NO_ACCESS, UNPAID, QUOTA]


def failed(folder: Path, script: Script, **members: Any) -> tuple[RunResult, CountingProvider]:
    """A run that a provider rejects; nothing of it is counted as an error of a record."""
    result, provider = played(folder, script, **members)
    assert (result.state, result.is_finished, result.is_resumable) == ("failed", False, True)
    assert result.counts.failed_records == result.counts.invalid_records
    assert result.counts.cancelled_records == 0
    assert "'stub' rejects the calls to 'stub/" in result.problem
    return result, provider


@pytest.mark.parametrize("answer", REJECTIONS)
@pytest.mark.parametrize(("records", "concurrency"), [(1, 4), (5, 1), (5, 64), (600, 4)])
def test_a_rejected_key_model_or_account_fails_the_run(tmp_path: Path, answer: Answer, records: int, concurrency: int) -> None:
    result, provider = failed(tmp_path, candidate_says(answer), records=records, concurrency=concurrency)
    assert result.counts.evaluated_records == 0
    assert provider.calls.total() <= min(records, 5 + concurrency)
    assert f"HTTP {answer[0]} from 'stub'" in result.problem
    assert result.blocked == result.problem


@pytest.mark.parametrize("answer", REJECTIONS)
def test_a_rejected_judge_fails_the_run_and_the_answers_are_kept(tmp_path: Path, answer: Answer) -> None:
    state = {"answer": answer}
    with CountingProvider(lambda model, case, time: state["answer"] if model == "judge" else good(model, case, time)) as provider:
        job = write_job(tmp_path, provider.base_url, records=12)
        result = finished(job)
        assert (result.state, result.is_resumable, result.counts.failed_records) == ("failed", True, 2)
        assert "rejects the calls to 'stub/judge'" in result.problem
        asked = provider.calls_to("candidate")
        state["answer"] = good("judge", "0", 1)
        assert finished(job).counts.evaluated_records == 12
        assert asked > 0
        assert provider.calls_to("candidate") == 12


@pytest.mark.parametrize("answer", [BAD_KEY, QUOTA])
@pytest.mark.parametrize(("records", "after"), [(6, 3), (6, 5), (100, 20)])
def test_a_key_that_is_revoked_half_way_fails_the_run_and_a_resumed_one_completes_it(
    tmp_path: Path, answer: Answer, records: int, after: int
) -> None:
    is_revoked = [False]

    def script(model: str, case: str, time: int) -> Answer:
        if is_revoked[0] or provider.calls_to("candidate") > after:
            is_revoked[0] = True
            return answer
        return good(model, case, time)

    with CountingProvider(script) as provider:
        job = write_job(tmp_path, provider.base_url, records=records, concurrency=2)
        result = finished(job)
        assert (result.state, result.is_resumable, result.counts.failed_records) == ("failed", True, 2)
        kept = result.counts.evaluated_records
        before = provider.calls.total()
        provider.script = good
        resumed = finished(job)
    assert (resumed.state, resumed.counts.evaluated_records) == ("completed_with_failures", records)
    assert provider.calls.total() - before <= 2 * (records - kept)
    assert [entry["state"] for entry in manifest(resumed)["states"]] == [
        *("queued", "validating", "running", "failed", "running"),
        *("finalizing", "completed_with_failures"),
    ]
    assert "rejects the calls" in manifest(resumed)["failures"][0]["message"]


@pytest.mark.parametrize("answer", [BAD_KEY, WRONG_MODEL, NO_ACCESS])
@pytest.mark.parametrize("rejected", [0, 4, 9])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_record_that_is_rejected_alone_fails_alone(tmp_path: Path, answer: Answer, rejected: int, concurrency: int) -> None:
    script: Script = lambda model, case, time: answer if int(case) == rejected else good(model, case, time)  # noqa: E731
    result, _ = played(tmp_path, script, records=10, concurrency=concurrency)
    assert (result.state, result.counts.evaluated_records) == ("completed_with_failures", 9)
    (failure,) = [line for line in lines(result, "failures.jsonl") if line["status"] == "evaluation_error"]
    assert failure["record_id"] == f"r-{rejected}"


def test_a_request_that_shows_who_is_meant_is_in_the_attempt_log(tmp_path: Path) -> None:
    script: Script = lambda model, case, time: BAD_KEY if int(case) == 2 else good(model, case, time)  # noqa: E731
    result, provider = played(tmp_path, script, records=3, concurrency=1)
    logged = [line for line in lines(result, "attempt_logs.jsonl") if line["call_id"] == "check"]
    assert (len(logged), logged[0]["error_code"]) == (1, None)
    assert provider.calls.total() == 6


def test_a_failed_run_that_is_cancelled_is_sealed(tmp_path: Path) -> None:
    with CountingProvider(candidate_says(BAD_KEY)) as provider:
        job = write_job(tmp_path, provider.base_url, records=5)
        finished(job)
        cancelled = api.cancel("x", runs_dir=job.runs)
    assert (cancelled.state, cancelled.is_finished, cancelled.counts.cancelled_records) == ("cancelled", True, 5)
    assert "no such key" in manifest(cancelled)["failures"][0]["message"]


def test_a_failed_run_is_failed_in_lists_and_reports(tmp_path: Path) -> None:
    result, _ = failed(tmp_path, candidate_says(BAD_KEY), records=5)
    (listed,) = api.list_runs(Path(result.run_dir).parent.parent)
    assert (listed.state, listed.is_interrupted, listed.is_resumable) == ("failed", False, True)
    assert "no such key" in listed.note


def test_a_command_whose_key_is_rejected_ends_with_2_and_says_how_to_resume(tmp_path: Path) -> None:
    with CountingProvider(candidate_says(BAD_KEY)) as provider:
        job = write_job(tmp_path, provider.base_url, records=5)
        done = subprocess.run(job.command("x"), capture_output=True, text=True, check=False)
        shown = subprocess.run(
            [*job.command("x")[:3], "show", "x", "--runs-dir", job.runs], capture_output=True, text=True, check=False
        )
    assert (done.returncode, json.loads(done.stdout)["state"]) == (2, "failed")
    assert "assay: run 'x' has failed: the provider 'stub' rejects the calls" in done.stderr
    assert "hint: when that is fixed: assay resume x" in done.stderr
    assert shown.stdout.startswith("x · failed\n")
    assert shown.stdout.count("no such key") == 1


def test_a_budget_that_is_spent_cancels_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with CountingProvider(lambda model, case, time: good("judge" if "4o-mini" in model else model, case, time)) as provider:
        # Only a public address has a price; the provider plays the proxy that leads there.
        monkeypatch.setenv("http_proxy", provider.base_url.removesuffix("/v1"))
        models = {"candidates": ["azure/gpt-4o"], "judges": ["azure/gpt-4o-mini"], "max_cost": 0.002}
        priced = [{"name": "azure", "kind": "openai", "base_url": "http://eval.openai.azure.com/v1"}]
        result = finished(write_job(tmp_path, provider.base_url, records=60, **models, providers=priced))
    failures = {line["code"] for line in lines(result, "failures.jsonl") if line["status"] == "cancelled"}
    assert (result.state, failures) == ("completed_with_failures", {"budget_exhausted"})
    assert 0 < result.counts.evaluated_records < 30
    assert result.counts.cancelled_records > 20


# Disk and handles


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small disk, or mounts it again with other options."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options: str) -> Path:
        again = "remount," if place.is_mount() else ""
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", again + options, "none", place], capture_output=True, check=False)
        if mounted.returncode:
            pytest.skip("nothing can be mounted here")
        return place

    yield mount
    subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


@pytest.fixture
def steady_job(tmp_path: Path) -> Iterator[Job]:
    """A job, and in the folder `peaceful` what it comes to in peace."""
    with CountingProvider(steady) as provider:
        job = write_job(tmp_path / "job", provider.base_url, records=300)
        finished(job, "peaceful")
        yield job


def moved(job: Job, place: Path) -> Job:
    """The job with its folder on another disk."""
    shutil.copytree(job.folder, place / "job", ignore=shutil.ignore_patterns("runs"))
    return Job(folder=place / "job", concurrency=job.concurrency)


def check_unharmed(job: Job, expected: Job) -> None:
    """The run that was in trouble comes out as if nothing had been."""
    finished(job)
    assert problems_of(job, "x", without_paths(expected, job)) == []


def without_paths(expected: Job, job: Job) -> dict[str, Any]:
    text = json.dumps(stable_artifacts(expected.runs / "peaceful")).replace(str(expected.folder), str(job.folder))
    replaced: dict[str, Any] = json.loads(text)
    hashes = stable_artifacts(job.runs / "x")["run_manifest.json"]
    replaced["run_manifest.json"]["plan_sha256"] = hashes["plan_sha256"]
    return replaced


@pytest.mark.parametrize("size", ["340k", "600k", "1100k"])
def test_a_full_disk_stops_the_run_with_one_line_and_space_lets_it_go_on(
    disk: Callable[[str], Path], steady_job: Job, size: str
) -> None:
    job = moved(steady_job, disk(f"size={size}"))
    with pytest.raises(StoreUnavailable, match=r"full|space|I/O") as caught:
        finished(job)
    assert caught.value.hint
    assert not (job.runs / "x").exists()
    result = api.open_run("x", runs_dir=job.runs).result
    assert (result.state, result.is_resumable, result.is_interrupted) == ("failed", True, False)
    assert re.search("full|space|I/O", result.problem)
    assert str(job.runs) not in result.problem
    disk("size=64m")
    check_unharmed(job, steady_job)
    assert [past["code"] for past in manifest(api.open_run("x", runs_dir=job.runs).result)["failures"]] == ["store_unavailable"]


def test_a_run_that_is_resumed_on_a_full_disk_does_not_wait_for_ever(disk: Callable[[str], Path], steady_job: Job) -> None:
    job = moved(steady_job, disk("size=600k"))
    for _ in range(2):
        with pytest.raises(StoreUnavailable) as caught:
            finished(job)
        assert caught.value.hint.endswith(", then resume the run")
    disk("size=64m")
    check_unharmed(job, steady_job)


def test_a_read_only_folder_is_named_and_nothing_is_called(disk: Callable[[str], Path], steady_job: Job) -> None:
    job = moved(steady_job, disk("size=64m"))
    disk("ro")
    with pytest.raises(StoreUnavailable, match=r"job/runs.*Read-only") as caught:
        finished(job)
    assert caught.value.hint.endswith("writable for this user, or choose another folder with --runs-dir")
    disk("rw")
    check_unharmed(job, steady_job)


def test_a_decision_in_a_read_only_folder_is_not_told_to_resume_a_run(disk: Callable[[str], Path], steady_job: Job) -> None:
    place = disk("size=64m")
    shutil.copytree(steady_job.runs, place / "runs")
    disk("ro")
    for decide in (lambda: api.set_baseline("peaceful", runs_dir=place / "runs"), lambda: gated(place / "runs")):
        with pytest.raises(StoreUnavailable, match=r"audit\.jsonl.*Read-only") as caught:
            decide()
        assert caught.value.hint == "make that place readable and writable for this user, then try again"


def gated(runs: Path) -> None:
    api.gate("peaceful", api.GateSpec(), runs_dir=runs, baseline="none")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("number", [2, 5, 8, 11, 14, 17])
def test_a_failing_fsync_stops_the_run_with_one_line(steady_job: Job, number: int) -> None:
    failing = ["-e", "trace=fsync,fdatasync", "-e", f"inject=fsync,fdatasync:error=EIO:when={number}"]
    command = ["strace", "-f", "-qq", "-o", "/dev/null", *failing, *steady_job.command("x")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert [line[:11] for line in done.stderr.splitlines()[-2:]] == ["assay: cann", "hint: check"]
    check_unharmed(steady_job, steady_job)


def test_too_few_file_handles_are_said_before_any_call(steady_job: Job) -> None:
    limited = ["sh", "-c", 'ulimit -n 20; exec "$@"', "sh", *steady_job.command("x")]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "may open 20 files, and the run needs about 37" in done.stderr
    assert "ulimit -n 37" in done.stderr
    check_unharmed(steady_job, steady_job)
