"""Open records into files of requests that a provider takes as batches; each file is noted in the ledger before it is sent."""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.core.case import Case
from assay.core.model_call import ModelRequest, Usage
from assay.core.outcome import Attempt, CancelledOutcome, GradingFailure
from assay.core.plan import Plan
from assay.core.settings import BatchSettings
from assay.engine.planning.token_counts import ANSWER_TOKENS, BYTES_PER_TOKEN
from assay.grading import GradingSettings, start
from assay.models.batch_api import PIECE, BatchClient, BatchLimits
from assay.models.prices import Tariff, usage_cost
from assay.store.batch_store import BatchRequest, BatchRow, BatchStore
from assay.store.cache import ReplyCache
from assay.store.ledger import Ledger, OpenRecord

_decode_case = msgspec.json.Decoder(Case).decode


class SpoolConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a run are made from."""

    plan: Plan
    batch: BatchSettings
    settings: GradingSettings
    ledger: Ledger
    book: BatchStore
    desk: BatchClient
    limits: BatchLimits
    folder: Path
    """Where the files are, readable by nobody else."""
    name: str
    """Of this run among all that ever were, for the names of its batches and requests."""
    address: Callable[[ModelRequest], str]
    attachments: Callable[[Case], Awaitable[Mapping[str, str]]]
    clock: Callable[[], float]
    cache: ReplyCache | None
    tariff: Tariff | None
    """What requests of a batch cost; None where it is not known."""
    spent: float
    """US dollars that the run has cost, those of batches under way included."""
    stop: asyncio.Event
    """Set when no new batch is to be made."""


class _PendingRequest(NamedTuple):
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
        """The batches of all open records that are in none; a file is there, and noted, when its batch is given out."""
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

    def _note_too_large(self, asked: _PendingRequest, size: int) -> None:
        """The request is asked by itself, or its record fails."""
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

    def _line(self, file: "_RequestFile", asked: _PendingRequest) -> bytes:
        return self._from.desk.line(self._custom_id(file, asked), asked.ask)

    def _custom_id(self, file: "_RequestFile", asked: _PendingRequest) -> str:
        return hashlib.sha256(f"{self._from.name}:{file.number}:{asked.position}".encode()).hexdigest()[:32]

    async def _asked(self) -> AsyncIterator[_PendingRequest]:
        """What the candidate is to be asked, without what the cache knows and what there is no money for."""
        for shard in self._from.ledger.shards():
            opened = self._from.ledger.open_records(shard)
            sent = self._from.book.sent(opened[0].position, opened[-1].position) if opened else frozenset()
            unpaid: list[int] = []
            for record in opened:
                asked = None if record.position in sent or record.attempts else await self._of(record)
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

    async def _of(self, record: OpenRecord) -> _PendingRequest | None:
        case = _decode_case(record.case)
        try:
            texts = await self._from.attachments(case) if case.attachments else {}
            flow = start(case, self._from.settings, attachments=texts)
            ask = next(flow)[0]
            flow.close()
        except (StopIteration, GradingFailure):
            # Graded without an answer, or not to be graded at all: the usual way says so.
            return None
        # After a stop nobody reads attachments, so that an ask may lack them.
        if ask.stage != "candidate" or not ask.messages or self._from.stop.is_set():
            return None
        ask = msgspec.structs.replace(ask, sample=case.sample) if case.sample else ask
        address = self._from.address(ask)
        if self._from.cache is not None and self._from.cache.get(address) is not None:
            return None
        return _PendingRequest(record.position, ask, address, self._cost(ask))

    def _cost(self, ask: ModelRequest) -> float:
        if self._from.tariff is None:
            return 0.0
        sent = sum(len(message.content.encode("utf-8", "replace")) for message in ask.messages)
        said = self._from.plan.candidate.parameters.max_tokens or ANSWER_TOKENS
        return usage_cost(self._from.tariff, Usage(input_tokens=ceil(sent / BYTES_PER_TOKEN), output_tokens=said)) or 0.0

    def _is_over(self, asked: _PendingRequest) -> bool:
        most = self._from.plan.max_cost
        return most is not None and self._spent + asked.cost > most

    def _leave_out(self, positions: list[int]) -> None:
        if positions:
            message = f"the batches may cost {self._spent:.4f} of {self._from.plan.max_cost:.4f} US dollars, by estimate"
            self._from.book.close(positions, CancelledOutcome(code="budget_exhausted", message=message))


def spool_path(folder: Path, number: int) -> Path:
    """Where the requests of a batch are until it is handed in."""
    return folder / f"{number}.requests"


def is_intact(file: Path, row: BatchRow) -> bool:
    """True when the file is there as it was noted."""
    if not file.is_file() or file.stat().st_size != row.bytes:
        return False
    hashed = hashlib.sha256()
    with file.open("rb") as source:
        while piece := source.read(PIECE):
            hashed.update(piece)
    return hashed.hexdigest() == row.sha256


def private_file(path: Path) -> int:
    """A new empty file that only its owner can read, in the place of an older one."""
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

    def add(self, line: bytes, asked: _PendingRequest, *, custom_id: str) -> None:
        """One more request."""
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
        """Let go of the file; one that was not finished is nobody's."""
        self._stream.close()
        if not self._is_finished:
            self._path.unlink(missing_ok=True)

    def _write(self, content: bytes) -> None:
        self._stream.write(content)
        self._hashed.update(content)
        self.size += len(content)
