"""The ledgers that tests of the store are put to."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.store.books import Book, FileBook, SharedBook
from tests.store.databases import Database


@pytest.fixture(params=["sqlite", "postgres"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Book]:
    """One of the databases that keep ledgers."""
    if request.param == "sqlite":
        yield FileBook(tmp_path)
        return
    database: Database = request.getfixturevalue("database")
    shared = SharedBook(database.address, f"{uuid4().hex}-")
    yield shared
    shared.runs.close()
