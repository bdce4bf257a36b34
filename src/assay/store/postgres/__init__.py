"""Ledger that workers on many machines share: tables in PostgreSQL."""

from assay.store.postgres.address import address_without_password
from assay.store.postgres.catalogue import PostgresCatalogue
from assay.store.postgres.driving import PostgresLease
from assay.store.postgres.ledger import PostgresLedger, PostgresLedgers, open_run
from assay.store.postgres.submissions import PostgresSubmissions

__all__ = [
    "PostgresCatalogue",
    "PostgresLease",
    "PostgresLedger",
    "PostgresLedgers",
    "PostgresSubmissions",
    "address_without_password",
    "open_run",
]
