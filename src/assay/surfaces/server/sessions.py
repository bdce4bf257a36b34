"""Browser sessions: a random token in a cookie, stored as a hash, which reveals nothing about the key."""

import hashlib
import re
import secrets
from collections.abc import Callable

import msgspec

from assay.surfaces.server.keys import Caller, Keys

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


class Sessions:
    """The open sessions; a restart of the server drops them all."""

    def __init__(self, known: Keys, clock: Callable[[], float]) -> None:
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
        self._open = {token: session for token, session in self._open.items() if session.ends_at > now}
        while len(self._open) >= MAX_SESSIONS:
            self._open.pop(next(iter(self._open)))
        token = secrets.token_urlsafe(32)
        self._open[_digest(token)] = _Session(entry.name, entry.sha256, now + SECONDS)
        return token

    def caller(self, token: str) -> Caller | None:
        """Find the caller of a token; None when it has expired, or its key was revoked meanwhile."""
        session = self._open.get(_digest(token))
        if session is None or session.ends_at <= self._clock():
            return None
        entries = (entry for entry in self._keys.entries() if (entry.name, entry.sha256) == (session.name, session.key_sha256))
        entry = next(entries, None)
        return None if entry is None else Caller(entry.name, entry.scope, is_signed_in=True, project=entry.project)

    def end(self, token: str) -> None:
        """Drop a session."""
        self._open.pop(_digest(token), None)


def cookie(token: str, *, is_secure: bool) -> str:
    """Build the cookie header that stores a token, out of reach of scripts and other sites."""
    seconds = SECONDS if token else 0
    parts = [f"{COOKIE}={token}", "Path=/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if is_secure else [])])


def own_page(target: str) -> str:
    """Return the page to redirect to: the target if it is a path of this server that is valid in a header, else the first page."""
    return target if _OWN_PAGE.fullmatch(target) else FIRST_PAGE


def token_in(header: str) -> str:
    """Read the token from a Cookie header; empty when there is none."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
