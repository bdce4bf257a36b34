"""Published runs in object stores: each object is written once, and the manifest, which completes the run, last."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assay.core.errors import MissingExtra, RunSealed, StoreRefused, StoreUnavailable, UsageProblem
from assay.store.published_run import WHOLE

_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP and the like",
    "gs": "GOOGLE_SERVICE_ACCOUNT and the like",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and the like",
}
"""Environment variables that configure access to a store, by the scheme of its address."""
_PARTS = 5_000
"""Maximum parts of one upload; stores accept twice as many."""
# Blanks and signs that no store or shell changes; an exotic name would be stored under another one.
_PATH_SEGMENT = r"[\w.+=@, -]+"
_LIBRARY_ERROR = r"\b([A-Z]+) https?://.* in \S+?s\b.* - (?:Server returned non-2xx status code: )?([^<]*?)[: ]*(?:<|$)"
"""Matches the method and the result in the library's text of a failed request."""
_CODE = r"<Code>(\w+)</Code>"
_PERMANENT_FAILURE = r"[A-Z]+: (?:(?:301|400|401|403|404|405)\b(?!.*RequestTimeout)|Received redirect)"
"""Permanent failures: no such bucket, wrong credentials, another region; a request that timed out is reported as 400, too."""
_RETRIES = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}
"""Outages longer than this are reported: the caller can act on them, and nothing is lost."""


def is_object_address(text: str) -> bool:
    """Return whether the text is an address in an object store, such as s3://bucket/runs/nightly."""
    return text.partition("://")[0] in _VARIABLES and "://" in text


def _plain_address(address: str) -> str:
    """Return a plain address without its last slash; raises UsageProblem."""
    # Credentials in an address would end up in shells' histories, logs and the ledger.
    parts = urlsplit(address)
    if parts.username or parts.password or parts.query:
        raise UsageProblem(
            "the address of an object store holds no credentials", hint="give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    # The library would drop, resolve or decode these parts, and store the run under another address than reported.
    segments = parts.path.strip("/").split("/")
    # A segment of dots alone would be resolved to another address.
    is_plain = not parts.fragment and all(re.fullmatch(_PATH_SEGMENT, segment) and segment.strip(".") for segment in segments)
    if parts.scheme not in _VARIABLES or not parts.hostname or not is_plain:
        raise UsageProblem(
            f"'{address}' names no run in an object store",
            hint="write s3://BUCKET/PREFIX/RUN, of letters, digits, blanks and the signs . _ - + = @ ,",
        )
    return address.rstrip("/")


class ObjectRunStorage:
    """Objects below a prefix; the store's own environment variables grant access."""

    def __init__(self, address: str) -> None:
        self.shown = _plain_address(address)
        self._library = _obstore()
        with self._errors():
            self._store: Any = self._library.store.from_url(self.shown, retry_config=_RETRIES)

    def names(self) -> set[str]:
        """List the objects below the prefix."""
        with self._errors():
            return {str(found["path"]) for page in self._library.list(self._store) for found in page}

    def check(self) -> None:
        """Send one request to check access; raises StoreRefused, or StoreUnavailable when the store does not answer."""
        with self._errors():
            # One entry is enough to know that listing is allowed.
            next(iter(self._library.list(self._store, chunk_size=1)), None)

    def is_file(self, name: str) -> bool:
        """Return True: an object store has neither folders nor links."""
        return bool(name)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Stream the object's bytes."""
        with self._errors():
            for piece in self._library.get(self._store, name).stream(min_chunk_size=1 << 18):
                yield bytes(piece)

    def put(self, name: str, path: Path) -> bool:
        """Write a new object; False when it exists, and then it is unchanged."""
        size = path.stat().st_size
        try:
            with self._errors():
                if size <= WHOLE:
                    # `create` is the conditional write: two machines that publish at once cannot overwrite each
                    # other.
                    self._library.put(self._store, name, path, mode="create")
                elif self._has(name):
                    return False
                else:
                    # Multipart uploads cannot be conditional; the object appears only with its last part.
                    # As few parts as the store allows, at least of the usual size.
                    self._library.put(self._store, name, path, chunk_size=max(WHOLE // 2, size // _PARTS), max_concurrency=4)
        except RunSealed:
            return False
        return True

    def _has(self, name: str) -> bool:
        try:
            # Called inside of `_errors`, which turns other failures into ours.
            self._library.head(self._store, name)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        # Before BaseError, of which it is a subclass.
        except self._library.exceptions.AlreadyExistsError as problem:
            raise RunSealed(f"{self.shown} has such an object already") from problem
        except (self._library.exceptions.BaseError, OSError) as problem:
            variables = _VARIABLES[self.shown.partition(":")[0]]
            reason = _reason(problem)
            # A bucket that does not exist will not appear by waiting, and a run must not be kept open for it.
            failure = StoreRefused if re.match(_PERMANENT_FAILURE, reason) else StoreUnavailable
            raise failure(
                f"cannot use {self.shown}: {reason}",
                remedy=f"check the address, the credentials and the endpoint ({variables})",
            ) from problem


def _reason(problem: Exception) -> str:
    """Extract the store's reply, or the failed step; the library's full text may hold a signed URL."""
    text = str(problem)
    first = text.split("\n", 1)[0]
    match, code = re.search(_LIBRARY_ERROR, first), re.search(_CODE, text)
    if match is None:
        return first.split("?", 1)[0]
    return f"{match[1]}: {match[2]}" + (f" ({code[1]})" if code else "")


def _obstore() -> ModuleType:
    try:
        library = import_module("obstore")
        # Parts of the package that are loaded lazily; missing ones should be reported here.
        for part in ("exceptions", "store"):
            import_module(f"obstore.{part}")
    except ModuleNotFoundError as problem:
        raise MissingExtra("object stores need obstore", hint="install it: pip install 'assay[s3]'") from problem
    return library


if TYPE_CHECKING:
    # The store loads it by name, so that only this shows whether it fits the protocol.
    from assay.store.published_run import RemoteRunStorage

    _STORAGE: type[RemoteRunStorage] = ObjectRunStorage
