"""Requests of a batch on disk, and its results merged into attempts, each counted once."""

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.core.case import Case
from assay.core.model_call import ModelFailure, ModelRequest, Reply, Usage
from assay.core.outcome import Attempt, CancelledOutcome, GradingFailure
from assay.core.plan import Plan
from assay.core.settings import BatchSettings
from assay.engine.planning.estimate import ANSWER_TOKENS, BYTES_PER_TOKEN
from assay.grading import GradingSettings, start
from assay.models.batch_api import PIECE, BatchClient, BatchLimits, BatchResult, BatchStatus, MalformedResult
from assay.models.prices import Tariff, usage_cost
from assay.store.batch_store import BatchRequest, BatchRow, BatchStore
from assay.store.cache import NOT_CACHED, ReplyCache
from assay.store.ledger import Ledger, OpenRecord

_decode_case = msgspec.json.Decoder(Case).decode


class SpoolConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration for building the request files of a run."""

    plan: Plan
    batch: BatchSettings
    settings: GradingSettings
    ledger: Ledger
    book: BatchStore
    desk: BatchClient
    limits: BatchLimits
    folder: Path
    """Folder of the files, readable by its owner only."""
    name: str
    """Of this run among all that ever were, for the names of its batches and requests."""
    address: Callable[[ModelRequest], str]
    attachments: Callable[[Case], Awaitable[Mapping[str, str]]]
    clock: Callable[[], float]
    cache: ReplyCache | None
    tariff: Tariff | None
    """Price of tokens in batches; None when it is unknown."""
    spent: float
    """US dollars that the run has cost, those of batches under way included."""
    stop: asyncio.Event
    """Set when no new batch is to be made."""


class PendingRequest(NamedTuple):
    """A request that no batch holds yet."""

    position: int
    ask: ModelRequest
    address: str
    cost: float


class RequestSpooler:
    """Writes one file after the other, so that one is on the disk at a time."""

    def __init__(self, spooling: SpoolConfig) -> None:
        self._from = spooling
        self._framing = spooling.desk.framing
        self._most_requests, self._most_bytes = spooling.limits.requests, spooling.limits.bytes
        self._spent = spooling.spent

    async def rows(self) -> AsyncGenerator[BatchRow, None]:
        """Yield batches of the open records that are in none; a file exists, and is noted, when its batch is yielded."""
        file = self._new_file()
        try:
            async for asked in self._asked():
                line = self._line(file, asked)
                if len(line) + len(self._framing.opening) + len(self._framing.closing) > self._most_bytes:
                    self._note_too_large(asked, len(line))
                    continue
                if file.requests and not self._has_room(file, line):
                    yield self._noted(file)
                    file = self._new_file()
                    line = self._line(file, asked)
                file.add(line, asked, custom_id=self._custom_id(file, asked))
            if file.requests and not self._from.stop.is_set():
                yield self._noted(file)
        finally:
            file.close()

    async def first_request(self) -> PendingRequest | None:
        """Return the first request that no batch holds; None when there is none."""
        async for asked in self._asked():
            return asked
        return None

    def _note_too_large(self, asked: PendingRequest, size: int) -> None:
        """Handle a request that fits in no batch: it is sent directly, or its record fails."""
        attempt = Attempt(
            stage="candidate",
            call_id="candidate",
            round=1,
            started_at=self._from.clock(),
            latency_ms=0.0,
            model=self._from.plan.candidate.name,
            request_sha256=asked.address,
            error_code="batch_too_large",
            error_message=f"the request has {size:,} bytes, and a whole batch may have {self._most_bytes:,}",
            wait_s=0.0 if self._from.batch.fallback == "live" else None,
        )
        self._from.book.note([(asked.position, attempt)])

    def _has_room(self, file: "_RequestFile", line: bytes) -> bool:
        size = file.size + len(self._framing.separator) + len(line) + len(self._framing.closing)
        return len(file.requests) < self._most_requests and size <= self._most_bytes

    def _new_file(self) -> "_RequestFile":
        number = max((row.number for row in self._from.book.rows()), default=0) + 1
        return _RequestFile(spool_path(self._from.folder, number), number, self._framing.opening, self._framing.separator)

    def _noted(self, file: "_RequestFile") -> BatchRow:
        sha256 = file.finish(self._framing.closing)
        row = BatchRow(
            number=file.number,
            requests=len(file.requests),
            bytes=file.size,
            sha256=sha256,
            at=self._from.clock(),
            estimate=file.cost,
        )
        self._from.book.intend(row, file.requests)
        return row

    def _line(self, file: "_RequestFile", asked: PendingRequest) -> bytes:
        return self._from.desk.line(self._custom_id(file, asked), asked.ask)

    def _custom_id(self, file: "_RequestFile", asked: PendingRequest) -> str:
        return hashlib.sha256(f"{self._from.name}:{file.number}:{asked.position}".encode()).hexdigest()[:32]

    async def _asked(self) -> AsyncIterator[PendingRequest]:
        """Yield the candidate's requests that are neither cached nor over budget."""
        for shard in self._from.ledger.shards():
            opened = self._from.ledger.open_records(shard)
            sent = self._from.book.sent(opened[0].position, opened[-1].position) if opened else frozenset()
            unpaid: list[int] = []
            for record in opened:
                # A request whose parameters were rejected is sent again.
                is_done = record.position in sent or any(not attempt.is_rejection for attempt in record.attempts)
                asked = None if is_done else await self.request_of(record)
                if asked is None:
                    continue
                if self._is_over(asked):
                    unpaid.append(asked.position)
                else:
                    self._spent += asked.cost
                    yield asked
            self._leave_out(unpaid)
            # Yield so that signal handlers can run.
            await asyncio.sleep(0)
            if self._from.stop.is_set():
                return

    async def request_of(self, record: OpenRecord) -> PendingRequest | None:
        """Return the candidate's request about a record; None when it needs none, or its reply is cached."""
        case = _decode_case(record.case)
        try:
            texts = await self._from.attachments(case) if case.attachments else {}
            flow = start(case, self._from.settings, attachments=texts)
            ask = next(flow)[0]
            flow.close()
        except (StopIteration, GradingFailure):
            # Graded without an answer, or not to be graded at all: `run_case` handles it.
            return None
        # After a stop attachments are no longer read, so that a request may lack them.
        if ask.stage != "candidate" or not ask.messages or self._from.stop.is_set():
            return None
        ask = msgspec.structs.replace(ask, sample=case.sample) if case.sample else ask
        address = self._from.address(ask)
        if self._from.cache is not None and self._from.cache.get(address) is not None:
            return None
        return PendingRequest(record.position, ask, address, self._cost(ask))

    def _cost(self, ask: ModelRequest) -> float:
        if self._from.tariff is None:
            return 0.0
        sent = sum(len(message.content.encode("utf-8", "replace")) for message in ask.messages)
        answered = self._from.plan.candidate.parameters.max_tokens or ANSWER_TOKENS
        return usage_cost(self._from.tariff, Usage(input_tokens=ceil(sent / BYTES_PER_TOKEN), output_tokens=answered)) or 0.0

    def _is_over(self, asked: PendingRequest) -> bool:
        most = self._from.plan.max_cost
        return most is not None and self._spent + asked.cost > most

    def _leave_out(self, positions: list[int]) -> None:
        if positions:
            message = f"the batches may cost {self._spent:.4f} of {self._from.plan.max_cost:.4f} US dollars, by estimate"
            self._from.book.close(positions, CancelledOutcome(code="budget_exhausted", message=message))


