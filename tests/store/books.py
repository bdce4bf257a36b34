"""Where the runs of a test are kept: the same questions are put to every kind of ledger."""

from pathlib import Path
from typing import Protocol

from assay.integrations.postgres import PostgresLedgers
from assay.store.ledger import Ledger
from assay.store.sqlite import create_ledger, open_ledger
from tests.store.samples import rows


class Book(Protocol):
    """Makes ledgers and opens them again."""

    def create(self, run_id: str, *, at: float) -> Ledger:
        """A run without records."""

    def open(self, run_id: str) -> Ledger:
        """The same run, as another process sees it."""

    def new(self, *, records: int = 3) -> Ledger:
        """The run `r1` with valid records."""


class _Kept:
    def create(self, run_id: str, *, at: float) -> Ledger:
        raise NotImplementedError

    def new(self, *, records: int = 3) -> Ledger:
        ledger = self.create("r1", at=1.0)
        ledger.replace_records(rows(records))
        return ledger


class FileBook(_Kept):
    """Each run in a file of SQLite."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, run_id: str, *, at: float) -> Ledger:
        return create_ledger(self.folder / run_id, plan=b"{}", plan_sha256="ab", at=at)

    def open(self, run_id: str) -> Ledger:
        return open_ledger(self.folder / run_id)


class SharedBook(_Kept):
    """All runs in one PostgreSQL, which other tests use too."""

    def __init__(self, address: str, prefix: str) -> None:
        self.runs = PostgresLedgers(address)
        self.prefix = prefix

    def create(self, run_id: str, *, at: float) -> Ledger:
        return self.runs.create(self.prefix + run_id, plan=b"{}", plan_sha256="ab", at=at)

    def open(self, run_id: str) -> Ledger:
        return self.runs.open(self.prefix + run_id)
