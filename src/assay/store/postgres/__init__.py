"""The ledger that workers on many machines share: tables in PostgreSQL."""

from assay.store.postgres.ledger import PostgresLedger, PostgresLedgers

__all__ = ["PostgresLedger", "PostgresLedgers"]
