"""The short form of `python -m tests.chaos`: a worker is killed, PostgreSQL restarted and a worker frozen, all in one run."""

import random
from pathlib import Path

import pytest

from tests.chaos.faults import HEARTBEAT_TIMEOUT, Fault, Trial, freeze_worker, kill_worker
from tests.chaos.fleet import Setting, standing_fleet
from tests.chaos.trials import tried
from tests.integrations.temporal.machines import TemporalProcess
from tests.store.databases import Database

pytestmark = pytest.mark.xdist_group("temporal")


def strike_thrice(trial: Trial) -> int:
    """Two of three workers are gone for longer than anybody waits for them."""
    lost = kill_worker(trial)
    # There is work left when the others are there and one of them is frozen, however long that takes.
    trial.fleet.provider.hold()
    trial.fleet.complete()
    trial.fleet.database.restart_at_once()
    return lost + freeze_worker(trial, seconds=1.2 * HEARTBEAT_TIMEOUT, then=trial.fleet.provider.let_go)


def test_a_run_that_is_struck_ends_like_one_in_peace(tmp_path: Path, temporal: TemporalProcess, database: Database) -> None:
    setting = Setting(workers=2, records=500, concurrency=16)
    fault = Fault(strike=strike_thrice, because="one worker is killed and one frozen")
    with standing_fleet(tmp_path, temporal, database, setting) as fleet:
        found = tried(fleet, "struck", random.Random(1), fault=fault)
    assert found.problems == []
    assert (found.lost, found.duplicated) == (0, 0)
