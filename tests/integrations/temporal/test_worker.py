"""What becomes of a run when its workers are stopped or lack something: nothing is lost, and nothing is done twice."""

import json
import signal
from pathlib import Path

import pytest

from tests.crash.provider import error
from tests.engine.run_settings import mcq_row, write_rows
from tests.integrations.temporal.machines import PATIENCE, Plant, TemporalProcess, finished, until

pytestmark = pytest.mark.xdist_group("temporal")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_is_told_to_stop_finishes_its_calls_and_hands_its_shards_back(site: Plant, number: int) -> None:
    with site.worker("leaves", "--shards", "1") as leaves:
        starting = site.begin(f"relay-{number}")
        leaves.send(number)
        until(lambda: "a second signal stops at once" in leaves.log.read_text(encoding="utf-8"))
        site.provider.let_go()
        assert leaves.process.wait(PATIENCE) == 0
        with site.worker("comes"):
            finished(starting)
    assert site.problems(f"relay-{number}") == []
    assert site.repeated == 0


def test_a_namespace_that_is_not_there_is_told_before_any_work_is_promised(site: Plant) -> None:
    with site.worker("lost", "--temporal-namespace", "nowhere") as lost:
        assert lost.process.wait(PATIENCE) == 2
    told = lost.log.read_text(encoding="utf-8")
    assert "has no namespace 'nowhere'" in told
    assert "takes work from" not in told
    assert told.count("\n") <= 2


def test_a_worker_says_when_the_server_is_away_and_when_it_is_back(site: Plant, temporal: TemporalProcess) -> None:
    with site.worker("patient") as worker:
        temporal.kill()
        try:
            until(lambda: "no Temporal server answers" in worker.log.read_text(encoding="utf-8"))
        finally:
            temporal.start()
        until(lambda: "answers again" in worker.log.read_text(encoding="utf-8"))
    assert worker.log.read_text(encoding="utf-8").count("\n") == 3


def test_what_will_never_be_well_on_a_worker_ends_the_run_and_is_told(busy: Plant) -> None:
    busy.write_run_file("cached.json", cache={"dir": str(busy.folder / "run.json" / "cache")})
    starting = busy.start("cached", "--limit", "20", file="cached.json")
    _, complained = starting.communicate(timeout=PATIENCE)
    assert starting.returncode == 2
    assert "run.json/cache" in complained
    assert "Not a directory" in complained


def test_a_worker_that_is_told_twice_stops_at_once(site: Plant) -> None:
    with site.worker("leaves at once") as leaves:
        site.begin("dropped", calls=0)
        leaves.send(signal.SIGTERM)
        until(lambda: "a second signal stops at once" in leaves.log.read_text(encoding="utf-8"))
        leaves.send(signal.SIGTERM)
        assert leaves.process.wait(PATIENCE) == 130
    assert "Traceback" not in leaves.log.read_text(encoding="utf-8")


def test_what_a_worker_lacks_is_told_with_its_name_and_the_run_goes_on_when_it_is_mended(site: Plant) -> None:
    site.write_run_file("keyed.json", providers=[{"name": "stub", "base_url": site.provider.base_url, "key_variable": "PLANT_KEY"}])
    starting = site.start("keyed", "--limit", "20", file="keyed.json", PLANT_KEY="secret")
    with site.worker("poor") as poor:
        _, complained = starting.communicate(timeout=PATIENCE)
    assert starting.returncode == 2
    assert "environment variable PLANT_KEY" in complained
    assert f":{poor.process.pid})" in complained
    assert "Traceback" not in poor.log.read_text(encoding="utf-8")
    assert "environment variable PLANT_KEY" in site.assay("show", "keyed").stdout
    with site.worker("rich", PLANT_KEY="secret"):
        assert json.loads(site.assay("resume", "keyed", "--json").stdout)["counts"]["evaluated_records"] == 16


def test_a_key_that_is_rejected_fails_the_run_of_all_workers_and_a_resumed_one_completes(site: Plant) -> None:
    good = site.provider.script
    site.provider.script = lambda *_: (401, error("no such key", kind="authentication_error"), {})
    try:
        with site.worker("rejected"):
            starting = site.start("rejected", "--limit", "20")
            said, complained = starting.communicate(timeout=PATIENCE)
            assert (starting.returncode, json.loads(said)["state"]) == (2, "failed")
            assert "'stub' rejects the calls to 'stub/candidate'" in complained
            assert json.loads(said)["counts"]["evaluated_records"] == 0
            site.provider.script = good
            resumed = json.loads(site.assay("resume", "rejected", "--json").stdout)
            assert (resumed["state"], resumed["counts"]["evaluated_records"]) == ("completed_with_failures", 16)
    finally:
        site.provider.script = good


def test_an_attachment_that_a_worker_does_not_see_is_no_fault_of_its_record(site: Plant, tmp_path: Path) -> None:
    attached, away = tmp_path / "note.txt", tmp_path / "away.txt"
    attached.write_text("It is so.", encoding="utf-8")
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("q", attachments=[{"path": "note.txt"}]))
    starting = site.start("blind", "--model", "scripted/say-A", file=str(dataset))
    until(lambda: "running" in site.assay("show", "blind").stdout)
    attached.rename(away)
    with site.worker("blind"):
        _, complained = starting.communicate(timeout=PATIENCE)
        assert starting.returncode == 2
        assert "the attachment 'note.txt' cannot be read" in complained
        away.rename(attached)
        resumed = site.assay("resume", "blind", "--json")
    assert json.loads(resumed.stdout)["counts"]["evaluated_records"] == 1
