"""A server whose runs are evaluated by workers: submitted over HTTP, and on their way whatever becomes of the server."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integrations.temporal.conftest import CONCURRENCY, RECORDS
from tests.integrations.temporal.machines import Plant
from tests.surfaces.server.serving import Serving

pytestmark = pytest.mark.xdist_group("temporal")


@pytest.fixture
def service(busy: Plant) -> Iterator[Serving]:
    """A server with the folder, the ledger and the workers of the plant."""
    run_file = {
        "candidates": [{"model": "stub/candidate"}],
        "judges": [{"model": "stub/judge"}],
        "providers": [{"name": "stub", "base_url": busy.provider.base_url, "timeout": 120}],
        "run": {"concurrency": CONCURRENCY},
        "retry": {"base_delay": 0.01, "max_delay": 1},
    }
    where = ("--engine", "temporal", "--temporal", busy.temporal, "--task-queue", busy.queue, "--ledger", busy.ledger)
    with Serving(busy.folder, run_file=json.dumps(run_file), options=where) as serving:
        yield serving


def submitted(service: Serving, plant: Plant) -> str:
    """The job of the plant, sent as it is."""
    return str(service.submit(json.loads((plant.folder / "dataset.json").read_bytes())).json["run_id"])


def results(plant: Plant, run_id: str) -> Counter[str]:
    lines = (plant.runs / run_id / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(json.loads(line)["record_id"] for line in lines)


def test_workers_evaluate_what_is_submitted_to_a_server(service: Serving, busy: Plant) -> None:
    run_id = submitted(service, busy)
    assert service.ended(run_id)["state"] == "completed_with_failures"
    assert len(results(busy, run_id)) == RECORDS
    assert busy.repeated == 0


def test_the_workers_go_on_when_the_server_is_killed(service: Serving, busy: Plant) -> None:
    busy.provider.hold(after=100)
    run_id = submitted(service, busy)
    busy.provider.wait_for(101)
    service.kill()
    service.start()
    busy.provider.let_go()
    assert service.ended(run_id)["state"] == "completed_with_failures"
    assert set(results(busy, run_id).values()) == {1}
    assert busy.repeated == 0
