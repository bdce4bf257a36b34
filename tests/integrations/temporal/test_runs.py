"""Runs that several workers evaluate: the same artifacts as on one machine, whoever watches and however they are ended."""

import json
import signal
import socket

import pytest

from tests.integrations.temporal.conftest import RECORDS
from tests.integrations.temporal.machines import PATIENCE, Plant, finished, told, until

pytestmark = pytest.mark.xdist_group("temporal")


def test_two_workers_leave_the_artifacts_of_one_machine(busy: Plant) -> None:
    printed, said = busy.start("there").communicate()
    result = json.loads(printed)
    assert result["state"] == "completed_with_failures"
    assert "{0:,}/{0:,} records".format(result["counts"]["total_records"]) in said
    assert busy.problems("there") == []
    assert busy.repeated == 0
    # Temporal knows ids, and nothing of the records.
    history = told(busy, "workflow", "show", "--workflow-id", "there", "--output", "json")
    assert "evaluate_shard" in history
    assert "[case" not in history


def test_ctrl_c_stops_watching_only_and_says_how_to_go_on(busy: Plant) -> None:
    starting = busy.begin("unwatched")
    starting.send_signal(signal.SIGINT)
    _, complained = starting.communicate()
    busy.provider.let_go()
    assert starting.returncode == 130
    assert "the workers continue" in complained
    assert [word for word in ("show", "resume", "cancel") if f"assay {word} unwatched" not in complained] == []
    resumed = busy.assay("resume", "unwatched")
    assert resumed.returncode == 0, resumed.stderr
    assert busy.problems("unwatched") == []


def test_a_run_goes_on_without_whoever_started_it(busy: Plant) -> None:
    busy.begin("orphan").kill()
    busy.provider.let_go()
    until(lambda: (busy.runs / "orphan").is_dir() and not (busy.runs / ".active" / "orphan").is_dir())
    assert busy.problems("orphan") == []
    assert busy.repeated == 0


def test_who_watches_from_another_folder_is_told_where_the_run_has_ended(busy: Plant) -> None:
    watching = [busy.start("watched"), busy.start("watched", "--runs-dir", str(busy.folder / "other"))]
    complained = [process.communicate(timeout=PATIENCE)[1] for process in watching]
    assert [process.returncode for process in watching] == [0, 2]
    assert f"run 'watched' has ended on another machine, and its artifacts are there: {socket.gethostname()}:" in complained[1]


def test_workers_evaluate_what_is_retried(busy: Plant) -> None:
    finished(busy.start("flawed", "--limit", "8"))
    busy.provider.calls.clear()
    where = busy.where[: busy.where.index("--runs-dir")]
    retried = busy.assay("retry", "flawed", "--run-id", "again", "--engine", "temporal", *where)
    assert "the records of flawed with an error" in retried.stdout, retried.stderr
    assert "evaluate_shard" in told(busy, "workflow", "show", "--workflow-id", "again", "--output", "json")
    assert {case for _, case in busy.provider.calls} == {"3", "5", "7"}


def test_a_cancelled_run_keeps_what_is_done(busy: Plant) -> None:
    starting = busy.begin("enough")
    cancelled = busy.assay("cancel", "enough")
    busy.provider.let_go()
    result = finished(starting)
    assert cancelled.returncode == 0, cancelled.stderr
    assert result["state"] == "cancelled"
    assert result["counts"]["evaluated_records"] > 0
    assert 0 < result["counts"]["cancelled_records"] < RECORDS


def test_a_run_whose_workflow_is_cancelled_is_cancelled(busy: Plant) -> None:
    starting = busy.begin("elsewhere")
    told(busy, "workflow", "cancel", "--workflow-id", "elsewhere")
    busy.provider.let_go()
    result = finished(starting)
    assert result["state"] == "cancelled"
    assert result["counts"]["evaluated_records"] > 0


def test_a_budget_is_kept_over_all_workers(site: Plant) -> None:
    # Only a public address has a price; the provider plays the proxy that leads there.
    priced = [{"name": "azure", "kind": "openai", "base_url": "http://eval.openai.azure.com/v1"}]
    site.write_run_file("priced.json", candidates=["azure/gpt-4o"], judges=["azure/gpt-4o-mini"], providers=priced, max_cost=0.015)
    site.provider.latency = 0.1
    proxy = {"http_proxy": site.provider.base_url.removesuffix("/v1")}
    with site.worker("one", "--shards", "1", **proxy), site.worker("two", "--shards", "1", **proxy):
        result = finished(site.start("spent", file="priced.json"))
    assert result["counts"]["cancelled_records"] > 0
    # Each of them alone would have spent as much.
    assert 0.015 <= result["metrics"]["cost_usd"]["sum"] < 2 * 0.015


def test_a_run_without_workers_says_so(site: Plant) -> None:
    started = site.start("lonely", "--limit", "5")
    assert started.stderr is not None
    told = next(line for line in started.stderr if "no worker takes work" in line)
    assert f"the task queue '{site.queue}'" in told


def test_a_run_whose_workflow_was_ended_says_how_to_go_on(site: Plant) -> None:
    started = site.start("ended", "--limit", "5")
    assert started.stderr is not None
    next(line for line in started.stderr if "no worker takes work" in line)
    told(site, "workflow", "terminate", "--workflow-id", "ended")
    _, complained = started.communicate(timeout=PATIENCE)
    assert started.returncode == 2
    assert "assay resume ended" in complained
