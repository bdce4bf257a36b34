"""Runs with several judges: what artifacts keep of their votes, and what happens when one of them cannot be reached."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay import api
from assay.core.errors import RunSealed
from assay.core.run_result import RunResult
from assay.engine.planning.request import RunRequest
from assay.surfaces.cli.program import program
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import Job, write_job
from tests.crash.provider import Answer, CountingProvider, error
from tests.engine.run_settings import planned, write_golden
from tests.engine.run_settings import problems_of as plan_problems
from tests.surfaces.server.serving import Serving

Lines = list[dict[str, Any]]
THREE = ("scripted/judge-2", "scripted/judge-3", "scripted/judge-5")


def run(folder: Path, judges: tuple[str, ...] = THREE, run_id: str = "x", **options: Any) -> RunResult:
    source = write_golden(folder / "golden.json")
    (result,) = api.run(source, model="scripted/echo", judges=judges, run_id=run_id, runs_dir=str(folder / "runs"), **options)
    return result


def lines(result: RunResult, name: str = "predictions.jsonl") -> Lines:
    return [json.loads(line) for line in (Path(result.run_dir) / name).read_text().splitlines()]


def test_a_run_keeps_every_vote_and_how_it_was_decided(tmp_path: Path) -> None:
    line = lines(run(tmp_path))[0]
    assert [(score["judge"], score["score"]) for score in line["evaluator_scores"]] == list(
        zip(THREE, (2.0, 3.0, 5.0), strict=True)
    )
    assert line["panel"][0]["words"] == "judges say 2, 3, 5; the middle vote counts"


def test_a_run_with_one_judge_says_nothing_of_a_panel(tmp_path: Path) -> None:
    result = run(tmp_path, THREE[:1])
    assert "panel" not in lines(result)[0]
    assert not {"panel", "judges"} & set(result.metrics)


def test_metrics_of_a_panel_are_replayed_from_the_artifacts(tmp_path: Path) -> None:
    result = run(tmp_path, repeat=2)
    assert [entry["judge"] for entry in result.metrics["judges"]] == list(THREE)
    assert [entry["agreement"]["value"] for entry in result.metrics["judges"]] == [0.0, 1.0, 0.0]
    assert api.replay("x", runs_dir=tmp_path / "runs") == []


def test_disagreements_are_listed_with_every_vote_the_widest_apart_first(tmp_path: Path) -> None:
    run(tmp_path, ("scripted/judge-any", "scripted/judge-5"))
    found = api.open_run("x", runs_dir=tmp_path / "runs").disagreements()
    spreads = [entry.spread for entry in found]
    assert spreads == sorted(spreads, reverse=True)
    assert {len(entry.votes) for entry in found} == {2}
    assert all("lower one counts" in entry.words for entry in found)


def test_a_judge_alone_disagrees_with_nobody(tmp_path: Path) -> None:
    run(tmp_path, ("scripted/judge-4", "scripted/judge-5"))
    assert len(api.open_run("x", runs_dir=tmp_path / "runs").disagreements()) == 5
    run(tmp_path, ("scripted/judge-5",), run_id="alone")
    assert api.open_run("alone", runs_dir=tmp_path / "runs").disagreements() == []


def test_escalation_asks_the_others_only_where_the_first_is_unsure(tmp_path: Path) -> None:
    sure = run(tmp_path, ("scripted/judge-5", "scripted/judge-1"), "sure", escalate=True)
    unsure = run(tmp_path, ("scripted/judge-3", "scripted/judge-1"), "unsure", escalate=True)
    assert (sure.metrics["panel"]["n_escalated"], sure.metrics["panel"]["n_calls_saved"]) == (0, 5)
    assert (unsure.metrics["panel"]["n_escalated"], unsure.metrics["panel"]["n_calls_saved"]) == (5, 0)
    assert [entry["n_calls"] for entry in sure.metrics["judges"]] == [5, 0]
    assert api.replay("sure", runs_dir=tmp_path / "runs") == []


# A judge who cannot be reached


def one_judge_down(model: str, case: str, _: int) -> Answer:
    """One of three judges refuses some cases for good, and another one is overloaded for a while."""
    if not model.startswith("judge"):
        return 200, f"About [case {case}].", {}
    if model == "judge-b" and int(case) % 2:
        return 400, error("not like this", kind="invalid_request_error"), {}
    score = 4 if model == "judge-a" else 5
    return 200, json.dumps({"score": score, "justification": "It will do."}), {}


def panel_job(folder: Path, provider: CountingProvider, **panel: Any) -> Job:
    judges = [{"model": f"stub/judge-{name}"} for name in "abc"]
    return write_job(folder, provider.base_url, records=12, judges=judges, panel=panel)


def finished(job: Job, run_id: str = "x") -> RunResult:
    (result,) = api.run(job.folder / "run.json", run_id=run_id, runs_dir=str(job.runs))
    return result


def test_a_record_fails_without_a_score_when_one_judge_cannot_be_reached(tmp_path: Path) -> None:
    with CountingProvider(one_judge_down) as provider:
        result = finished(panel_job(tmp_path, provider))
    assert (result.counts.evaluated_records, result.counts.failed_records) == (6, 6 + 2)
    assert {line["score"] for line in lines(result) if line["error_code"]} == {None}


def test_with_a_quorum_the_others_decide_and_the_lost_vote_is_told(tmp_path: Path) -> None:
    with CountingProvider(one_judge_down) as provider:
        result = finished(panel_job(tmp_path, provider, quorum=2))
    lost = [line for line in lines(result) if "vote_lost" in line["flags"]]
    assert (result.counts.evaluated_records, len(lost)) == (12, 6)
    assert lost[0]["panel"][0]["missing"] == ["stub/judge-b"]
    judge = next(entry for entry in result.metrics["judges"] if entry["judge"] == "stub/judge-b")
    assert (judge["n_votes"], judge["n_lost"], judge["n_failed_calls"], result.metrics["panel"]["n_vote_lost"]) == (6, 6, 6, 6)
    assert api.replay("x", runs_dir=tmp_path / "runs") == []


# A provider that takes no more calls


def one_key_refused(model: str, case: str, _: int) -> Answer:
    if model == "judge-b":
        return 401, error("no such key"), {}
    return one_judge_down("judge-a" if model.startswith("judge") else model, case, 1)


def two_houses_job(folder: Path, provider: CountingProvider, judges: str, **panel: Any) -> Job:
    """The judge b is at a provider of its own, though behind the same address."""
    names = [{"model": f"{'other' if name == 'b' else 'stub'}/judge-{name}"} for name in judges]
    houses = [{"name": name, "base_url": provider.base_url} for name in ("stub", "other")]
    return write_job(folder, provider.base_url, records=30, judges=names, providers=houses, panel=panel)


def test_a_judge_that_is_rejected_fails_the_run_whatever_the_quorum(tmp_path: Path) -> None:
    with CountingProvider(one_key_refused) as provider:
        job = two_houses_job(tmp_path, provider, "abc", quorum=2)
        result = finished(job)
        assert (result.state, result.is_resumable, result.counts.failed_records) == ("failed", True, 2)
        assert "the provider 'other' rejects the calls to 'other/judge-b'" in result.problem
        asked = provider.calls.total()
        provider.script = lambda model, case, _: one_key_refused("judge-a" if model == "judge-b" else model, case, 1)
        completed = finished(job)
    assert (completed.state, completed.counts.evaluated_records) == ("completed_with_failures", 30)
    assert {len(line["evaluator_scores"]) for line in lines(completed)} == {3}
    assert asked < 30 * 4
    assert api.replay("x", runs_dir=tmp_path / "runs") == []


def test_a_prediction_says_what_each_judge_cost(tmp_path: Path) -> None:
    first = lines(run(tmp_path))[0]
    assert first["judge_costs"] == dict.fromkeys(THREE, 0.0)
    assert "judge_costs" not in lines(run(tmp_path, THREE[:1], "alone"))[0]
    saved = lines(run(tmp_path, ("scripted/judge-5", "scripted/judge-1"), "sure", escalate=True))[0]
    assert saved["judge_costs"] == {"scripted/judge-5": 0.0}


def test_a_killed_run_does_not_ask_a_judge_again_whose_vote_was_lost(tmp_path: Path) -> None:
    with CountingProvider(one_judge_down, latency=0.01) as provider:
        job = panel_job(tmp_path, provider, quorum=2)
        finished(job, "peaceful")
        expected, calls = stable_artifacts(job.runs / "peaceful"), provider.calls.total()
        provider.hold(after=20)
        killed = job.start("x")
        provider.wait_for(calls + 21, while_alive=killed)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        provider.let_go()
        finished(job)
    assert problems_of(job, "x", expected) == []
    assert provider.calls.total() - 2 * calls <= job.concurrency


# Settings


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"quorum": 4}, "--quorum: 4 judges must vote, but the run has 3"),
        ({"escalate": True, "judges": THREE[:1]}, "--escalate: there is no judge to escalate to; name at least two judges"),
    ],
)
def test_a_panel_that_cannot_decide_is_found_before_any_call(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    source = str(write_golden(tmp_path / "golden.json"))
    assert plan_problems(RunRequest(**{"datasets": (source,), "models": ("scripted/echo",), "judges": THREE, **options})) == (
        problem,
    )


def test_an_option_keeps_the_rest_of_the_panel_in_the_run_file(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    members = {"datasets": [write_golden(tmp_path / "golden.json").name], "panel": {"quorum": 2, "min_confidence": 0.5}}
    file.write_text(json.dumps(members))
    (plan,) = planned(RunRequest(run_file=str(file), models=("scripted/echo",), judges=THREE, escalate=True)).plans
    assert (plan.panel.quorum, plan.panel.min_confidence, plan.panel.escalate) == (2, 0.5, True)


def test_how_a_panel_decides_is_part_of_the_settings(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(RunSealed, match=r"other settings \(panel\)"):
        run(tmp_path, quorum=2)


# A judge that fails


def failing_panel(folder: Path) -> RunResult:
    """A panel of two, of which the second fails on every record."""

    def script(model: str, case: str, time: int) -> Answer:
        return (503, error("overloaded"), {}) if model == "judge-b" else one_judge_down(model, case, time)

    with CountingProvider(script) as provider:
        judges = [{"model": f"stub/judge-{name}"} for name in "ab"]
        return finished(write_job(folder, provider.base_url, records=2, judges=judges))


def test_the_vote_of_the_other_judge_is_kept_when_one_fails(tmp_path: Path) -> None:
    result = failing_panel(tmp_path)
    for line in lines(result):
        assert (line["status"], line["score"], line["passed"], line["panel"]) == ("evaluation_error", None, None, [])
        assert line["error_code"] == "service_unavailable"
        assert line["error_message"].startswith("judge stub/judge-b: service_unavailable after 3 attempts: ")
        (vote,) = line["evaluator_scores"]
        assert (vote["judge"], vote["score"], bool(vote["justification"])) == ("stub/judge-a", 4.0, True)
    assert result.metrics["n_scored"] == 0
    assert api.replay("x", runs_dir=tmp_path / "runs") == []


@pytest.mark.parametrize(
    "command",
    [
        ("show", "x", "r-0"),
        *(("export", "x", "-o", "-", "--format", kind) for kind in ("csv", "json", "jsonl")),
    ],
)
def test_the_vote_that_is_kept_is_in_every_export_and_report(tmp_path: Path, command: tuple[str, ...]) -> None:
    failing_panel(tmp_path)
    shown = CliRunner().invoke(program, [*command, "--runs-dir", str(tmp_path / "runs")])
    text = " ".join(shown.stdout.split())
    assert shown.exit_code == 0, shown.output
    assert "It will do." in text
    assert "stub/judge-a" in text
    assert "judge stub/judge-b" in text
    assert "after 3 attempts: HTTP 503" in text


def test_the_vote_that_is_kept_is_the_justification_of_an_eval_result(tmp_path: Path) -> None:
    with CountingProvider(lambda *_: (400, error("no such size"), {})) as provider:
        settings = {
            "datasets": [str(write_golden(tmp_path / "golden.json"))],
            "candidates": ["scripted/echo"],
            "judges": ["scripted/judge-4", "stub/judge-b"],
            "providers": [{"name": "stub", "base_url": provider.base_url}],
        }
        (tmp_path / "run.yaml").write_text(json.dumps(settings), encoding="utf-8")
        (result,) = api.run(str(tmp_path / "run.yaml"), run_id="x", runs_dir=str(tmp_path / "runs"))
    told = json.loads((Path(result.run_dir) / "eval_results.json").read_bytes())["results"]
    for line, one in zip(lines(result), told, strict=True):
        assert one["score"] is None
        assert one["justification"] == "rubric (scripted/judge-4): 4. The script gives every answer the score 4."
        assert one["error"].startswith(f"{line['error_code']}: judge stub/judge-b: ")
        assert one["error"].count(line["error_code"]) == 1


def test_a_judge_that_fails_alone_is_named_too(tmp_path: Path) -> None:
    with CountingProvider(lambda model, *_: (503, error("overloaded"), {}) if model == "judge" else (200, "x", {})) as provider:
        (line, *_) = lines(finished(write_job(tmp_path, provider.base_url, records=1)))
    assert line["error_message"].startswith("judge stub/judge: service_unavailable after 3 attempts: HTTP 503")


def test_the_vote_that_is_kept_is_on_the_page_of_its_record(tmp_path: Path) -> None:
    failing_panel(tmp_path)
    with Serving(tmp_path) as serving:
        page = serving.ask("GET", "/runs/x/records/0").body.decode()
    assert "It will do." in page
    assert "judge stub/judge-b after 3 attempts" in page
