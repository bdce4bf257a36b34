"""Published runs in object stores: each object is written once, and the manifest, which makes it a run, last."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from assay.core.errors import MissingExtra, RunSealed, StoreRefused, StoreUnavailable, UsageProblem
from assay.core.input_document import MANIFEST
from assay.store.places import FolderPlace

_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP and the like",
    "gs": "GOOGLE_SERVICE_ACCOUNT and the like",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and the like",
}
"""By the scheme of an address, the environment variables with which such a store is reached."""
WHOLE = 16 << 20
"""Bytes up to which a file is written in one request, which takes it into memory; larger ones go in parts."""
_PARTS = 5_000
"""A store takes twice as many parts of one object."""
_STEP = r"[\w.+=@, -]+"
_TOLD = r"\b([A-Z]+) https?://.* in \S+?s\b.* - (?:Server returned non-2xx status code: )?([^<]*?)[: ]*(?:<|$)"
"""A method and what became of it, in what the library says of a failed request."""
_CODE = r"<Code>(\w+)</Code>"
_REFUSED = r"[A-Z]+: (?:(?:301|400|401|403|404|405)\b(?!.*RequestTimeout)|Received redirect)"
"""A reason that does not pass by itself: no such bucket, wrong credentials, another region; a slow request is told as 400, too."""
_RETRIES = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}
"""A store that is away for longer is told of: whoever waits for it can do something about it, and nothing is lost."""


def is_object_address(text: str) -> bool:
    """Whether this names a place in an object store, such as s3://bucket/runs/nightly."""
    return text.partition("://")[0] in _VARIABLES and "://" in text


def _checked(address: str) -> str:
    """The address, when it means exactly what it says; raises UsageProblem."""
    parts = urlsplit(address)
    if parts.username or parts.password or parts.query:
        raise UsageProblem(
            "the address of an object store holds no credentials", hint="give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    # What a library would leave out, resolve or decode would put the run elsewhere than it is said to be.
    steps = parts.path.strip("/").split("/")
    is_plain = not parts.fragment and all(re.fullmatch(_STEP, step) and step.strip(".") for step in steps)
    if parts.scheme not in _VARIABLES or not parts.hostname or not is_plain:
        raise UsageProblem(
            f"'{address}' names no run in an object store",
            hint="write s3://BUCKET/PREFIX/RUN, of letters, digits, blanks and the signs . _ - + = @ ,",
        )
    return address.rstrip("/")


class ObjectPlace:
    """The objects below a prefix; who may read or write them is the matter of the store's own environment variables."""

    def __init__(self, address: str) -> None:
        self.shown = _checked(address)
        self._library = _obstore()
        with self._errors():
            self._store: Any = self._library.store.from_url(self.shown, retry_config=_RETRIES)

    def names(self) -> set[str]:
        """The objects below the prefix."""
        with self._errors():
            return {str(found["path"]) for page in self._library.list(self._store) for found in page}

    def check(self) -> None:
        """Look whether the store can be used, with one request; raises StoreRefused, or StoreUnavailable for one that is away."""
        with self._errors():
            next(iter(self._library.list(self._store, chunk_size=1)), None)

    def is_file(self, name: str) -> bool:
        """An object store has nothing else."""
        return bool(name)

    def pieces(self, name: str) -> Iterator[bytes]:
        """The object's bytes."""
        with self._errors():
            for piece in self._library.get(self._store, name).stream(min_chunk_size=1 << 18):
                yield bytes(piece)

    def put(self, name: str, path: Path) -> bool:
        """Write an object that is not there; False when there is one, which stays as it is."""
        size = path.stat().st_size
        try:
            with self._errors():
                if size <= WHOLE:
                    self._library.put(self._store, name, path, mode="create")
                elif self._has(name):
                    return False
                else:
                    # What is written in parts cannot be had on a condition; until its last part it is not there.
                    self._library.put(self._store, name, path, chunk_size=max(WHOLE // 2, size // _PARTS), max_concurrency=4)
        except RunSealed:
            return False
        return True

    def _has(self, name: str) -> bool:
        try:
            self._library.head(self._store, name)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._library.exceptions.AlreadyExistsError as problem:
            raise RunSealed(f"{self.shown} has such an object already") from problem
        except (self._library.exceptions.BaseError, OSError) as problem:
            variables = _VARIABLES[self.shown.partition(":")[0]]
            reason = _reason(problem)
            failure = StoreRefused if re.match(_REFUSED, reason) else StoreUnavailable
            raise failure(
                f"cannot use {self.shown}: {reason}",
                hint=f"check the address, the credentials and the endpoint ({variables}), then try again",
            ) from problem


def _reason(problem: Exception) -> str:
    """What the store says, or what became of the request; the library tells the whole of it, which may be signed."""
    text = str(problem)
    first = text.split("\n", 1)[0]
    told, code = re.search(_TOLD, first), re.search(_CODE, text)
    if told is None:
        return first.split("?", 1)[0]
    return f"{told[1]}: {told[2]}" + (f" ({code[1]})" if code else "")


def publish_objects(folder: Path, address: str) -> int:
    """Write the files of a sealed run below an address; returns how many were not there yet.

    The manifest comes last: before it nobody takes the objects for a run. What is there already must be the same; raises RunSealed
    when it is not, and then nothing of it was changed. Small files come first: of two runs of one name only one gets past them.
    """
    place, source = ObjectPlace(address), FolderPlace(folder)
    names = sorted(source.names(), key=lambda name: (name == MANIFEST, (folder / name).stat().st_size > WHOLE, name))
    written = 0
    for name in names:
        if place.put(name, folder / name):
            written += 1
        elif _digest(place.pieces(name)) != _digest(source.pieces(name)):
            raise RunSealed(
                f"{place.shown}/{name} is there already, and is another one", hint="publish the run below another address"
            )
    return written


def _digest(pieces: Iterator[bytes]) -> bytes:
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _obstore() -> ModuleType:
    try:
        library = import_module("obstore")
        for part in ("exceptions", "store"):
            import_module(f"obstore.{part}")
    except ModuleNotFoundError as problem:
        raise MissingExtra("object stores need obstore", hint="install it: pip install 'assay[s3]'") from problem
    return library
