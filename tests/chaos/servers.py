"""Two API servers over one ledger, of which the one that drives a run is killed."""

import json
import random
import time
from pathlib import Path

from tests.chaos.faults import Wound
from tests.chaos.fleet import PATIENCE, Fleet
from tests.chaos.trials import Finding, counted, recovery_of
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import Job
from tests.server.serving import Serving
from tests.temporal.machines import until


def server_killed(fleet: Fleet, run_id: str, chance: random.Random) -> Finding:
    """kill -9 of the server that drives a run; another one goes on with it."""
    folder = fleet.site.folder / f"servers-{run_id}"
    folder.mkdir()
    job = Job(folder=folder)
    with _server(fleet, folder) as first, _server(fleet, folder) as second:
        peaceful = _peaceful(fleet, first)
        begun = time.monotonic()
        named = _submitted(fleet, first)
        moment = round(chance.uniform(0.05, 0.4) * fleet.bench.calls.total())
        until(lambda: len(fleet.provider.heard) >= moment, patience=PATIENCE)
        first.kill()
        wound = Wound(time.monotonic(), settle=0.5)
        second.ended(named)
        found = counted(fleet, job.runs / named)
        # The path of an upload has the id of its run in it.
        expected = json.loads(json.dumps(stable_artifacts(job.runs / peaceful)).replace(peaceful, named))
        found.problems = problems_of(job, named, expected)
    found.allow(fleet.setting.concurrency, because="a dead server takes one call for each of its seats with it, and it has all")
    found.recovery, found.seconds = recovery_of([wound], fleet.provider.heard), time.monotonic() - begun
    return found


def _server(fleet: Fleet, folder: Path) -> Serving:
    run_file = json.loads((fleet.site.folder / "run.json").read_text(encoding="utf-8"))
    del run_file["datasets"]
    settings = "requests_per_minute: 100000\nmax_runs: 2\n"
    return Serving(folder, settings=settings, run_file=json.dumps(run_file), options=("--ledger", fleet.database.address))


def _submitted(fleet: Fleet, server: Serving) -> str:
    fleet.provider.calls.clear()
    fleet.provider.heard.clear()
    answer = server.submit((fleet.site.folder / "dataset.json").read_bytes())
    assert answer.status == 202, answer.body
    return str(answer.json["run_id"])


def _peaceful(fleet: Fleet, server: Serving) -> str:
    """A run that nothing happens to: a server's plan says more than that of the command."""
    fleet.provider.latency = 0.0
    run_id = _submitted(fleet, server)
    server.ended(run_id)
    fleet.provider.latency = fleet.setting.latency
    return run_id