def spool_path(folder: Path, number: int) -> Path:
    """Return the path of a batch's requests until it is submitted."""
    return folder / f"{number}.requests"


def is_intact(file: Path, row: BatchRow) -> bool:
    """Return True when the file exists with the noted content."""
    if not file.is_file() or file.stat().st_size != row.bytes:
        return False
    hashed = hashlib.sha256()
    with file.open("rb") as source:
        while piece := source.read(PIECE):
            hashed.update(piece)
    return hashed.hexdigest() == row.sha256


def private_file(path: Path) -> int:
    """Create an empty file that only its owner can read, replacing an older one."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


class _RequestFile:
    """A file of requests while it is being written."""

    def __init__(self, path: Path, number: int, opening: bytes, separator: bytes) -> None:
        self.number = number
        self.requests: list[BatchRequest] = []
        self.size = 0
        self.cost = 0.0
        self._separator = separator
        self._hashed = hashlib.sha256()
        self._path = path
        self._is_finished = False
        self._stream = os.fdopen(private_file(path), "wb")
        self._write(opening)

    def add(self, line: bytes, asked: PendingRequest, *, custom_id: str) -> None:
        """Add a request."""
        self._write(self._separator + line if self.requests else line)
        self.requests.append(BatchRequest(custom_id, asked.position, asked.address))
        self.cost += asked.cost

    def finish(self, closing: bytes) -> str:
        """Complete the file and return its hash."""
        self._write(closing)
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        self._is_finished = True
        return self._hashed.hexdigest()

    def close(self) -> None:
        """Close the file; remove one that was not finished."""
        self._stream.close()
        if not self._is_finished:
            self._path.unlink(missing_ok=True)

    def _write(self, content: bytes) -> None:
        self._stream.write(content)
        self._hashed.update(content)
        self.size += len(content)


GROUP = 250
"""Results per transaction."""
FETCHES = 3
"""Number of fetches of results that seem truncated before they are accepted as complete."""
BATCHED = "batched"
"""Flag of a reply from a batch, whose latency is unknown."""
MAX_LINE = 64 << 20
"""Maximum bytes of one line of results; a longer one is unreadable."""
_UNANSWERED = {"expired": "batch_expired", "cancelled": "batch_cancelled", "lost": "batch_lost", "uncertain": "batch_uncertain"}
UNANSWERED_MESSAGES = {
    "batch_expired": "the batch expired before the request was answered",
    "batch_cancelled": "the batch was cancelled before the request was answered",
    "batch_lost": "the provider has the batch or its results no more",
    "batch_uncertain": "the run was cancelled before it was known which batch of the provider has the request",
    "batch_missing": "the results of the batch have no line for the request",
}


class MergerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration for merging results as attempts."""

    plan: Plan
    book: BatchStore
    desk: BatchClient
    cost: Callable[[Reply], float | None]
    """Returns the cost of a reply from a batch."""
    cache: ReplyCache | None
    is_cancelled: Callable[[], bool]
    """Returns True when the run makes no more calls."""
    learn: Callable[[BatchRow, int, ModelFailure], ModelFailure]
    """Learns from the failure of a record's request in a batch which parameters the provider rejects."""


