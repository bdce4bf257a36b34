"""One connection for many threads: they take turns, and while the server is away all who wait hear of it together."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from assay.core.errors import StoreUnavailable
from assay.store.postgres.connection import Link

PATIENCE = 5.0
"""Seconds that one of them tries; whoever asks at an interface for people or programs can ask again."""

T = TypeVar("T")


class SharedLink:
    """As a link, from any thread."""

    def __init__(self, address: str) -> None:
        self._link = Link(address, patience=PATIENCE)
        self._lock = threading.Lock()
        self._failure: tuple[float, StoreUnavailable] | None = None

    def transact(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """What the work gives in one transaction; raises StoreUnavailable."""
        asked = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failure[0] >= asked:
                # Somebody has tried in vain while this one waited: one after the other would wait ever longer.
                known = self._failure[1]
                raise type(known)(known.message, hint=known.hint)
            try:
                return self._link.transact(work)
            except StoreUnavailable as problem:
                self._failure = (time.monotonic(), problem)
                raise

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._link.close()
