"""Merging of batch results into attempts: each request counts once, whatever order, gaps and repetitions the results have."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from assay.core.model_call import ModelFailure, Reply
from assay.core.outcome import Attempt
from assay.core.plan import Plan
from assay.models.batch_api import BatchClient, BatchResult, BatchStatus, MalformedResult
from assay.store.batch_store import BatchRequest, BatchRow, BatchStore
from assay.store.cache import NOT_CACHED, ReplyCache

GROUP = 250
"""Results per transaction."""
FETCHES = 3
"""Number of fetches of results that seem truncated before they are accepted as complete."""
BATCHED = "batched"
"""Flag of a reply from a batch, whose latency is unknown."""
MOST_LINE = 64 << 20
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
    """What results become attempts with."""

    plan: Plan
    book: BatchStore
    desk: BatchClient
    cost: Callable[[Reply], float | None]
    """Returns the cost of a reply from a batch."""
    cache: ReplyCache | None
    is_cancelled: Callable[[], bool]
    """Returns True when the run makes no more calls."""


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

    def _attempt(self, request: BatchRequest, said: Reply | ModelFailure) -> Attempt:
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
        if isinstance(said, ModelFailure):
            return self._failed(attempt, said)
        flags = (*said.flags, BATCHED)
        if self._from.cache is not None and said.text and not self._from.cache.put(request.address, said):
            flags = (*flags, NOT_CACHED)
        reply = msgspec.structs.replace(said, flags=flags)
        return msgspec.structs.replace(attempt, reply=reply, cost=self._from.cost(said))

    def _failed(self, attempt: Attempt, failure: ModelFailure) -> Attempt:
        """Add a failure to an attempt; with `fallback = "live"` a single call repeats a request that the batch could not answer."""
        batch = self._from.plan.batch
        is_live = batch is not None and batch.fallback == "live" and (failure.is_transient or failure.code in UNANSWERED_MESSAGES)
        return msgspec.structs.replace(
            attempt,
            error_code=failure.code,
            error_message=failure.message,
            http_status=failure.http_status,
            wait_s=0.0 if is_live else None,
        )


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the non-empty lines; an overlong one in parts, to bound memory."""
    with file.open("rb") as source:
        while line := source.readline(MOST_LINE):
            if not line.isspace():
                yield line
