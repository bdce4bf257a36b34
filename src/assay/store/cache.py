"""Cache of replies, keyed by the content of their requests and shared by runs and processes."""

import os
import sqlite3
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import msgspec

from assay.core.errors import StoreUnavailable
from assay.core.model_call import Reply
from assay.store.failures import database_errors, disk_errors
from assay.store.redact import Redactor, StructureFields

CACHE_FILE = "replies.sqlite"
FLUSH_AFTER = 64
"""Replies that are written together; a crash loses at most that many from the cache."""
MAX_WAITING = 4096
"""Replies that may wait while other processes lock the file; further ones are not cached."""

# A redacted reply would get another grade than the original, without a trace, so such replies are not cached at all.
NOT_CACHED = "not_cached"
"""Flag of a reply that was not cached because it holds something to redact."""
BUSY_SECONDS = 5.0
_OPEN_RETRY_SECONDS = 0.01
"""Seconds between two attempts to open a file that another process is creating."""
_SETUP_STATEMENTS = (
    "PRAGMA journal_mode = WAL",
    # A lost cache entry is a repeated call, not a lost result.
    "PRAGMA synchronous = NORMAL",
    # What is deleted is overwritten, not only forgotten.
    "PRAGMA secure_delete = ON",
    "CREATE TABLE IF NOT EXISTS reply(key TEXT PRIMARY KEY, body BLOB)",
    # The highest row that each set of rules has checked; row numbers only grow.
    "CREATE TABLE IF NOT EXISTS checked(rules TEXT PRIMARY KEY, upto INTEGER NOT NULL)",
)
_CHECK_BATCH = 1_000
"""Replies that are checked in one transaction; other processes can write in between."""
_REPLY = StructureFields(terms=frozenset(("model", "finish_reason", "flags", "request_id")))

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Reply).decode


