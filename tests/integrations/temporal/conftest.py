"""One Temporal server, and one job, for all tests of the distributed engine."""

import subprocess
from collections.abc import Iterator
from uuid import uuid4

import msgspec
import pytest

from tests.crash.check import stable_artifacts
from tests.crash.job import steady
from tests.crash.provider import CountingProvider
from tests.integrations.temporal.machines import PATIENCE, Plant, TemporalProcess, running_temporal
from tests.store.databases import Database

RECORDS = 520
CONCURRENCY = 8
LATENCY = 0.02


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalProcess]:
    """A Temporal server that runs as long as the tests."""
    pytest.importorskip("temporalio")
    with running_temporal() as server:
        yield server


@pytest.fixture(scope="session")
def plant(tmp_path_factory: pytest.TempPathFactory, temporal: TemporalProcess, database: Database) -> Iterator[Plant]:
    """A site with a job of three shards, the last of them small, and what a run of it on one machine leaves."""
    folder = tmp_path_factory.mktemp("plant")
    with CountingProvider(steady) as provider:
        site = Plant(folder=folder, temporal=temporal.address, ledger=database.address, provider=provider)
        job = site.job(records=RECORDS, concurrency=CONCURRENCY)
        subprocess.run(job.command("here"), check=False, timeout=PATIENCE, capture_output=True)
        provider.latency = LATENCY
        yield msgspec.structs.replace(site, expected=stable_artifacts(job.runs / "here"), calls=provider.calls.copy())


@pytest.fixture
def site(plant: Plant) -> Iterator[Plant]:
    """The same with a task queue of its own, so that no worker of another test serves it."""
    own = msgspec.structs.replace(plant, queue=f"q-{uuid4()}")
    own.provider.calls.clear()
    yield own
    own.leave()
    own.provider.latency = LATENCY


@pytest.fixture(scope="session")
def staffed(plant: Plant) -> Iterator[Plant]:
    """The site with two workers, which all tests share that harm none."""
    site = msgspec.structs.replace(plant, queue="staffed")
    with site.worker("first", "--shards", "1"), site.worker("second", "--shards", "1"):
        yield site


@pytest.fixture
def busy(staffed: Plant) -> Iterator[Plant]:
    """The same for one test."""
    staffed.provider.calls.clear()
    yield staffed
    staffed.leave()
