"""Replies kept by the content of their requests, shared by runs and processes."""

import os
import sqlite3
from pathlib import Path

import msgspec

from assay.core.ask import Reply
from assay.store.failures import database_errors, disk_errors

CACHE_FILE = "replies.sqlite"
FLUSH_AFTER = 64
"""Replies that are written together; a crash costs the cache at most that many."""

BUSY_SECONDS = 5.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Reply).decode


def sample_key(request_sha256: str, *, sample: int = 0) -> str:
    """The key of one of several samples of the same request."""
    return f"{request_sha256}:{sample}" if sample else request_sha256


class ReplyCache:
    """Replies that need not be paid for twice. They are as the provider sent them, so only their owner can read the file."""

    def __init__(self, folder: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = folder / CACHE_FILE
        self._waiting: dict[str, Reply] = {}
        with disk_errors(self._path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with database_errors(self._path):
            self.database = sqlite3.connect(self._path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
            try:
                self.database.execute("PRAGMA journal_mode = WAL")
                # A lost cache entry is a repeated call, not a lost result.
                self.database.execute("PRAGMA synchronous = NORMAL")
                self.database.execute("CREATE TABLE IF NOT EXISTS reply(key TEXT PRIMARY KEY, body BLOB)")
            except sqlite3.Error:
                self.database.close()
                raise

    def get(self, key: str) -> Reply | None:
        """The reply to the same request, if one was ever kept."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            return waiting
        with database_errors(self._path):
            row = self.database.execute("SELECT body FROM reply WHERE key = ?", (key,)).fetchone()
        try:
            return None if row is None else _decode(row[0])
        except msgspec.DecodeError:
            # Damaged, or of another version: asking again is always right, and the new reply takes its place.
            return None

    def put(self, key: str, reply: Reply) -> None:
        """Keep a reply; one without text is not kept, so that a bad moment of a provider is not remembered."""
        if not reply.text.strip():
            return
        self._waiting[key] = reply
        if len(self._waiting) >= FLUSH_AFTER:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting; raises StoreUnavailable, and it then goes on waiting."""
        rows = [(key, _encode(reply)) for key, reply in self._waiting.items()]
        if not rows:
            return
        with database_errors(self._path):
            self.database.execute("BEGIN IMMEDIATE")
            with self.database:
                self.database.executemany("INSERT OR REPLACE INTO reply VALUES (?, ?)", rows)
        self._waiting.clear()

    def close(self) -> None:
        """Write what is waiting and let go of the file."""
        try:
            self.flush()
        finally:
            self.database.close()
