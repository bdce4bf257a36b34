"""Batches of a provider: requests that are handed in together, answered within a day, and cost half."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.utils import parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from assay.core.ask import Ask, ModelFailure, Reply
from assay.core.plan import BatchPlan, ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS, Batches, ProviderKind
from assay.models.decoding import Undecodable, decode_body
from assay.models.opening import Opening

if TYPE_CHECKING:
    from assay.models.transport import Exchanged, Transport

PIECE = 256 << 10
"""Bytes of a file that are in memory at a time."""
SKEW = 600.0
"""Seconds by which a provider's clock may differ from ours."""
PAGES = 50
"""Pages of a provider's list of batches that are looked through for one of ours."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class BatchLimits(msgspec.Struct, frozen=True):
    """What a provider takes in one batch."""

    requests: int
    bytes: int


def batch_limits(kind: ProviderKind, batch: BatchPlan) -> BatchLimits:
    """What a plan puts into one batch at most: never more than the provider takes."""
    most = _batches(kind)
    return BatchLimits(
        min(batch.max_requests or most.max_requests, most.max_requests), min(batch.max_bytes or most.max_bytes, most.max_bytes)
    )


def _batches(kind: ProviderKind) -> Batches:
    batches = PROVIDERS[kind].batches
    assert batches is not None, f"{kind} takes no batches"
    return batches


class Framing(msgspec.Struct, frozen=True):
    """How requests stand in a file that is handed in."""

    opening: bytes
    separator: bytes
    closing: bytes


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch is found again by, whatever became of the reply to its creation."""

    name: str
    """No other batch of anybody has it."""
    run_id: str
    requests: int
    at: float
    """Seconds since 1970 by our clock: it was created then or later."""
    now: float
    """Seconds since 1970 by our clock: it is looked for now."""


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """A file of requests on its way to the provider."""

    mark: Mark
    file: Path
    size: int
    """Bytes of the file."""
    upload_id: str = ""
    """What the provider calls the file, once it has it."""


class Found(msgspec.Struct, frozen=True):
    """A batch at the provider that bears a mark."""

    id: str
    is_certain: bool = True
    """False where only its size and time speak for it: then its results tell whose it is."""


class BatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as its provider describes it."""

    id: str
    word: str
    """In the provider's own words."""
    is_ended: bool = False
    is_refused: bool = False
    """It was not begun, because something is wrong with it."""
    is_full: bool = False
    """It was not begun only because as many requests are waiting as the provider takes."""
    total: int = 0
    done: int = 0
    """Requests that have an answer or an error."""
    problems: tuple[str, ...] = ()
    """Everything that the provider says is wrong with the batch as a whole."""
    files: tuple[str, ...] = ()
    """Paths at which its results are."""


class BatchResult(msgspec.Struct, frozen=True):
    """What a line of results says of one request."""

    custom_id: str
    said: Reply | ModelFailure


class Unreadable(Exception):
    """A line of results from which not even the request can be told."""


class Batchable(Protocol):
    """A model whose requests and answers can travel in files."""

    path: str
    decoder: "msgspec.json.Decoder[Any]"

    def request(self, ask: Ask) -> bytes:
        """The body of the request that asks it."""

    def read(self, exchanged: "Exchanged[Any]") -> Reply:
        """What a body says; raises ModelFailure."""


class ResultLine(Protocol):
    """A line of results in any provider's shape."""

    @property
    def custom_id(self) -> str:
        """The request that it is about."""


_Line = TypeVar("_Line", bound=ResultLine)


class BatchDesk(Protocol):
    """Where batches for one model are handed in and fetched; every method that asks the provider raises ModelFailure."""

    framing: Framing

    def line(self, custom_id: str, ask: Ask) -> bytes:
        """One request as it stands in the file."""

    async def upload(self, handover: Handover, /) -> str:
        """Bring the file to the provider and return its id there; empty where creating the batch does that."""

    async def create(self, handover: Handover, /) -> str:
        """Have the file worked on; returns the id of the batch. It costs money from here on."""

    async def find(self, mark: Mark) -> list[Found]:
        """The batches that may be the one with the mark, those that certainly are it first."""

    async def look(self, batch_id: str) -> BatchStatus:
        """How far a batch is."""

    async def cancel(self, batch_id: str) -> None:
        """Have no further request of a batch answered; those that are answered stay so."""

    async def fetch(self, path: str, sink: "Sink") -> None:
        """Give a file of results to the sink."""

    def read(self, line: bytes) -> BatchResult:
        """What a line of results says; raises Unreadable."""


class Sink(Protocol):
    """Where the bytes of a file go."""

    def __call__(self, piece: bytes, /) -> object:
        """One more piece."""


@asynccontextmanager
async def open_desk(
    provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str], keep_raw: bool
) -> AsyncIterator[BatchDesk]:
    """The desk of a provider for batches of one model; raises UsageProblem."""
    opening = Opening(provider=provider, environ=environ, keep_raw=keep_raw)
    home = import_module(f"assay.models.{_batches(provider.kind).home}")
    opened: AbstractAsyncContextManager[BatchDesk] = home.open_batches(opening, model)
    async with opened as desk:
        yield desk


def read_result(line: bytes, decoder: "msgspec.json.Decoder[_Line]", said: Callable[[_Line], Reply]) -> BatchResult:
    """What a line of results says, with the provider's own way to tell a reply from a failure; raises Unreadable."""
    try:
        found = decode_body(line, decoder).value
    except Undecodable as problem:
        raise Unreadable(str(problem)) from None
    try:
        return BatchResult(found.custom_id, said(found))
    except ModelFailure as failure:
        return BatchResult(found.custom_id, failure)


def checked_id(value: str, transport: "Transport") -> str:
    """An id as it may stand in a path: what a provider calls something must not lead anywhere else. Raises ModelFailure."""
    if not _ID.fullmatch(value) or ".." in value:
        raise ModelFailure("internal_error", f"'{transport.endpoint.provider}' named something by an id that is none")
    return value


def earliest(mark: Mark, date: str) -> float:
    """Since when, by the provider's clock, a batch with the mark may exist; `date` is the header that tells that clock.

    Ours may be wrong, and a batch that is not found is paid for twice: what counts is how long ago it was, by the earlier clock.
    """
    age = mark.now - mark.at
    if age < 0:
        # Our clock was set back, so that nobody knows how long ago it was.
        return 0.0
    try:
        told = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        told = mark.now
    return min(told, mark.now) - age - SKEW


def pieces_of(file: Path) -> Iterator[bytes]:
    """The bytes of a file, a piece at a time."""
    with file.open("rb") as source:
        while piece := source.read(PIECE):
            yield piece
