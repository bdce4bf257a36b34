"""Batches of a provider: requests that are submitted together, answered within a day, and cost half."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec

from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS, ProviderBatches, ProviderKind
from assay.core.settings import BatchSettings
from assay.models.endpoint import resolve_endpoint
from assay.models.negotiation import Negotiator
from assay.models.transport import HttpResult, Transport, UndecodableReply, decode_body, open_transport

PIECE = 256 << 10
"""Bytes of a file that are in memory at a time."""
SKEW = 600.0
"""Maximum difference in seconds between a provider's clock and ours."""
PAGES = 50
"""Maximum pages of a provider's list of batches to search for one of ours."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class BatchLimits(msgspec.Struct, frozen=True):
    """Limits of one batch."""

    requests: int
    bytes: int


def batch_limits(kind: ProviderKind, batch: BatchSettings) -> BatchLimits:
    """Compute the limits of one batch in a plan, which never exceed the provider's."""
    limits = _batches(kind)
    return BatchLimits(
        min(batch.max_requests or limits.max_requests, limits.max_requests),
        min(batch.max_bytes or limits.max_bytes, limits.max_bytes),
    )


def _batches(kind: ProviderKind) -> ProviderBatches:
    batches = PROVIDERS[kind].batches
    assert batches is not None, f"{kind} takes no batches"
    return batches


class RequestFraming(msgspec.Struct, frozen=True):
    """Bytes around and between the requests in a batch file."""

    opening: bytes
    separator: bytes
    closing: bytes


class BatchKey(msgspec.Struct, frozen=True, kw_only=True):
    """Key that identifies one of our batches at the provider, even if the reply to its creation was lost."""

    name: str
    """Globally unique name of the batch."""
    run_id: str
    requests: int
    at: float
    """Seconds since 1970 by our clock before which it was not created."""
    now: float
    """Seconds since 1970 by our clock at the time of the search."""


class BatchUpload(msgspec.Struct, frozen=True, kw_only=True):
    """A file of requests to upload."""

    mark: BatchKey
    file: Path
    size: int
    """Bytes of the file."""
    upload_id: str = ""
    """Provider's id of the file, once it is uploaded."""


class BatchMatch(msgspec.Struct, frozen=True):
    """A batch at the provider that matches a key."""

    id: str
    is_certain: bool = True
    """False when only size and time match: its results then show whose it is."""


class BatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as its provider describes it."""

    id: str
    word: str
    """State in the provider's words."""
    is_ended: bool = False
    is_refused: bool = False
    """True when the provider refused to start it because something is wrong with it."""
    is_full: bool = False
    """True when the provider refused to start it only because too many requests are waiting."""
    total: int = 0
    done: int = 0
    """Requests with an answer or an error."""
    problems: tuple[str, ...] = ()
    """All problems that the provider reports for the batch as a whole."""
    files: tuple[str, ...] = ()
    """Paths of its result files."""


class BatchResult(msgspec.Struct, frozen=True):
    """Result of one request in a batch."""

    custom_id: str
    said: Reply | ModelFailure


class MalformedResult(Exception):
    """A line of results that does not even identify its request."""


class BatchableModel(Protocol):
    """A model whose requests and answers can be stored in files."""

    path: str
    decoder: msgspec.json.Decoder[Any]
    negotiator: Negotiator
    """What the requests contain besides their messages."""

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt outside any batch; raises ModelFailure."""

    def request(self, ask: ModelRequest) -> bytes:
        """Build the body of the HTTP request."""

    def read(self, result: HttpResult[Any]) -> Reply:
        """Parse the body of a reply; raises ModelFailure."""


class ListedBatches(Protocol):
    """A page of a provider's list of batches, the newest first."""

    @property
    def data(self) -> Sequence[Any]:
        """Batches."""

    @property
    def has_more(self) -> bool:
        """True when older ones follow."""


