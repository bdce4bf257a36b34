"""API keys and browser sessions: stored as hashes, each key with a scope and a project."""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import msgspec

from assay.core.canonical import pretty_json
from assay.core.errors import StoreUnavailable, UsageProblem
from assay.core.plan import DEFAULT_PROJECT

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Scopes; each includes those before it."""
KEYS_FILE = ".server/keys.json"
PREFIX = "assay_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One key, without the key itself."""

    name: str
    scope: Scope
    sha256: str
    hint: str
    """Its first characters, for recognition."""
    created_at: str
    project: str = DEFAULT_PROJECT


class Caller(msgspec.Struct, frozen=True):
    """Caller of a request, and what it may do."""

    name: str = ""
    """Name of the key; empty if the service needs none."""
    scope: Scope = "admin"
    is_signed_in: bool = False
    """True for a browser that signed in with its key and sends a session."""
    project: str = DEFAULT_PROJECT
    """Project of the runs that this caller submits."""

    @property
    def owner(self) -> str:
        """Identify the caller among those of all projects; idempotency keys and drafts belong to it."""
        # Without the project in the default one, so that idempotency keys from before projects keep their owner.
        return self.name if self.project == DEFAULT_PROJECT else f"{self.project}/{self.name}"

    @property
    def sees_all(self) -> bool:
        """True if the caller is an admin, as every caller is without keys."""
        return self.may("admin")

    def sees(self, project: str) -> bool:
        """Return whether the caller may see what belongs to a project."""
        return self.sees_all or self.project == project

    def may(self, scope: Scope) -> bool:
        """Return whether the caller has this scope."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


class KeyStore:
    """Keys of a folder of runs; a change by another process takes effect at the next request."""

    def __init__(self, runs_dir: Path) -> None:
        self._path = runs_dir / KEYS_FILE
        self._read: tuple[tuple[int, int], tuple[KeyEntry, ...]] = ((0, 0), ())

    def entries(self) -> tuple[KeyEntry, ...]:
        """List all keys in order of creation; raises StoreUnavailable."""
        return self._found() or ()

    @property
    def are_needed(self) -> bool:
        """True if a key was ever created: revoking the last one must not open the service to all."""
        return self._found() is not None

    def _found(self) -> tuple[KeyEntry, ...] | None:
        try:
            found = self._path.stat()
            # The inode too: the file is replaced, not rewritten, and two changes may have the same time.
            version = (found.st_mtime_ns, found.st_ino)
            if self._read[0] != version:
                self._read = (version, msgspec.json.decode(self._path.read_bytes(), type=tuple[KeyEntry, ...]))
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as problem:
            raise StoreUnavailable(f"cannot read the keys in '{self._path}': {problem}", hint="restore the file") from problem
        return self._read[1]

    def caller(self, key: str) -> Caller | None:
        """Find the owner of a key; compares every entry, so that the time does not depend on the key."""
        # Keys have 256 random bits, so comparing hashes is as good as comparing keys, and none is in memory.
        given = _digest(key)
        found: Caller | None = None
        for entry in self.entries():
            if hmac.compare_digest(entry.sha256, given):
                found = Caller(entry.name, entry.scope, project=entry.project)
        return found

    def add(self, name: str, scope: Scope, *, project: str = DEFAULT_PROJECT) -> str:
        """Create a key and return it, this once; raises UsageProblem for a name in use."""
        if _NAME.fullmatch(name) is None:
            raise UsageProblem(f"{name!r} cannot name a key", hint="use up to 64 letters, digits, dots, dashes, underscores and @")
        if _PROJECT.fullmatch(project) is None:
            raise UsageProblem(
                f"{project!r} cannot name a project", hint="use up to 64 letters, digits, dots, dashes and underscores"
            )
        key = PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # Enough to tell keys apart in a list, and no help in guessing the rest.
        entry = KeyEntry(name=name, scope=scope, sha256=_digest(key), hint=key[:10], created_at=created, project=project)
        with self._alone():
            if any(entry.name == name for entry in self.entries()):
                raise UsageProblem(f"there is a key '{name}' already", hint="revoke it first, or choose another name")
            self._write((*self.entries(), entry))
        return key

    def revoke(self, name: str) -> None:
        """Revoke a key; raises UsageProblem when no key has that name."""
        with self._alone():
            kept = tuple(entry for entry in self.entries() if entry.name != name)
            if len(kept) == len(self.entries()):
                raise UsageProblem(f"there is no key '{name}'", hint="list them with: assay keys list")
            self._write(kept)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the file: of two concurrent changes one would be lost."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # 0600 and O_CLOEXEC: no other user, and no child process.
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # A separate lock file: the keys file itself is replaced, and a lock on the old inode would not exclude the next writer.
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, entries: tuple[KeyEntry, ...]) -> None:
        partial = self._path.with_name(f".keys-{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(pretty_json(entries))
                file.flush()
                os.fsync(file.fileno())
            # Atomic: a server that reads meanwhile sees the old file or the new one.
            partial.replace(self._path)
        finally:
            partial.unlink(missing_ok=True)


def _digest(key: str) -> str:
    """Hash a key or the token of a session; both have 256 random bits, so one round of a fast hash is enough."""
    # `surrogatepass`: a header may hold any byte, and an unknown key is an answer and not a crash.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


COOKIE = "assay_session"
FIRST_PAGE = "/runs"
_OWN_PAGE = re.compile(r"/(?![/\\])[!-~]*", re.ASCII)
"""Matches a safe path on this server: browsers treat two leading slashes as another host."""
SECONDS = 12 * 3600
MAX_SESSIONS = 10_000
"""Maximum sessions; beyond it the oldest are dropped, so that sign-ins cannot fill the memory."""


class _Session(msgspec.Struct, frozen=True):
    name: str
    key_sha256: str
    ends_at: float


class SessionStore:
    """Open sessions; a restart of the server drops them all."""

    def __init__(self, known: KeyStore, clock: Callable[[], float]) -> None:
        self._keys = known
        self._clock = clock
        self._open: dict[str, _Session] = {}

    def begin(self, key: str) -> str | None:
        """Create a session and return its token; None for an unknown key."""
        caller = self._keys.caller(key)
        entry = next((entry for entry in self._keys.entries() if caller is not None and entry.name == caller.name), None)
        if entry is None:
            return None
        now = self._clock()
        # Expired sessions go when one is added, so no timer is needed.
        self._open = {token: session for token, session in self._open.items() if session.ends_at > now}
        while len(self._open) >= MAX_SESSIONS:
            self._open.pop(next(iter(self._open)))
        token = secrets.token_urlsafe(32)
        # Stored by its hash: a dump of the memory gives no session away.
        self._open[_digest(token)] = _Session(entry.name, entry.sha256, now + SECONDS)
        return token

    def caller(self, token: str) -> Caller | None:
        """Find the caller of a token; None when it has expired, or its key was revoked meanwhile."""
        session = self._open.get(_digest(token))
        if session is None or session.ends_at <= self._clock():
            return None
        # Compared by hash too: a new key with the name of a revoked one has no sessions.
        entries = (entry for entry in self._keys.entries() if (entry.name, entry.sha256) == (session.name, session.key_sha256))
        entry = next(entries, None)
        return None if entry is None else Caller(entry.name, entry.scope, is_signed_in=True, project=entry.project)

    def end(self, token: str) -> None:
        """Drop a session."""
        self._open.pop(_digest(token), None)


def cookie(token: str, *, is_secure: bool) -> str:
    """Build the cookie header that stores a token, out of reach of scripts and other sites."""
    seconds = SECONDS if token else 0
    # Strict and HttpOnly: neither another site nor a script on a page can use it (docs/decisions/013-pages.md).
    parts = [f"{COOKIE}={token}", "Path=/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Strict"]
    # Only over TLS, or a browser on plain HTTP would drop the cookie.
    return "; ".join([*parts, *(["Secure"] if is_secure else [])])


def own_page(target: str) -> str:
    """Return the page to redirect to: the target if it is a path of this server that is valid in a header, else the first page."""
    return target if _OWN_PAGE.fullmatch(target) else FIRST_PAGE


def token_in(header: str) -> str:
    """Read the token from a Cookie header; empty when there is none."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")
