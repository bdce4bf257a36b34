"""The ledger that workers on many machines share: tables in PostgreSQL."""

from assay.store.postgres.connection import address_without_password
from assay.store.postgres.ledger import PostgresLedger, PostgresLedgers, open_run

__all__ = ["PostgresLedger", "PostgresLedgers", "address_without_password", "open_run"]
