"""Batches of a provider: requests that are submitted together, answered within a day, and cost half."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.utils import parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS, Batches, ProviderKind
from assay.core.settings import BatchSettings
from assay.models.provider_protocol import ProviderContext
from assay.models.reply_decoder import UndecodableReply, decode_body

if TYPE_CHECKING:
    from assay.models.transport import HttpResult, Transport

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


def _batches(kind: ProviderKind) -> Batches:
    batches = PROVIDERS[kind].batches
    assert batches is not None, f"{kind} takes no batches"
    return batches


class RequestFraming(msgspec.Struct, frozen=True):
    """Bytes around and between the requests in a batch file."""

    opening: bytes
    separator: bytes
    closing: bytes


class BatchKey(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies one of our batches at the provider, even if the reply to its creation was lost."""

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
    """The provider's id of the file, once it is uploaded."""


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
    """The provider refused to start it because something is wrong with it."""
    is_full: bool = False
    """The provider refused to start it only because too many requests are waiting."""
    total: int = 0
    done: int = 0
    """Requests with an answer or an error."""
    problems: tuple[str, ...] = ()
    """All problems that the provider reports for the batch as a whole."""
    files: tuple[str, ...] = ()
    """Paths of its result files."""


class BatchResult(msgspec.Struct, frozen=True):
    """The result of one request in a batch."""

    custom_id: str
    said: Reply | ModelFailure


class MalformedResult(Exception):
    """A line of results that does not even identify its request."""


class BatchableModel(Protocol):
    """A model whose requests and answers can be stored in files."""

    path: str
    decoder: "msgspec.json.Decoder[Any]"

    def request(self, ask: ModelRequest) -> bytes:
        """Build the body of the HTTP request."""

    def read(self, result: "HttpResult[Any]") -> Reply:
        """Parse the body of a reply; raises ModelFailure."""


class ResultLine(Protocol):
    """A line of results in any provider's form."""

    @property
    def custom_id(self) -> str:
        """The request that it belongs to."""


_Line = TypeVar("_Line", bound=ResultLine)


class BatchClient(Protocol):
    """Client that submits and fetches batches for one model; every method that calls the provider raises ModelFailure."""

    framing: RequestFraming

    def line(self, custom_id: str, ask: ModelRequest) -> bytes:
        """Encode one request as an entry of the file."""

    async def upload(self, batch_file: BatchUpload, /) -> str:
        """Upload the file and return its id; empty when creating the batch uploads it."""

    async def create(self, batch_file: BatchUpload, /) -> str:
        """Create the batch and return its id. It costs money from here on."""

    async def find(self, key: BatchKey) -> list[BatchMatch]:
        """Find batches that may match the key, certain matches first."""

    async def look(self, batch_id: str) -> BatchStatus:
        """Poll a batch."""

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch; requests that are already answered stay so."""

    async def fetch(self, path: str, sink: "ByteSink") -> None:
        """Download a file of results to the sink."""

    def read(self, line: bytes) -> BatchResult:
        """Parse one line of results; raises MalformedResult."""


class ByteSink(Protocol):
    """Receiver of a file's bytes."""

    def __call__(self, piece: bytes, /) -> object:
        """Receive the next piece."""


@asynccontextmanager
async def open_batch_client(
    provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str], keep_raw: bool
) -> AsyncIterator[BatchClient]:
    """Open a provider's batch client for one model; raises UsageProblem."""
    context = ProviderContext(provider=provider, environ=environ, keep_raw=keep_raw)
    module = import_module(f"assay.models.{_batches(provider.kind).home}")
    manager: AbstractAsyncContextManager[BatchClient] = module.open_batches(context, model)
    async with manager as client:
        yield client


def read_result(line: bytes, decoder: "msgspec.json.Decoder[_Line]", parse: Callable[[_Line], Reply]) -> BatchResult:
    """Parse a line of results with the provider's function for replies; raises MalformedResult."""
    try:
        found = decode_body(line, decoder).value
    except UndecodableReply as problem:
        raise MalformedResult(str(problem)) from None
    try:
        return BatchResult(found.custom_id, parse(found))
    except ModelFailure as failure:
        return BatchResult(found.custom_id, failure)


def checked_id(value: str, transport: "Transport") -> str:
    """Return an id that is safe in a path: a provider's id must not lead to another address. Raises ModelFailure."""
    if not _ID.fullmatch(value) or ".." in value:
        raise ModelFailure("internal_error", f"'{transport.endpoint.provider}' named something by an id that is none")
    return value


def earliest(key: BatchKey, date: str) -> float:
    """Compute the earliest time, by the provider's clock, at which a batch with the key may exist; `date` is its Date header.

    A missed batch is paid for twice, and our clock may be wrong: subtract the batch's age from the earlier of both clocks.
    """
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
