"""Runs are handed to one Temporal server, and only to one that is there: anything else is said before something is written."""

import subprocess
import sys

import psycopg
import pytest

from assay.store.ledgers import shared_ledgers
from tests.integrations.temporal.machines import PATIENCE, Plant, finished, told, until
from tests.surfaces.server.serving import free_port

pytestmark = pytest.mark.xdist_group("temporal")

WITHOUT = "import sys; sys.modules['temporalio'] = None; from assay.surfaces.cli.main import main; main()"


def is_written(site: Plant, run_id: str) -> bool:
    """True when anything is left of a run."""
    shared_ledgers(site.ledger).close()
    with psycopg.connect(site.ledger) as database:
        rows = database.execute("SELECT FROM run WHERE run_id = %s", (run_id,)).fetchall()
    return bool(rows) or (site.runs / ".active" / run_id).exists()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--temporal", f"127.0.0.1:{free_port()}", "no Temporal server answers at"),
        ("--temporal-namespace", "nowhere", "has no namespace 'nowhere'"),
    ],
    ids=["address", "namespace"],
)
def test_a_server_that_is_not_there_is_found_out_before_anything_is_written(
    plant: Plant, option: str, value: str, said: str
) -> None:
    starting = plant.start("early", option, value)
    _, complained = starting.communicate(timeout=PATIENCE)
    assert starting.returncode == 2
    assert said in complained
    assert not is_written(plant, "early")


def test_a_missing_extra_is_found_out_before_anything_is_written(plant: Plant) -> None:
    given = ["run", str(plant.folder / "run.json"), "--engine", "temporal", "--run-id", "bare", *plant.where]
    ended = subprocess.run([sys.executable, "-c", WITHOUT, *given], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ended.returncode == 2
    assert "the engine needs temporalio\n" in ended.stderr
    assert not is_written(plant, "bare")


def test_a_run_under_way_stays_with_its_server_whatever_that_is_called(site: Plant) -> None:
    first = site.start("faithful", "--limit", "20")
    until(lambda: "faithful" in told(site, "workflow", "list"))
    # Every server has a namespace of its own besides.
    elsewhere = site.start("faithful", "--limit", "20", "--temporal-namespace", "temporal-system")
    _, complained = elsewhere.communicate(timeout=PATIENCE)
    assert elsewhere.returncode == 2
    assert f"the workers at {site.temporal} (namespace 'default') work on run 'faithful'" in complained
    again = site.start("faithful", "--limit", "20", "--temporal", site.temporal.replace("127.0.0.1", "localhost"))
    with site.worker("only"):
        assert finished(first)["state"] == finished(again)["state"] == "completed_with_failures"
