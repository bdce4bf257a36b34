"""One Temporal server for all tests of the distributed engine."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.store.databases import Database
from tests.temporal.machines import Site, TemporalProcess, running_temporal


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalProcess]:
    """A Temporal server that runs as long as the tests."""
    pytest.importorskip("temporalio")
    with running_temporal() as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, temporal: TemporalProcess, database: Database) -> Site:
    """A folder of runs that workers share."""
    return Site(folder=tmp_path, temporal=temporal.address, ledger=database.address, queue=f"q-{uuid4()}")
