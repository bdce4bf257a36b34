"""Collection of the candidate's answers in provider batches: submitted, polled and merged; resumable at any moment.

A batch is noted in the ledger before anything of it leaves the machine, and its id as soon as it is known. After a crash in
between, it is looked for at the provider before it is handed in again, so that nothing is paid for twice.
"""

import asyncio
import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import msgspec

from assay.core.case import Case, Message
from assay.core.errors import ServerProblem
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.outcome import Attempt
from assay.core.plan import Plan, retry_delay
from assay.core.settings import BatchSettings
from assay.engine.execution.batch_requests import (
    ForeignBatch,
    Merger,
    MergerConfig,
    RequestSpooler,
    SpoolConfig,
    TruncatedResults,
    is_intact,
    private_file,
    spool_path,
)
from assay.engine.execution.run_context import RunEnvironment, grading_settings
from assay.engine.execution.run_ownership import GracefulShutdown
from assay.engine.planning.attachments import Attachments, attachment_reader
from assay.engine.planning.plugins import OpenPlugins
from assay.engine.records.parameters import read_adjustments, save_adjustments
from assay.engine.records.redaction import redactor_of
from assay.engine.records.run_counters import BatchProgress, RunCounters
from assay.grading import GradingSettings
from assay.models.batch_api import BatchKey, BatchStatus, BatchUpload, batch_limits, open_batch_client
from assay.models.negotiation import SentParameters
from assay.models.prices import pricing, tariff_of
from assay.models.requests import request_addressing
from assay.store.batch_store import NOTE, BatchRow, BatchStore
from assay.store.cache import ReplyCache
from assay.store.ledger import Ledger
from assay.store.sqlite import SqliteLedger

FOLDER = "batches"
"""Inside the run's working state: requests and results on their way, readable by their owner alone."""
NAME = "batch_name"
"""Note in the ledger with the prefix of the names of the run's batches."""
TRIES = 5
"""Maximum submissions of a batch before the run gives up for now."""
REFUSALS = frozenset({400, 401, 402, 403, 404, 413, 422, 429})
"""Statuses after which no batch was created for certain; after any other the provider is searched for it."""
FILE_REFUSALS = frozenset({400, 404, 413, 422})
"""Those of them that may be due to the file, which is then uploaded again."""
MISSES = 6
"""Failed polls of a batch in a row before a cancelled run is left as it is."""
PATIENCE = 200
"""The same for a run that is not cancelled: some hours, in which most outages of a provider or a network are over."""
LOST_LOOKS = 3
"""Looks in a row at which the provider knows no such batch, or has its results no more, before it is taken for lost."""
TRIED = "batch_tried"
"""Note in the ledger that the first record was asked by itself."""
TRIED_FROM = 100
"""Open records from which on the first one is asked by itself before the first batch."""
MAX_NEGOTIATIONS = 20
"""Rejections of parameters after which that request is left to the batch."""
SLOWEST = 4.0
"""Maximum factor by which the wait between two polls grows."""
_LOOK = 1.0
"""Seconds between two polls of the cancel flag."""
_REFRESH = 0.25


_ANY_REQUEST = ModelRequest(stage="candidate", call_id="candidate", model="", messages=(Message("system", ""),))
"""Stands for a request whose texts are not at hand; it may have had instructions."""


class CollectorConfig(msgspec.Struct, kw_only=True):
    """Configuration for submitting and collecting the batches of a run."""

    ledger: SqliteLedger
    plan: Plan
    settings: GradingSettings
    folder: Path
    """Folder with the run's working state."""
    environ: Mapping[str, str]
    clock: Callable[[], float]
    attachments: Attachments | None = None
    spent: Callable[[], float]
    """US dollars that the run has cost so far."""
    show: Callable[[BatchProgress], None] | None = None
    """Called a few times a second with the state of the batches."""
    is_stopping: Callable[[], bool] | None = None
    """Called a few times a second; True stops waiting for the batches."""
    takes_signals: bool = False
    is_detached: bool = False
    """Batches are submitted and polled once, without waiting for them."""


def collect(collecting: CollectorConfig) -> bool:
    """Bring the open records' answers from batches into the ledger; False when it was left before that was done.

    Raises ServerProblem when the provider refuses a batch or cannot be reached, and CancelledError at a second signal; the run can
    be resumed.
    """
    collection = _BatchCollector(collecting)
    asyncio.run(collection.run())
    return collection.is_complete