class BatchClient:
    """Submits and fetches batches for one model; every method that calls the provider raises ModelFailure.

    A provider's class describes how it differs: the class attributes, and the methods without a body here.
    """

    framing: RequestFraming
    path: str
    """Path of the list of batches."""
    cursor: str
    """Parameter of the list that names the batch after which a page begins."""
    batch_decoder: msgspec.json.Decoder[Any]
    page_decoder: msgspec.json.Decoder[Any]
    line_decoder: msgspec.json.Decoder[Any]
    """Decodes a line of results, whose `custom_id` is that of its request."""

    def __init__(self, transport: Transport, model: BatchableModel) -> None:
        self.transport = transport
        self.model = model

    def line(self, custom_id: str, ask: ModelRequest) -> bytes:
        """Encode one request as an entry of the file."""
        raise NotImplementedError

    async def upload(self, batch_file: BatchUpload, /) -> str:
        """Upload the file and return its id; empty when creating the batch uploads it."""
        raise NotImplementedError

    async def create(self, batch_file: BatchUpload, /) -> str:
        """Create the batch and return its id. It costs money from here on."""
        raise NotImplementedError

    def created_at(self, batch: Any) -> float:
        """Return when a batch was created, in seconds since 1970."""
        raise NotImplementedError

    def match(self, batch: Any, key: BatchKey, *, is_recent: bool) -> BatchMatch | None:
        """Compare a listed batch with the key; None when it is another one. `is_recent` when it may be as young as the key."""
        raise NotImplementedError

    def status(self, batch_id: str, batch: Any) -> BatchStatus:
        """Describe a batch."""
        raise NotImplementedError

    def reply(self, line: Any) -> Reply:
        """Parse a decoded line of results; raises ModelFailure."""
        raise NotImplementedError

    async def find(self, key: BatchKey) -> list[BatchMatch]:
        """Find batches that may match the key; a certain match is the only one."""
        found: list[BatchMatch] = []
        after = ""
        for _ in range(PAGES):
            # The provider's own clock judges the age of its batches: the date of this reply, not ours.
            listed = await self.transport.get(f"{self.path}?limit=100{after}", decoder=self.page_decoder)
            page: ListedBatches = listed.value
            since = earliest(key, listed.date)
            for batch in page.data:
                match = self.match(batch, key, is_recent=self.created_at(batch) >= since)
                # A name of ours is on one batch alone; those of the same size and age are only candidates.
                if match is not None and match.is_certain:
                    return [match]
                found += [match] if match is not None else []
            # The list has the newest first: beyond this age no page can hold ours.
            if not page.has_more or not page.data or self.created_at(page.data[-1]) < since:
                break
            # The id comes from the provider and goes into an address.
            after = f"&{self.cursor}={checked_id(page.data[-1].id, self.transport)}"
        return found

    async def look(self, batch_id: str) -> BatchStatus:
        """Poll a batch."""
        return self.status(batch_id, (await self.transport.get(f"{self.path}/{batch_id}", decoder=self.batch_decoder)).value)

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch, which may take minutes; requests that are already answered, or in progress, keep their answers."""
        # The reply only confirms the request; `look` shows when the batch has ended.
        await self.transport.post(self.transport.head(f"{self.path}/{batch_id}/cancel"), b"", decoder=self.batch_decoder)

    async def fetch(self, path: str, sink: "ByteSink") -> None:
        """Download a file of results to the sink."""
        await self.transport.download(path, sink)

    def read(self, line: bytes) -> BatchResult:
        """Parse one line of results; raises MalformedResult."""
        try:
            # Without an id a line cannot be given to a record; with one, even a failure can.
            found = decode_body(line, self.line_decoder).value
        except UndecodableReply as problem:
            raise MalformedResult(str(problem)) from None
        try:
            return BatchResult(found.custom_id, self.reply(found))
        except ModelFailure as failure:
            return BatchResult(found.custom_id, failure)


class ByteSink(Protocol):
    """Receiver of a file's bytes."""

    def __call__(self, piece: bytes, /) -> object:
        """Receive the next piece."""


@asynccontextmanager
async def open_batch_client(
    provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str], keep_raw: bool
) -> AsyncIterator[BatchClient]:
    """Open a provider's batch client for one model; raises UsageProblem."""
    # Runs without batches do not load these modules.
    module = import_module(f"assay.models.{_batches(provider.kind).home}")
    endpoint = resolve_endpoint(provider, environ)
    async with open_transport(endpoint, keep_raw=keep_raw) as transport:
        client: BatchClient = module.batch_client(transport, model, kind=provider.kind)
        yield client


def checked_id(value: str, transport: Transport) -> str:
    """Return an id that is safe in a path: a provider's id must not lead to another address. Raises ModelFailure."""
    # `..` would lead out of the list of batches, with the key in the headers.
    if not _ID.fullmatch(value) or ".." in value:
        raise ModelFailure("internal_error", f"'{transport.endpoint.provider}' named something by an id that is none")
    return value


def earliest(key: BatchKey, date: str) -> float:
    """Compute the earliest time, by the provider's clock, at which a batch with the key may exist; `date` is its Date header.

    A missed batch is paid for twice, and our clock may be wrong: subtract the batch's age from the earlier of both clocks.
    """
    # Both times are ours, so that their difference holds even if our clock is wrong.
    age = key.now - key.at
    if age < 0:
        # Our clock was set back, so that the age is unknown.
        return 0.0
    try:
        provider_now = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        provider_now = key.now
    return min(provider_now, key.now) - age - SKEW


def pieces_of(file: Path) -> Iterator[bytes]:
    """Read a file in pieces."""
    with file.open("rb") as source:
        while piece := source.read(PIECE):
            yield piece
