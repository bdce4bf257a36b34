"""Runs of a shared ledger that tests begin with."""

from uuid import uuid4

import pytest

from assay.integrations.postgres import PostgresLedgers
from tests.store.databases import Database


@pytest.fixture
def run_id(database: Database) -> str:
    """A new run."""
    made = f"run-{uuid4().hex}"
    ledgers = PostgresLedgers(database.address)
    ledgers.create(made, plan=b"{}", plan_sha256="0", at=1.0).close()
    ledgers.close()
    return made