def has_open_batches(ledger: SqliteLedger) -> bool:
    """Return True when a batch of the run may be at the provider."""
    return any(row.state in ("submitting", "submitted") for row in BatchStore(ledger).rows())


class _BatchCollector:
    """Batches of one run while they are submitted and collected."""

    def __init__(self, collecting: CollectorConfig) -> None:
        self._from = collecting
        self._plan = collecting.plan
        self._batch = collecting.plan.batch or BatchSettings()
        self._provider = next(one for one in self._plan.providers if one.name == self._plan.candidate.provider)
        self._ledger = collecting.ledger
        self._book = BatchStore(collecting.ledger)
        self._folder = collecting.folder / FOLDER
        self._stop = asyncio.Event()
        self._cancelled: set[str] = set()
        """Batches for which a cancel was sent."""
        self._problem = ""
        """Reason why the last poll failed."""
        self._misses: Counter[int] = Counter()
        """Failed polls in a row, by the number of the batch."""
        self._retry_after = 0.0
        self._has_waiting = False
        """Requests wait until other batches of the run have ended."""
        self._sent: dict[int, SentParameters] = {}
        """What the requests of a batch contain besides their messages, by its number; known of batches that this process made."""
        self._has_rejected = False
        """Requests whose parameters were rejected wait for another batch."""
        self.is_complete = False
        self.is_interrupted = False

    async def run(self) -> None:
        """Submit and merge batches; return when every batch is merged, or when the run must stop."""
        redactor = redactor_of(self._plan, self._from.environ)
        cache = ReplyCache(Path(self._plan.cache_dir), redactor=redactor) if self._plan.cache_dir else None
        watcher = asyncio.create_task(self._watch())
        try:
            async with open_batch_client(
                self._provider, self._plan.candidate, environ=self._from.environ, keep_raw=self._plan.keep_raw
            ) as self._desk:
                with GracefulShutdown(self, self._stop) if self._from.takes_signals else nullcontext():
                    await self._work(cache)
        finally:
            watcher.cancel()
            self._show()
            if cache is not None:
                cache.close()

    async def _work(self, cache: ReplyCache | None) -> None:
        self._negotiator = self._desk.model.negotiator
        self._negotiator.is_strict = self._plan.strict_parameters
        self._negotiator.apply(read_adjustments(self._ledger.run().notes).get(self._plan.candidate.name, ()))
        cost = pricing(self._provider, self._plan.candidate, environ=self._from.environ, clock=self._from.clock, is_batch=True)
        self._merging = MergerConfig(
            plan=self._plan,
            book=self._book,
            desk=self._desk,
            cost=cost,
            cache=cache,
            is_cancelled=lambda: self._is_cancelled,
            learn=self._learn,
        )
        is_tried = self._book.rows() or TRIED in self._ledger.run().notes
        if not is_tried and self._ledger.counts().get("open", 0) >= TRIED_FROM:
            await self._try_parameters(self._spooler(cache))
            self._ledger.set_note(TRIED, "yes")
        while True:
            self._has_waiting = self._has_rejected = False
            await self._hand_in_left()
            if not self._is_cancelled and not self._stop.is_set():
                await self._hand_in_new(self._spooler(cache))
            await self._follow()
            if self._stop.is_set() or not (self._open_rows() or self._has_waiting or self._has_rejected):
                break
            if self._from.is_detached and self._is_handed_in():
                break
        is_waiting = self._has_waiting or self._has_rejected
        self.is_complete = not self._open_rows() and not self._stop.is_set() and not is_waiting
        self._ledger.set_note(NOTE, msgspec.json.encode(self._book.rows()).decode())

    def _learn(self, row: BatchRow, position: int, failure: ModelFailure) -> ModelFailure:
        """Learn which parameters a line's failure rejects; the request is then sent again in another batch."""
        negotiator = self._negotiator
        sent = self._sent.get(row.number, negotiator.planned)
        if self._is_cancelled or not negotiator.named(failure, sent, _ANY_REQUEST):
            return failure
        # An error that quotes a prompt must not be learned from; what is known already needs no look at the record.
        request = _ANY_REQUEST if sent != negotiator.sent else self._request_at(position)
        negotiator.rejected(failure, sent, request)
        self._check_strict(failure)
        save_adjustments(self._ledger, self._plan.candidate.name, failure.adjustments)
        self._has_rejected |= failure.is_negotiable
        return failure

    def _request_at(self, position: int) -> ModelRequest:
        """Return the texts of a record as a request, for comparing them with those of an error."""
        shards = self._ledger.shards()
        opened = next(one for shard in shards for one in self._ledger.open_records(shard) if one.position == position)
        case = msgspec.json.decode(opened.case, type=Case)
        texts = (case.prompt, *(message.content for message in case.messages))
        messages = tuple(Message("user", text) for text in texts)
        return msgspec.structs.replace(_ANY_REQUEST, messages=(*_ANY_REQUEST.messages, *messages))

    async def _try_parameters(self, spooler: RequestSpooler) -> None:
        """Ask the first record by itself, so that a rejected parameter costs no whole batch; any other failure is left to it."""
        asked = await spooler.first_request()
        price = pricing(self._provider, self._plan.candidate, environ=self._from.environ, clock=self._from.clock)
        for _ in range(MAX_NEGOTIATIONS if asked is not None and not self._is_cancelled else 0):
            assert asked is not None
            started, at = time.perf_counter(), self._from.clock()
            result: Reply | ModelFailure
            try:
                result = await self._desk.model.reply(asked.ask)
            except ModelFailure as failure:
                result = failure
            attempt = Attempt(
                stage="candidate",
                call_id="candidate",
                round=1,
                started_at=at,
                latency_ms=round((time.perf_counter() - started) * 1000, 3),
                model=self._plan.candidate.name,
                request_sha256=asked.address,
                request_id=result.request_id,
            )
            if isinstance(result, Reply):
                self._book.note([(asked.position, msgspec.structs.replace(attempt, reply=result, cost=price(result)))])
                return
            self._check_strict(result)
            if not result.is_negotiable:
                return
            save_adjustments(self._ledger, self._plan.candidate.name, result.adjustments)
            rejection = {"error_code": result.code, "error_message": result.message, "http_status": result.http_status}
            self._book.note([(asked.position, msgspec.structs.replace(attempt, is_rejection=True, **rejection))])

    def _check_strict(self, failure: ModelFailure) -> None:
        """Stop a run with strict parameters when its provider rejects one that the user set."""
        if failure.is_refused_setting:
            names = " and ".join(f"'{one.parameter}'" for one in failure.adjustments if one.is_explicit and one.is_loss)
            raise ServerProblem(
                f"the provider '{self._provider.name}' rejects {names}, which is set, and the run's parameters are strict: "
                f"{failure.message}",
                hint="leave the parameter out or set another value, or run without --strict-parameters",
            )

    def _is_handed_in(self) -> bool:
        """Submit new batches; return True when nothing remains. Raises ServerProblem when others must end first."""
        if self._has_waiting:
            raise ServerProblem(
                "not everything is handed in: the provider takes no more requests until earlier batches have ended",
                hint=f"progress is saved; collect these and submit the others with: assay resume {self._plan.run_id}",
            )
        return all(row.state == "submitted" for row in self._open_rows())

    def _spooler(self, cache: ReplyCache | None) -> RequestSpooler:
        plan, environ, provider = self._plan, self._from.environ, self._provider
        at = datetime.fromtimestamp(self._from.clock(), UTC)
        open_estimates = sum(row.estimate for row in self._open_rows())
        return RequestSpooler(
            SpoolConfig(
                plan=plan,
                batch=self._batch,
                settings=self._from.settings,
                ledger=self._ledger,
                book=self._book,
                desk=self._desk,
                limits=batch_limits(provider.kind, self._batch),
                folder=self._folder,
                name=self._name(),
                address=request_addressing(provider, plan.candidate, environ=environ),
                attachments=attachment_reader(plan, self._from.attachments, stop=self._stop),
                clock=self._from.clock,
                cache=cache,
                tariff=tariff_of(provider, plan.candidate, environ=environ, at=at, is_batch=True),
                spent=self._from.spent() + open_estimates,
                stop=self._stop,
            )
        )

    def _name(self) -> str:
        """Return the name prefix of all batches of the run; random, since run ids are reused."""
        name = self._ledger.run().notes.get(NAME, "")
        if not name:
            name = secrets.token_hex(12)
            self._ledger.set_note(NAME, name)
        return name

    def _open_rows(self) -> list[BatchRow]:
        return [row for row in self._book.rows() if row.state in ("spooled", "submitting", "submitted")]

    @property
    def _is_cancelled(self) -> bool:
        return self._ledger.run().is_cancel_requested

    # Handing in

    async def _hand_in_left(self) -> None:
        """Search for batches of an earlier process that may or may not have reached the provider."""
        for row in self._open_rows():
            if row.state == "submitted" or self._stop.is_set():
                continue
            if row.state == "submitting" or (is_intact(self._spool(row), row) and not self._is_cancelled):
                await self._hand_in(row)
            else:
                self._forget(row)

    async def _hand_in_new(self, spooler: RequestSpooler) -> None:
        rows = spooler.rows()
        try:
            async for row in rows:
                self._sent[row.number] = self._negotiator.sent
                await self._hand_in(row)
                if self._stop.is_set() or self._is_cancelled:
                    break
        finally:
            await rows.aclose()

    async def _hand_in(self, row: BatchRow) -> None:
        """Bring a batch to the provider once; raises ServerProblem when that cannot be done now."""
        for number in range(1, TRIES + 1):
            try:
                return await self._try_to_hand_in(row)
            except ModelFailure as failure:
                if not failure.is_transient or number == TRIES:
                    self._give_up(f"batch {row.number} could not be handed in", failure)
                self._problem = failure.message
                wait = retry_delay(self._plan.retry, number, chance=random.random(), retry_after=failure.retry_after)
                await self._pause(wait)
            if self._stop.is_set():
                return None
            row = self._noted(row)
        return None

    async def _try_to_hand_in(self, row: BatchRow) -> None:
        name, now = f"{self._name()}-{row.number}", self._from.clock()
        mark = BatchKey(name=name, run_id=self._plan.run_id, requests=row.requests, at=row.at, now=now)
        if row.state == "submitting":
            # The process may have died before it noted the batch's id.
            if await self._adopt(row, mark):
                return
            if self._stop.is_set():
                return
            if self._is_cancelled or not is_intact(self._spool(row), row):
                self._forget(row)
                return
        handover = BatchUpload(mark=mark, file=self._spool(row), size=row.bytes)
        if not row.upload_id:
            row = self._saved(row, upload_id=await self._desk.upload(handover))
        row = self._saved(row, state="submitting")
        try:
            batch_id = await self._desk.create(msgspec.structs.replace(handover, upload_id=row.upload_id))
        except ModelFailure as failure:
            if failure.http_status in REFUSALS:
                upload_id = "" if failure.http_status in FILE_REFUSALS else row.upload_id
                self._saved(row, state="spooled", upload_id=upload_id)
            raise
        self._saved(row, state="submitted", batch_id=batch_id)
        self._spool(row).unlink(missing_ok=True)
        self._problem = ""

    async def _adopt(self, row: BatchRow, mark: BatchKey) -> bool:
        """Look for the batch at the provider, twice: a request that was on its way may arrive after the first look."""
        for wait in (self._batch.poll_seconds, 0.0):
            found = [one for one in await self._desk.find(mark) if not self._is_other(one.id, row)]
            if found:
                self._saved(row, state="submitted", batch_id=found[0].id, is_certain=found[0].is_certain)
                if found[0].is_certain:
                    self._spool(row).unlink(missing_ok=True)
                return True
            await self._pause(wait)
        return False

    def _is_other(self, batch_id: str, row: BatchRow) -> bool:
        return batch_id in row.strangers or any(one.batch_id == batch_id for one in self._book.rows())

    def _forget(self, row: BatchRow) -> None:
        self._spool(row).unlink(missing_ok=True)
        self._book.forget(row.number)

    def _give_up(self, what: str, failure: ModelFailure) -> NoReturn:
        raise ServerProblem(
            f"{what}: {failure.message} ({failure.code})",
            hint=f"progress is saved and no call is paid for twice; resume with: assay resume {self._plan.run_id}",
        ) from failure

    # Collecting

    async def _follow(self) -> None:
        """Poll the batches until all of them have ended and are merged, or the run must stop."""
        wait = self._batch.poll_seconds
        while not self._stop.is_set():
            rows = [row for row in self._open_rows() if row.state == "submitted"]
            if self._is_cancelled:
                await self._cancel(rows)
            for row in rows:
                await self._look(row)
            if self._from.is_detached or not any(row.state == "submitted" for row in self._open_rows()):
                return
            await self._pause(max(wait * random.uniform(0.8, 1.2), self._retry_after))
            wait = min(wait * 1.25, SLOWEST * self._batch.poll_seconds)

    async def _cancel(self, rows: list[BatchRow]) -> None:
        """Ask the provider to cancel; requests answered by then are merged all the same."""
        for row in rows:
            if row.batch_id in self._cancelled or not row.is_certain:
                continue
            try:
                await self._desk.cancel(row.batch_id)
            except ModelFailure as failure:
                if failure.is_transient:
                    continue
                # A batch that has ended meanwhile refuses, and so does one that is gone: the next poll shows which.
            self._cancelled.add(row.batch_id)

    async def _look(self, row: BatchRow) -> None:
        self._retry_after = 0.0
        try:
            status = await self._desk.look(row.batch_id)
            row = self._saved(row, looks=row.looks + 1, status=status.word, done=status.done, problems=status.problems)
            self._problem = ""
            if status.is_refused:
                self._refuse(row, status)
            elif status.is_ended:
                await self._merge(row, status)
            elif self._is_cancelled and not row.is_certain:
                self._leave(row)
            else:
                # For an ended batch failures keep counting: a successful poll is worth nothing while its results cannot be fetched.
                self._saved(row, lost_looks=0)
                del self._misses[row.number]
        except ModelFailure as failure:
            await self._miss(row, failure)

    async def _miss(self, row: BatchRow, failure: ModelFailure) -> None:
        """Handle a failed poll: poll again later, unless the provider does not know the batch or refuses polls."""
        row = self._noted(row)
        self._problem, self._retry_after = failure.message, min(failure.retry_after or 0.0, self._plan.retry.max_delay)
        is_lost = failure.code == "not_found"
        if not is_lost and not failure.is_transient:
            self._give_up(f"batch {row.batch_id} could not be polled", failure)
        row = self._saved(row, failed_looks=row.failed_looks + 1, lost_looks=row.lost_looks + is_lost)
        self._misses[row.number] += 1
        if row.lost_looks >= LOST_LOOKS:
            self._lose(row)
        elif not is_lost and self._misses[row.number] >= (MISSES if self._is_cancelled else PATIENCE):
            self._give_up(f"batch {row.batch_id} could not be {'cancelled' if self._is_cancelled else 'collected'}", failure)

    def _lose(self, row: BatchRow) -> None:
        """Close a batch that the provider no longer has; one that was matched without proof says nothing about our requests."""
        if row.is_certain:
            self._close(row, "lost")
        else:
            self._pass_over(row)

    def _leave(self, row: BatchRow) -> None:
        """Leave a batch that may not be ours: a cancelled run neither cancels it nor waits for it."""
        problem = f"batch {row.batch_id} may not be ours, so that it was not cancelled"
        self._close(msgspec.structs.replace(row, problems=(problem,)), "uncertain")

    def _close(self, row: BatchRow, word: str) -> None:
        """Close a batch that yields no more results."""
        Merger(self._merging, row).end(BatchStatus(id=row.batch_id, word=word))
        self._spool(row).unlink(missing_ok=True)

    def _pass_over(self, row: BatchRow) -> None:
        """Resume the search for our batch."""
        strangers = (*row.strangers, row.batch_id)
        # The other batch's status does not apply to ours.
        changes = {"state": "submitting", "batch_id": "", "is_certain": True, "status": "", "done": 0, "problems": ()}
        self._saved(row, strangers=strangers, lost_looks=0, **changes)

    async def _merge(self, row: BatchRow, status: BatchStatus) -> None:
        """Fetch the results of a batch that has ended, and make attempts of them."""
        merger = Merger(self._merging, row)
        file = self._folder / f"{row.number}.results"
        try:
            for path in status.files:
                await self._fetch(path, file)
                await merger.take(file)
            if not merger.row.is_certain:
                raise ForeignBatch
            merger.row = self._saved(merger.row, fetches=merger.row.fetches + 1)
            merger.end(status)
        except ForeignBatch:
            self._pass_over(row)
        except TruncatedResults:
            # The next look fetches them again; what was merged stays merged.
            self._problem = f"the results of batch {row.batch_id} were cut off"
        else:
            self._spool(row).unlink(missing_ok=True)
        finally:
            file.unlink(missing_ok=True)

    async def _fetch(self, path: str, file: Path) -> None:
        with os.fdopen(private_file(file), "wb") as stream:
            full = _TransferWriter(stream.write)
            await self._desk.fetch(path, full.take)
        if full.problem is not None:
            raise full.problem

    def _refuse(self, row: BatchRow, status: BatchStatus) -> None:
        """Handle a batch that the provider did not start: its requests are free for another batch once the cause is gone."""
        self._book.release(msgspec.structs.replace(row, state="refused"))
        others = any(one.state == "submitted" for one in self._open_rows())
        if status.is_full and others:
            # When the others have ended, there is room for these.
            self._has_waiting = True
            return
        problem = "; ".join(status.problems) or "it does not say why"
        raise ServerProblem(
            f"the provider refused batch {row.batch_id} ({row.requests:,} requests): {problem}",
            hint=f"nothing of it was paid for; when the cause is fixed, resume with: assay resume {self._plan.run_id}",
        )

    # Waiting

    async def _pause(self, seconds: float) -> None:
        """Wait; a stop ends the wait, and so does a cancel request that is not handled yet."""
        end = asyncio.get_running_loop().time() + seconds
        was_cancelled = self._is_cancelled
        while (left := end - asyncio.get_running_loop().time()) > 0 and not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), min(left, _LOOK))
            if not was_cancelled and self._is_cancelled:
                return

    async def _watch(self) -> None:
        while True:
            if self._from.is_stopping is not None and self._from.is_stopping():
                self.is_interrupted = True
                self._stop.set()
            self._show()
            await asyncio.sleep(_REFRESH)

    def _show(self) -> None:
        if self._from.show is None:
            return
        rows = self._book.rows()
        progress = BatchProgress(
            batches=len(rows),
            merged=sum(row.state == "merged" for row in rows),
            requests=sum(row.requests for row in rows if row.state != "refused"),
            done=sum(row.answered + sum(row.errors.values()) if row.state == "merged" else row.done for row in rows),
            problem=self._problem,
            is_stopping=self._stop.is_set(),
        )
        self._from.show(progress)

    def _spool(self, row: BatchRow) -> Path:
        return spool_path(self._folder, row.number)

    def _noted(self, row: BatchRow) -> BatchRow:
        """Return the batch as it is in the ledger now."""
        return next(one for one in self._book.rows() if one.number == row.number)

    def _saved(self, row: BatchRow, **changes: object) -> BatchRow:
        changed = msgspec.structs.replace(row, **changes)
        self._book.save(changed)
        return changed


