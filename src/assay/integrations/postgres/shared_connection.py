"""One connection for many threads: they take turns, and waiting threads share the failure while the server is away."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from assay.core.errors import StoreUnavailable
from assay.integrations.postgres.connection import ReconnectingConnection

PATIENCE = 5.0
"""Seconds for which one transaction is retried; callers that serve people or programs can ask again."""

T = TypeVar("T")


class ThreadSafeConnection:
    """A ReconnectingConnection for any thread."""

    def __init__(self, address: str) -> None:
        self._connection = ReconnectingConnection(address, patience=PATIENCE)
        self._lock = threading.Lock()
        self._failure: tuple[float, StoreUnavailable] | None = None

    def transact(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Run the work in one transaction; raises StoreUnavailable."""
        requested_at = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failure[0] >= requested_at:
                # Another thread failed while this one waited: trying in turn would make each wait longer than the last.
                failure = self._failure[1]
                raise type(failure)(failure.message, hint=failure.hint)
            try:
                return self._connection.transact(work)
            except StoreUnavailable as problem:
                self._failure = (time.monotonic(), problem)
                raise

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()
