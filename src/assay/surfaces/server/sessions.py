"""Readers who signed in with a key: a random token in a cookie, kept here as a hash, which says nothing of the key."""

import hashlib
import re
import secrets
from collections.abc import Callable

import msgspec

from assay.surfaces.server.keys import Caller, Keys

COOKIE = "assay_session"
FIRST_PAGE = "/runs"
_OWN_PAGE = re.compile(r"/(?![/\\])[!-~]*", re.ASCII)
"""An address of this server as it is sent: a browser would read two slashes as another host."""
SECONDS = 12 * 3600
MAX_SESSIONS = 10_000
"""More than this and the oldest are forgotten: signing in must not fill the memory."""


class _Session(msgspec.Struct, frozen=True):
    name: str
    key_sha256: str
    ends_at: float


class Sessions:
    """Who is signed in; a restart of the server forgets them all."""

    def __init__(self, known: Keys, clock: Callable[[], float]) -> None:
        self._keys = known
        self._clock = clock
        self._open: dict[str, _Session] = {}

    def begin(self, key: str) -> str | None:
        """The token of a new session; None for a key that is not known."""
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
        """Who has this token; None when it has expired, or when their key was revoked meanwhile."""
        session = self._open.get(_digest(token))
        if session is None or session.ends_at <= self._clock():
            return None
        entries = (entry for entry in self._keys.entries() if (entry.name, entry.sha256) == (session.name, session.key_sha256))
        entry = next(entries, None)
        return None if entry is None else Caller(entry.name, entry.scope, is_signed_in=True, project=entry.project)

    def end(self, token: str) -> None:
        """Forget a session."""
        self._open.pop(_digest(token), None)


def cookie(token: str, *, is_secure: bool) -> str:
    """The header that keeps a token in a browser, out of reach of scripts and of other sites."""
    seconds = SECONDS if token else 0
    parts = [f"{COOKIE}={token}", "Path=/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if is_secure else [])])


def own_page(target: str) -> str:
    """Where somebody is led: the target if it is a page of this server and can stand in a header, else the first page."""
    return target if _OWN_PAGE.fullmatch(target) else FIRST_PAGE


def token_in(header: str) -> str:
    """The token of a Cookie header; empty when there is none."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