class TruncatedResults(Exception):
    """Raised when results are truncated and must be fetched again."""


class ForeignBatch(Exception):
    """Raised when results belong to a batch of another run."""


class Merger:
    """Merger of the results of one batch, file after file."""

    def __init__(self, merging: MergerConfig, row: BatchRow) -> None:
        self._from = merging
        self.row = msgspec.structs.replace(row, duplicates=0, unknown=0, malformed=0)
        self._seen: set[str] = set()
        self._lines = 0
        self._is_cut = False

    async def take(self, file: Path) -> None:
        """Merge a file of results; raises ForeignBatch for those of a batch that was taken for ours and is not."""
        group: list[BatchResult] = []
        for line in _lines(file):
            self._lines += 1
            try:
                group.append(self._from.desk.read(line))
            except MalformedResult:
                self._is_cut = not line.endswith(b"\n")
                self._count("malformed")
            if len(group) == GROUP:
                self._merge(group)
                group = []
                # Yield so that signal handlers can run.
                await asyncio.sleep(0)
        self._merge(group)

    def _merge(self, results: list[BatchResult]) -> None:
        known = self._from.book.requests(self.row.number, [result.custom_id for result in results])
        if not self.row.is_certain and results:
            if results[0].custom_id not in known:
                raise ForeignBatch
            self.row = msgspec.structs.replace(self.row, is_certain=True)
        attempts: list[tuple[BatchRequest, Attempt]] = []
        for result in results:
            request = known.get(result.custom_id)
            if request is None:
                self._count("unknown")
            elif result.custom_id in self._seen:
                self._count("duplicates")
            elif not request.is_answered:
                attempts.append((request, self._attempt(request, result.said)))
            self._seen.add(result.custom_id)
        self._add(attempts)

    def end(self, status: BatchStatus) -> BatchRow:
        """Note what is left without a result, and that the batch is done with; raises TruncatedResults where more must have
        come."""
        is_short = self._is_cut or self._lines < min(status.done, self.row.requests)
        if is_short and self.row.fetches < FETCHES and status.word not in ("lost", "uncertain"):
            raise TruncatedResults
        code = _UNANSWERED.get(status.word, "batch_missing")
        while left := self._from.book.unanswered(self.row.number, GROUP):
            self._add([(request, self._attempt(request, ModelFailure(code, UNANSWERED_MESSAGES[code]))) for request in left])
        self.row = msgspec.structs.replace(self.row, state="merged", status=status.word)
        self._from.book.save(self.row)
        return self.row

    def _add(self, attempts: list[tuple[BatchRequest, Attempt]]) -> None:
        errors = Counter(self.row.errors)
        errors.update(attempt.error_code for _, attempt in attempts if attempt.error_code)
        answered = self.row.answered + sum(attempt.reply is not None for _, attempt in attempts)
        is_asking = not self._from.is_cancelled()
        live = self.row.asked_live + sum(is_asking and attempt.wait_s is not None for _, attempt in attempts)
        self.row = msgspec.structs.replace(self.row, answered=answered, errors=dict(errors), asked_live=live)
        self._from.book.merge(self.row, attempts)

    def _count(self, name: str) -> None:
        self.row = msgspec.structs.replace(self.row, **{name: getattr(self.row, name) + 1})

    def _attempt(self, request: BatchRequest, result: Reply | ModelFailure) -> Attempt:
        attempt = Attempt(
            stage="candidate",
            call_id="candidate",
            round=1,
            started_at=self.row.at,
            latency_ms=0.0,
            model=self._from.plan.candidate.name,
            request_sha256=request.address,
            request_id=f"{self.row.batch_id}/{request.custom_id}",
        )
        if isinstance(result, ModelFailure):
            return self._failed(attempt, self._from.learn(self.row, request.position, result))
        flags = (*result.flags, BATCHED)
        if self._from.cache is not None and result.text and not self._from.cache.put(request.address, result):
            flags = (*flags, NOT_CACHED)
        reply = msgspec.structs.replace(result, flags=flags)
        return msgspec.structs.replace(attempt, reply=reply, cost=self._from.cost(result))

    def _failed(self, attempt: Attempt, failure: ModelFailure) -> Attempt:
        """Add a failure to an attempt; with `fallback = "live"` a single call repeats a request that the batch could not answer."""
        batch = self._from.plan.batch
        is_rejection = failure.is_negotiable and not self._from.is_cancelled()
        is_unanswered = failure.is_transient or failure.code in UNANSWERED_MESSAGES
        is_live = batch is not None and batch.fallback == "live" and is_unanswered and not is_rejection
        return msgspec.structs.replace(
            attempt,
            error_code=failure.code,
            error_message=failure.message,
            http_status=failure.http_status,
            wait_s=0.0 if is_live else None,
            is_rejection=is_rejection,
        )


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the non-empty lines; an overlong one in parts, to bound memory."""
    with file.open("rb") as source:
        while line := source.readline(MAX_LINE):
            if not line.isspace():
                yield line