class ReplyCache:
    """Cache of paid replies. Only their owner can read the file.

    A reply in which the redactor finds something is not cached: a cached reply must be byte-equal to the provider's, to get the
    same grade again. Replies that runs with other rules have cached are checked once by each set of rules, when the file is
    opened and when it is closed.

    No caller waits for the disk or for other processes: a thread writes replies, and a locked file counts as an empty one.
    """

    def __init__(self, folder: Path, *, redactor: Redactor | None = None, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = folder / CACHE_FILE
        self._redactor = redactor or Redactor()
        self._waiting: dict[str, Reply] = {}
        self._lock = Lock()
        """Guards the waiting replies, which two threads change."""
        with disk_errors(self._path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Made here and not by SQLite, which would take the umask; a link in its place could point to any file.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self.database = self._open(busy_seconds)
        self._drop_unredacted()
        # A second connection: reads never wait, neither for another process nor for our own writes.
        self._reading = self._connect(0)
        # One thread: writes stay in order, and the event loop never waits for the disk.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-cache")
        self._writing: Future[None] | None = None

    def _open(self, busy_seconds: float) -> sqlite3.Connection:
        """Open the file and retry while it is busy: SQLite's timeout does not cover another process that is creating it."""
        end = time.monotonic() + busy_seconds
        while True:
            try:
                return self._connect(busy_seconds, *_SETUP_STATEMENTS)
            except StoreUnavailable as problem:
                if time.monotonic() >= end:
                    raise
                _raise_unless_busy(problem)
            time.sleep(_OPEN_RETRY_SECONDS)

    def _connect(self, busy_seconds: float, *statements: str) -> sqlite3.Connection:
        with database_errors(self._path):
            database = sqlite3.connect(self._path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
            try:
                for statement in statements:
                    database.execute(statement)
            except sqlite3.Error:
                database.close()
                raise
            return database

    def _drop_unredacted(self) -> None:
        """Delete unchecked replies in which these rules find something; other runs may have had other rules."""
        rules = self._redactor.fingerprint
        is_dropped, is_done = False, False
        try:
            with database_errors(self._path):
                while not is_done and self._has_unchecked(rules):
                    self.database.execute("BEGIN IMMEDIATE")
                    with self.database:
                        dropped, is_done = self._check_next(rules)
                    is_dropped = is_dropped or dropped
                if is_dropped:
                    # What was deleted is still in the write-ahead log until that is emptied.
                    self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except StoreUnavailable as problem:
            _raise_unless_busy(problem)

    def _has_unchecked(self, rules: str) -> bool:
        found = self.database.execute(
            "SELECT coalesce(max(rowid), 0) > coalesce((SELECT upto FROM checked WHERE rules = ?), 0) FROM reply", (rules,)
        )
        return bool(found.fetchone()[0])

    def _check_next(self, rules: str) -> tuple[bool, bool]:
        """Check the next replies; returns whether any was deleted, and whether these were the last."""
        found = self.database.execute(
            "SELECT rowid, body FROM reply WHERE rowid > coalesce((SELECT upto FROM checked WHERE rules = ?), 0)"
            " ORDER BY rowid LIMIT ?",
            (rules, _CHECK_BATCH),
        ).fetchall()
        unclean = [(number,) for number, body in found if not self._is_clean(body)]
        self.database.executemany("DELETE FROM reply WHERE rowid = ?", unclean)
        if found:
            self.database.execute("INSERT OR REPLACE INTO checked VALUES (?, ?)", (rules, found[-1][0]))
        # The number of the last reply is given again once it is deleted.
        self.database.execute("UPDATE checked SET upto = min(upto, (SELECT coalesce(max(rowid), 0) FROM reply))")
        return bool(unclean), len(found) < _CHECK_BATCH

    def _is_clean(self, body: bytes) -> bool:
        if self._redactor.is_clean_json((body,)):
            return True
        try:
            reply = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return False
        return bool(self._redactor.structure(reply, _REPLY) == reply)

    def get(self, key: str) -> Reply | None:
        """Return the reply to the same request, if it is cached and the file can be read at once; raises StoreUnavailable."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            return waiting
        try:
            with database_errors(self._path):
                row = self._reading.execute("SELECT body FROM reply WHERE key = ?", (key,)).fetchone()
            return None if row is None else _decode(row[0])
        except StoreUnavailable as problem:
            _raise_unless_busy(problem)
            return None
        except msgspec.DecodeError:
            # Damaged, or of another version: asking again is always right, and the new reply takes its place.
            return None

    def put(self, key: str, reply: Reply) -> bool:
        """Cache a reply; one without text is not cached, so that a temporary failure of a provider does not stay.

        Returns False for a reply that is not cached because it holds something to redact.
        Raises StoreUnavailable when earlier ones could not be written for another reason than a locked file.
        """
        # An empty reply is often a fault of the moment, which a cache would make permanent.
        if not reply.text.strip() and not reply.tool_calls:
            return True
        if not self._is_clean(_encode(reply)):
            return False
        with self._lock:
            # Dropped, not awaited: a cache that cannot be written costs calls in later runs, and must not cost this one its time.
            if len(self._waiting) >= MAX_WAITING:
                return True
            self._waiting[key] = reply
        if len(self._waiting) >= FLUSH_AFTER and (self._writing is None or self._writing.done()):
            self._raise_write_error()
            self._writing = self._thread.submit(self._write)
        return True

    def flush(self) -> None:
        """Write the waiting replies; raises StoreUnavailable, and they then keep waiting."""
        self._raise_write_error()
        self._write()

    def _raise_write_error(self) -> None:
        """Wait for the thread and raise its error, unless the file was only locked."""
        writing, self._writing = self._writing, None
        problem = writing.exception() if writing is not None else None
        if isinstance(problem, StoreUnavailable):
            _raise_unless_busy(problem)
        elif problem is not None:
            raise problem

    def _write(self) -> None:
        with self._lock:
            waiting = list(self._waiting.items())
        if not waiting:
            return
        rows = [(key, _encode(reply)) for key, reply in waiting]
        with database_errors(self._path):
            self.database.execute("BEGIN IMMEDIATE")
            with self.database:
                self.database.executemany("INSERT OR REPLACE INTO reply VALUES (?, ?)", rows)
        self._remove_written(waiting)

    def _remove_written(self, written: Iterable[tuple[str, Reply]]) -> None:
        with self._lock:
            for key, reply in written:
                # The same request may have got another reply in the meantime.
                if self._waiting.get(key) is reply:
                    del self._waiting[key]

    def close(self) -> None:
        """Write the waiting replies and close the file; replies that cannot be written because the file is locked are dropped."""
        try:
            self.flush()
            self._drop_unredacted()
        except StoreUnavailable as problem:
            _raise_unless_busy(problem)
        finally:
            self._thread.shutdown()
            self._reading.close()
            self.database.close()


def _raise_unless_busy(problem: StoreUnavailable) -> None:
    """Raise errors that do not pass by themselves, such as a full disk or a damaged file."""
    code = getattr(problem.__cause__, "sqlite_errorcode", 0) & 0xFF
    if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise problem