class _TransferWriter:
    """Writer of pieces to a file; a full disk is reported when the transfer is over, not in the middle of it."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self.problem: OSError | None = None

    def take(self, piece: bytes) -> None:
        """Write one more chunk."""
        if self.problem is None:
            try:
                self._write(piece)
            except OSError as problem:
                self.problem = problem


def collect_batches(ledger: Ledger, plan: Plan, *, folder: Path, environment: RunEnvironment, has_work: bool) -> bool:
    """Bring answers from batches into the ledger; those of a cancelled run too, as far as they are paid for.

    False when it was left before that was done. `folder` has the run's working state.
    """
    assert isinstance(ledger, SqliteLedger), "a run with batches has a ledger of its own"
    if not (has_work or has_open_batches(ledger)):
        return True
    collecting = CollectorConfig(
        ledger=ledger,
        plan=plan,
        settings=grading_settings(plan, OpenPlugins(plan, environment.plugins)),
        folder=folder,
        environ=environment.environ,
        clock=environment.clock,
        attachments=environment.inputs[0].attachments if environment.inputs else None,
        spent=lambda: ledger.spent() if plan.max_cost is not None else 0.0,
        show=_display(ledger, environment),
        is_stopping=environment.is_stopping,
        takes_signals=environment.takes_signals,
        is_detached=environment.is_detached,
    )
    return collect(collecting)


def _display(ledger: Ledger, environment: RunEnvironment) -> Callable[[BatchProgress], None] | None:
    """Return the callback that shows the progress of batches; None without a watcher."""
    watch, started = environment.watch, environment.clock()
    if watch is None:
        return None
    counts = ledger.counts()
    opened = counts.pop("open", 0)
    counters = RunCounters(sum(counts.values()) + opened, counts, started=started)

    def show(progress: BatchProgress) -> None:
        snapshot = counters.snapshot("running", environment.clock(), is_stopping=progress.is_stopping)
        watch(msgspec.structs.replace(snapshot, batch=progress))

    return show
