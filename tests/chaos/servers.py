"""Two API servers over one ledger, of which the one that was given a run is killed."""

import json
import random
import time
from pathlib import Path

from tests.chaos.faults import SETTLE, Wound
from tests.chaos.fleet import PATIENCE, Fleet
from tests.chaos.trials import Finding, counted, recovery_of
from tests.crash.check import problems_of, stable_artifacts
from tests.integrations.temporal.machines import until
from tests.surfaces.server.serving import Serving


def kill_server(fleet: Fleet, run_id: str, chance: random.Random) -> Finding:
    """kill -9 of a server whose runs are evaluated by workers; another one tells of them."""
    fleet.complete()
    site = fleet.site
    where = ("--engine", "temporal", "--temporal", site.temporal, "--task-queue", site.queue)
    found = _killed(fleet, site.folder / run_id, chance, options=where)
    found.allow(0, because="it makes no calls")
    return found


def kill_working_server(fleet: Fleet, run_id: str, chance: random.Random) -> Finding:
    """kill -9 of a server that evaluates a run itself; another one goes on with it."""
    found = _killed(fleet, fleet.site.folder / run_id, chance, options=())
    found.allow(fleet.setting.concurrency, because="a dead server takes one call for each of its seats with it, and it has all")
    return found


def _killed(fleet: Fleet, folder: Path, chance: random.Random, *, options: tuple[str, ...]) -> Finding:
    """What a run is worth whose server is killed at a random moment of its first half."""
    folder.mkdir()
    with _server(fleet, folder, options) as first, _server(fleet, folder, options) as second:
        peaceful = _peaceful(fleet, first)
        begun, named = time.monotonic(), _submitted(fleet, first)
        moment = round(chance.uniform(0.05, 0.4) * fleet.bench.calls.total())
        until(lambda: len(fleet.provider.heard) >= moment, patience=PATIENCE)
        first.kill()
        wound = Wound(time.monotonic(), settle=0.0 if options else SETTLE)
        second.ended(named)
        # The working state is cleared away after the end is told.
        second.wait_for(lambda: not list(fleet.site.runs.glob(f".active/{named}/*")))
        found = counted(fleet, fleet.site.runs / named)
    # The path of an upload has the id of its run in it.
    expected = json.loads(json.dumps(stable_artifacts(fleet.site.runs / peaceful)).replace(peaceful, named))
    found.problems = problems_of(fleet.bench.job, named, expected)
    found.recovery, found.seconds = recovery_of([wound], fleet.provider.heard), time.monotonic() - begun
    return found


def _server(fleet: Fleet, folder: Path, options: tuple[str, ...]) -> Serving:
    run_file = json.loads((fleet.site.folder / "run.json").read_text(encoding="utf-8"))
    del run_file["datasets"]
    settings = "requests_per_minute: 100000\nmax_runs: 2\n"
    where = ("--ledger", fleet.database.address, *options)
    server = Serving(folder, settings=settings, run_file=json.dumps(run_file), options=where)
    server.runs_dir = fleet.site.runs
    return server


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
