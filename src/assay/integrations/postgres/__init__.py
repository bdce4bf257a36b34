"""Ledger that workers on many machines share: tables in PostgreSQL."""

from typing import TYPE_CHECKING

from assay.integrations.postgres.catalogue import PostgresCatalogue, PostgresSubmissions
from assay.integrations.postgres.connection import address_without_password
from assay.integrations.postgres.leases import PostgresLease
from assay.integrations.postgres.ledger import PostgresLedger, PostgresLedgers, open_run

__all__ = [
    "PostgresCatalogue",
    "PostgresLease",
    "PostgresLedger",
    "PostgresLedgers",
    "PostgresSubmissions",
    "address_without_password",
    "open_run",
]

if TYPE_CHECKING:
    # The store loads these by name, so that only this shows whether they fit its protocols.
    from assay.store.ledgers import DriverLease, RunCatalogue, SharedLedger, SharedLedgers, SharedSubmissions

    _LEASE: type[DriverLease] = PostgresLease
    _CATALOGUE: type[RunCatalogue] = PostgresCatalogue
    _LEDGER: type[SharedLedger] = PostgresLedger
    _LEDGERS: type[SharedLedgers] = PostgresLedgers
    _SUBMISSIONS: type[SharedSubmissions] = PostgresSubmissions
