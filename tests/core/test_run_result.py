"""What is decided about a run that was cancelled: it has not passed, whatever the part that was evaluated reaches."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.run_result import RunResult
from tests.crash.job import VERDICT, Job, write_job
from tests.crash.provider import Answer, CountingProvider

RECORDS = 40


def good(model: str, case: str, _: int) -> Answer:
    return 200, VERDICT if model == "judge" else f"Something about [case {case}].", {}


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(good) as opened:
        yield opened


def cancelled(job: Job, provider: CountingProvider) -> RunResult:
    """A run of which a few records are evaluated when it is cancelled."""
    provider.hold(after=12)
    running = job.start("x")
    provider.wait_for(13, while_alive=running)
    api.cancel("x", runs_dir=job.runs)
    provider.let_go()
    running.communicate()
    result = api.open_run("x", runs_dir=job.runs).result
    assert (result.state, result.counts.evaluated_records > 0) == ("cancelled", True)
    return result


def document(job: Job, name: str, run_id: str = "x") -> Any:
    return json.loads((job.runs / run_id / name).read_bytes())


def why(result: RunResult) -> str:
    return f"the run was cancelled: {result.counts.evaluated_records} of {RECORDS + 2} records were evaluated"


@pytest.mark.parametrize("gates", [{}, {"pass_rate": 0.1}])
def test_a_cancelled_run_has_not_passed_whatever_its_gates(tmp_path: Path, provider: CountingProvider, gates: Any) -> None:
    job = write_job(tmp_path, provider.base_url, records=RECORDS, gates=gates)
    result = cancelled(job, provider)
    decided = {"passed": False, "reasons": [why(result)], "gates": []}
    assert result.to_dict()["gate"] == {"passed": False, "reasons": (why(result),), "gates": ()}
    assert (document(job, "run_manifest.json")["gate"], document(job, "metrics_summary.json")["gate"]) == (decided, decided)
    assert api.replay("x", runs_dir=job.runs) == []
    (listed,) = api.list_runs(job.runs)
    assert (listed.state, listed.passed) == ("cancelled", None)


def test_gates_that_the_evaluated_part_misses_are_named_too(tmp_path: Path, provider: CountingProvider) -> None:
    job = write_job(tmp_path, provider.base_url, records=RECORDS, gates={"min_score": 5})
    result = cancelled(job, provider)
    assert result.gate.reasons == (why(result), "mean score 4.00 is below 5.00")


def test_a_gate_on_a_cancelled_run_fails(tmp_path: Path, provider: CountingProvider) -> None:
    job = write_job(tmp_path, provider.base_url, records=RECORDS, gates={"pass_rate": 0.1})
    result = cancelled(job, provider)
    verdict = api.gate("x", runs_dir=job.runs)
    assert (verdict.word, verdict.passed) == ("WARNING", False)
    count = result.counts.cancelled_records
    assert verdict.reasons[0].reason == f"{count} of {RECORDS + 2} records were cancelled: the run is not complete"


@pytest.mark.parametrize("passed", [True, False])
def test_a_cancelled_run_that_an_earlier_version_sealed_has_not_passed_and_is_replayed(
    tmp_path: Path, provider: CountingProvider, *, passed: bool
) -> None:
    job = write_job(tmp_path, provider.base_url, records=RECORDS, gates={"min_score": 3 if passed else 5})
    result = cancelled(job, provider)
    missed = [] if passed else ["mean score 4.00 is below 5.00"]
    for name in ("run_manifest.json", "metrics_summary.json"):
        path, members = job.runs / "x" / name, document(job, name)
        path.chmod(0o644)
        path.write_text(json.dumps({**members, "gate": {"passed": passed, "reasons": missed}}))
    assert api.open_run("x", runs_dir=job.runs).result.gate.reasons == ((why(result),) if passed else tuple(missed))
    assert not api.open_run("x", runs_dir=job.runs).result.gate.passed
    assert api.replay("x", runs_dir=job.runs) == []


def golden_job(folder: Path, provider: CountingProvider, *, max_error_rate: float) -> Job:
    gates = {"max_error_rate": max_error_rate}
    job = write_job(folder, provider.base_url, records=0, datasets=["golden.json"], gates=gates)
    cases = [{"id": f"c-{n}", "user_prompt": f"Tell me of [case {n}].", "rubric": "It says something."} for n in range(20)]
    (folder / "golden.json").write_text(json.dumps({"version": "1.2.3", "cases": cases}))
    return job


@pytest.mark.parametrize("max_error_rate", [0.0, 1.0])
def test_no_eval_run_says_that_a_cancelled_run_has_passed(
    tmp_path: Path, provider: CountingProvider, max_error_rate: float
) -> None:
    """golden_v1 knows no cancel: where its formula passes what was evaluated, there is no EvalRun to say so."""
    job = golden_job(tmp_path, provider, max_error_rate=max_error_rate)
    assert not cancelled(job, provider).gate.passed
    assert not (job.runs / "x" / "eval_results.json").exists()
    assert api.verify("x", runs_dir=job.runs) == []
