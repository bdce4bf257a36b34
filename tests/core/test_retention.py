"""How long a run is kept can be set; the manifest states it, and a purge follows it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.core.retention import RetentionSettings, longest_retention
from assay.store.artifacts import MANIFEST
from assay.store.retention import AGGREGATE
from tests.commands import assay as command
from tests.surfaces.server.serving import Serving, dataset

DAY = 86_400.0
RUN_FILE = "datasets: [data.json]\ncandidates: [scripted/echo]\njudges: [scripted/judge-5]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset."""
    monkeypatch.chdir(tmp_path)
    Path("data.json").write_text(json.dumps(dataset(2)), encoding="utf-8")
    return tmp_path


def finished(section: str = "", **options: Any) -> Path:
    """The folder of a run whose run file has this section."""
    Path("run.yaml").write_text(f"{RUN_FILE}{section}", encoding="utf-8")
    (result,) = api.run("run.yaml", runs_dir="runs", **options)
    return Path(result.run_dir)


def manifest_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / MANIFEST).read_bytes())
    return found


def removed(run: Path, days: float) -> tuple[str, ...]:
    """What a purge would remove so many days after the end of a run."""
    ended = datetime.fromisoformat(manifest_of(run)["completed_at"]).timestamp()
    return tuple(name for entry in api.purge("runs", is_dry=True, now=ended + days * DAY) for name in entry.artifacts)


def stated(run: Path) -> tuple[float, float]:
    retention = manifest_of(run)["retention"]
    return retention["raw_days"], retention["aggregate_days"]


def test_without_a_setting_it_is_what_the_contract_demands() -> None:
    run = finished()
    assert stated(run) == (30, 180)
    assert (removed(run, 29.9), "predictions.jsonl" in removed(run, 30)) == ((), True)
    assert (AGGREGATE[0] in removed(run, 179.9), AGGREGATE[0] in removed(run, 180)) == (False, True)


def test_run_file_keeps_longer_and_the_manifest_and_a_purge_follow_it() -> None:
    run = finished("retention: {raw_days: 90, aggregate_days: 365}\n")
    assert stated(run) == (90, 365)
    assert (removed(run, 89.9), "predictions.jsonl" in removed(run, 90), AGGREGATE[0] in removed(run, 364)) == ((), True, False)
    ended = datetime.fromisoformat(manifest_of(run)["completed_at"]).timestamp()
    with pytest.raises(UsageProblem, match="may be removed yet"):
        api.purge("runs", run_name=run.name, now=ended + 60 * DAY)
    api.purge("runs", now=ended + 91 * DAY)
    assert not (run / "predictions.jsonl").exists()
    assert command("verify", run.name, "--runs-dir", "runs").exit_code == 0


def test_fewer_days_are_refused_unless_they_are_allowed() -> None:
    with pytest.raises(api.PlanProblems, match=r"run.yaml:4:\d+: retention of 7 and 180 days is too short .*allow_shorter: true"):
        finished("retention: {raw_days: 7}\n")
    run = finished("retention: {raw_days: 7, allow_shorter: true}\n")
    assert stated(run) == (7, 180)
    assert (removed(run, 6.9), "predictions.jsonl" in removed(run, 7)) == ((), True)


def test_environment_keeps_longer_when_a_run_is_made_and_when_it_is_purged(monkeypatch: pytest.MonkeyPatch) -> None:
    before = finished()
    monkeypatch.setenv("ASSAY_RETENTION_RAW_DAYS", "60")
    run = finished("retention: {raw_days: 45}\n")
    assert stated(run) == (60, 180)
    assert (removed(before, 59.9), "predictions.jsonl" in removed(before, 60.1)) == ((), True)
    monkeypatch.delenv("ASSAY_RETENTION_RAW_DAYS")
    assert set(removed(run, 59)) == set(removed(before, 59)) != ()


def test_environment_that_wants_less_needs_a_switch_and_shortens_no_run_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = finished()
    monkeypatch.setenv("ASSAY_RETENTION_RAW_DAYS", "7")
    for call in (finished, lambda: api.purge("runs")):
        with pytest.raises(UsageProblem, match="too short"):
            call()
    monkeypatch.setenv("ASSAY_RETENTION_ALLOW_SHORTER", "true")
    assert removed(before, 8) == ()
    assert stated(finished()) == (7, 180)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("RAW_DAYS", "a month"), ("AGGREGATE_DAYS", "-1"), ("RAW_DAYS", "nan"), ("RAW_DAYS", "inf"), ("ALLOW_SHORTER", "perhaps")],
)
def test_wrong_variable_is_named(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ASSAY_RETENTION_{variable}", value)
    with pytest.raises(UsageProblem, match=f"ASSAY_RETENTION_{variable} is '{value}'"):
        finished()
    assert f"ASSAY_RETENTION_{variable}" in command("purge", "--runs-dir", "runs").stderr


def test_wrong_section_is_reported_with_its_place() -> None:
    with pytest.raises(api.PlanProblems, match=r"run.yaml:4:23: retention.raw_days must be a number"):
        finished("retention: {raw_days: a month}\n")


def test_python_takes_it_as_an_option() -> None:
    assert stated(finished(retention={"raw_days": 40})) == (40, 180)
    with pytest.raises(api.PlanProblems, match="retention: "):
        finished(retention={"days": 40})


def test_the_plan_states_it_too_so_that_rescored_and_repeated_runs_take_it_over() -> None:
    run = finished("retention: {raw_days: 90}\n")
    plan = manifest_of(run)["plan"]
    assert plan["retention"] == {"raw_days": 90.0, "aggregate_days": 180, "allow_shorter": False}


def test_a_run_is_resumed_whatever_the_retention_is_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished(run_id="same")
    monkeypatch.setenv("ASSAY_RETENTION_RAW_DAYS", "60")
    assert finished(run_id="same") == run


def test_server_states_its_own_for_the_runs_that_are_submitted_to_it(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with Serving(tmp_path / "served", settings="retention: {raw_days: 90, aggregate_days: 400}\n") as serving:
        run_id = serving.submit(dataset(1)).json["run_id"]
        serving.ended(run_id)
        manifest = serving.ask("GET", f"/v1/runs/{run_id}/artifacts/{MANIFEST}").json
    assert (manifest["retention"]["raw_days"], manifest["retention"]["aggregate_days"]) == (90, 400)


def test_server_does_not_start_with_fewer_days_than_the_contract_demands(tmp_path: Path) -> None:
    Path("server.yaml").write_text("retention: {raw_days: 3}\n", encoding="utf-8")
    result = command("serve", "--config", "server.yaml", "--port", "0", "--runs-dir", str(tmp_path / "runs"))
    assert (result.exit_code, "retention of 3 and 180 days is too short" in result.stderr) == (2, True)


def test_the_longest_of_what_is_set_counts() -> None:
    found = longest_retention(RetentionSettings(raw_days=40), RetentionSettings(aggregate_days=200), RetentionSettings(raw_days=35))
    assert (found.raw_days, found.aggregate_days) == (40, 200)
