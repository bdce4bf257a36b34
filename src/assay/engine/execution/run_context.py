"""Shared state of a run's records in one process: its environment, models, scheduler, ledger, counters and capacity."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from assay.core.case import Case
from assay.core.model_call import Adjustment, ModelRequest, Reply
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.plugin import Plugin
from assay.core.provider import PROVIDERS
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.engine.execution.limits import CallQueue, CallScheduler
from assay.engine.execution.parameter_trial import ParameterTrial
from assay.engine.execution.record_events import Observer, RecordEventEmitter
from assay.engine.execution.rejections import Rejection
from assay.engine.execution.shared_scheduler import open_scheduler
from assay.engine.planning.attachments import attachment_reader
from assay.engine.planning.dataset_inputs import DatasetInput, make_room_for_handles
from assay.engine.planning.plugins import OpenPlugins
from assay.engine.planning.responses import open_responses
from assay.engine.records.parameters import read_adjustments
from assay.engine.records.redaction import redactor_of
from assay.engine.records.run_counters import RunCounters, Snapshot
from assay.grading import GradingSettings, settings_of
from assay.models import Model, asked_models, open_models
from assay.models.prices import pricing
from assay.models.provider_protocol import negotiator_of
from assay.models.requests import request_addressing
from assay.store.cache import ReplyCache
from assay.store.ledger import SHARD_BYTES, SHARD_SIZE, Claim, ClaimLost, CommitEntry, Ledger

LINGER = 0.010
"""Seconds that the first entry of a group waits for others."""

P = ParamSpec("P")
T = TypeVar("T")


class LedgerWriter:
    """Thread that owns the ledger; all asynchronous code accesses the ledger through it."""

    def __init__(self, ledger: Ledger, *, on_cancel: Callable[[], object], linger: float = LINGER) -> None:
        self.ledger = ledger
        self._on_cancel = on_cancel
        self.fenced: set[Claim] = set()
        """Claims that the ledger refused because another worker has claimed their shards since."""
        self._linger = linger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-ledger")
        self._pending: dict[Claim, list[CommitEntry]] = {}
        self._group: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._is_due = False
        """True when the next group must be written as soon as the current write has ended."""

    async def append(self, claim: Claim, entries: Sequence[CommitEntry], *, is_urgent: bool = False) -> None:
        """Append entries and return when they are on disk; raises ClaimLost when another worker has the shard, or StoreUnavailable.

        Urgent entries are grouped only with those that are appended in the same pass of the event loop.
        """
        loop = asyncio.get_running_loop()
        if self._group is None:
            self._group = loop.create_future()
            self._timer = loop.call_later(self._linger, self._flush)
        if is_urgent and not self._is_due:
            self._is_due = True
            loop.call_soon(self._flush)
        self._pending.setdefault(claim, []).extend(entries)
        await self._group
        if claim in self.fenced:
            raise ClaimLost(f"shard {claim.shard} was taken over")

    def _flush(self) -> None:
        self._is_due = self._is_writing
        if self._group is None or self._timer is None or self._is_writing:
            return
        group, entries = self._group, self._pending
        self._timer.cancel()
        self._group, self._timer, self._pending = None, None, {}
        self._is_writing = True
        committed = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, entries)
        committed.add_done_callback(lambda done: self._settle(group, done))

    def _settle(self, group: asyncio.Future[None], done: asyncio.Future[None]) -> None:
        self._is_writing = False
        if done.cancelled():
            # The event loop is closing; callers are cancelled too.
            group.cancel()
            return
        problem = done.exception()
        if problem is None and not group.cancelled():
            group.set_result(None)
        elif problem is not None and not group.cancelled():
            group.set_exception(problem)
        if self._is_due:
            self._flush()

    # Runs in the ledger's thread. `on_cancel` must therefore be thread-safe.
    def _commit(self, groups: dict[Claim, list[CommitEntry]]) -> None:
        for claim, entries in groups.items():
            try:
                if self.ledger.append(claim, entries):
                    self._on_cancel()
            except ClaimLost:
                self.fenced.add(claim)

    async def check_cancel(self) -> None:
        """Find out whether the run was cancelled while nothing is appended."""
        if (await self.call(self.ledger.run)).is_cancel_requested:
            self._on_cancel()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the ledger's thread, for every access other than `append`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def close(self) -> None:
        """Write the pending entries, even though no caller waits for them any more, and end the thread."""
        if self._timer is not None:
            self._timer.cancel()
            written = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, self._pending)
            # Errors are ignored: no caller is left to receive them, and unsaved calls are repeated when the run is resumed.
            await asyncio.gather(written, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)


MAX_OPEN = 2_000
"""Maximum open records, including those between two rounds; bounds memory while a provider is down."""
MAX_BYTES = 128 << 20
"""Bytes of open records from which on no further shard starts, regardless of the concurrency: 128 records of 1 MiB."""


class InFlightRecords:
    """Number and bytes of the records that one worker evaluates at present."""

    def __init__(self, concurrency: int) -> None:
        self.open = 0
        self.bytes = 0
        self.waiting = 0
        """Records between two rounds, which hold no call slot."""
        self.only_retries = asyncio.Event()
        """Set when every record that is still open is in a second or third round."""
        self._first_rounds = 0
        self._retrying = 0
        self._is_complete = False
        self._concurrency = concurrency
        self._max_open = max(MAX_OPEN, 4 * concurrency)
        self._changed = asyncio.Event()

    async def reserve(self) -> None:
        """Wait until the open records leave slots idle, and reserve capacity for one more shard."""
        while self.open - self.waiting >= self._concurrency or self.open >= self._max_open or self.bytes >= MAX_BYTES:
            self._changed.clear()
            await self._changed.wait()
        # The shard is not read yet: reserve for a full one, which `add_shard` replaces by its real size.
        self.open += SHARD_SIZE
        self.bytes += SHARD_BYTES

    def add_shard(self, sizes: Collection[int]) -> None:
        """Replace a reservation by the sizes, in bytes, of the shard's open records."""
        self.open += len(sizes) - SHARD_SIZE
        self.bytes += sum(sizes) - SHARD_BYTES
        self._first_rounds += len(sizes)
        self._changed.set()

    @property
    def is_retrying_all(self) -> bool:
        """True when every open record is in a second or third round."""
        return bool(self._retrying) and not self._first_rounds

    def complete(self) -> None:
        """Record that no further shard will start."""
        self._is_complete = True
        self._check_only_retries()

    def begin_retries(self) -> None:
        """Record that a record's first round has ended and another follows."""
        self._first_rounds -= 1
        self._retrying += 1
        self._check_only_retries()

    def end_rounds(self, *, is_retrying: bool) -> None:
        """Record that a record has ended; `is_retrying` when it had more than one round."""
        self._retrying -= is_retrying
        self._first_rounds -= not is_retrying
        self._check_only_retries()

    def pause(self) -> None:
        """Record that a record begins to wait for its next round."""
        self.waiting += 1
        self._changed.set()

    def resume(self) -> None:
        """Record that a record's wait has ended."""
        self.waiting -= 1

    def remove_record(self, size: int) -> None:
        """Subtract a record of this many bytes that has ended."""
        self.open -= 1
        self.bytes -= size
        self._changed.set()

    def _check_only_retries(self) -> None:
        if self._is_complete and self.is_retrying_all:
            self.only_retries.set()


class RunEnvironment(msgspec.Struct, kw_only=True):
    """Everything that a run takes from outside: environment variables, clocks, randomness, event loop, callbacks, signals."""

    environ: Mapping[str, str]
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.perf_counter
    """Monotonic seconds, for the duration of calls."""
    chance: Callable[[], float] = random.random
    """Returns a uniform number in 0..1, for the jitter of waits."""
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Makes the run's event loop; None is the fastest one that is installed."""
    watch: Callable[[Snapshot], None] | None = None
    """Called a few times a second with the run's counters."""
    on_busy: Callable[[int | None], None] | None = None
    """Called once, with the other's process id if known, when this process waits for another that works on the run."""
    inputs: Sequence[DatasetInput] | None = None
    """Datasets, when the caller has just read them."""
    takes_signals: bool = False
    """Ctrl-C, SIGTERM and SIGHUP drain the run; a second one stops it at once."""
    answers: Callable[[str, int], Reply] | None = None
    """Returns a supplied answer by case id and sample, for answers that are in no file."""
    earlier_judge_reply: Callable[[str, str], Reply | None] | None = None
    """Returns a judge's reply from an earlier run, by record hash and call id; None when the judge must be called."""
    observe: Observer | None = None
    """Called with each finished record."""
    is_stopping: Callable[[], bool] | None = None
    """Called a few times a second; True drains the run. For callers that handle signals themselves."""
    plugins: Sequence[Plugin] = ()
    """Plugins that the caller has loaded or supplied; the plan's others are loaded."""
    is_detached: bool = False
    """True when a provider's batches are submitted and polled once, without waiting for them."""
    placement: RunBackend = LOCAL_BACKEND
    is_patient: bool = True
    """True when this process waits while another works on the run."""
    is_retried: bool = False
    """True when the caller or another server resumes the run after an outage, so that an outage does not make the run `failed`."""
    driver: str = ""
    """Name under which this process owns a run with a shared ledger."""


class Route(msgspec.Struct, frozen=True):
    """One model of the plan: its client, its queue for calls, and how its replies are addressed and priced."""

    name: str
    """Model's name in the plan."""
    model: Model
    queue: CallQueue
    address: Callable[[ModelRequest], str]
    """Returns the content address of a request to this model, which is its key in the cache."""
    cost: Callable[[Reply], float | None]
    is_cacheable: bool = True
    """True when replies may be read from and written to the cache."""
    is_repeatable: bool = False
    """True when a repeated call costs nothing, so that its reply is written together with the outcome."""
    trial: ParameterTrial | None = None
    """Keeps the first calls apart until the provider has accepted their parameters; None for a model that is sent none."""

    @property
    def refused_parameters(self) -> tuple[str, ...]:
        """Parameters that are not sent as planned, because the provider rejected them."""
        negotiator = negotiator_of(self.model)
        return () if negotiator is None else negotiator.sent.refused


class RunContext(msgspec.Struct, kw_only=True):
    """State and functions that all cases of a run share."""

    plan: Plan
    settings: GradingSettings
    routes: Mapping[str, Route]
    ledger_writer: LedgerWriter
    scheduler: CallScheduler
    counters: RunCounters
    in_flight: InFlightRecords
    stop: asyncio.Event
    """Set when no new call may be made."""
    attachments: Callable[[Case], Awaitable[Mapping[str, str]]]
    """Returns the text of a case's attachments by path; raises GradingFailure when one has changed since the run was planned."""
    responses: Callable[[str, int], Reply] | None = None
    """Returns a supplied answer by case id and sample; replaces calls to the candidate."""
    earlier_judge_reply: Callable[[str, str], Reply | None] | None = None
    """Returns a judge's reply from the run that this one repeats, by record hash and call id; None when there is none."""
    rejection: Rejection = msgspec.field(default_factory=Rejection)
    """Filled when a provider rejects all further calls."""
    cache: ReplyCache | None = None
    event_emitter: RecordEventEmitter | None = None
    """Reports each record to the run's observer once its outcome is on disk."""
    chance: Callable[[], float]
    clock: Callable[[], float]
    stopwatch: Callable[[], float]


class RunInterrupted(Exception):
    """Interruption of a run before its end; it can be resumed."""


@asynccontextmanager
async def open_run_context(
    ledger: Ledger, plan: Plan, environment: RunEnvironment, *, stop: asyncio.Event
) -> AsyncIterator[RunContext]:
    """Open what the cases of a run share in this process; raises UsageProblem or MissingExtra."""
    make_room_for_handles(plan.concurrency + len(environment.inputs or ()))
    plugins = OpenPlugins(plan, environment.plugins)
    cache = ReplyCache(Path(plan.cache_dir), redactor=redactor_of(plan, environment.environ)) if plan.cache_dir else None
    ledger_writer = LedgerWriter(ledger, on_cancel=partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
    try:
        async with (
            open_models(plan, environ=environment.environ, functions=plugins.functions()) as models,
            open_scheduler(ledger, plan, clock=environment.stopwatch, stop=stop) as scheduler,
        ):
            learned = await ledger_writer.call(_learned, ledger)
            for name, model in models.items():
                negotiator = negotiator_of(model)
                if negotiator is not None:
                    negotiator.is_strict = plan.strict_parameters
                    negotiator.apply(learned.get(name, ()))
            counters = await ledger_writer.call(_tally, ledger, plan, started=environment.clock())
            if plan.max_cost is not None:
                scheduler.limit_cost(counters, plan.max_cost)
            context = _build_run_context(
                plan, environment, ledger_writer=ledger_writer, models=models, counters=counters, scheduler=scheduler
            )
            context.settings, context.cache = grading_settings(plan, plugins), cache
            # In a thread: a large file of answers takes a while to read, and other runs may share the event loop.
            context.responses = environment.answers or await asyncio.to_thread(open_responses, plan)
            yield context
    finally:
        await ledger_writer.close()
        if cache is not None:
            cache.close()


def _build_run_context(
    plan: Plan,
    environment: RunEnvironment,
    *,
    ledger_writer: LedgerWriter,
    models: Mapping[str, Model],
    counters: RunCounters,
    scheduler: CallScheduler,
) -> RunContext:
    inputs, observe = environment.inputs, environment.observe
    return RunContext(
        plan=plan,
        settings=settings_of(plan),
        routes={
            model.name: _route(plan, model, models[model.name], scheduler=scheduler, environment=environment)
            for model in (*asked_models(plan), *filter(None, (plan.called_grader(),)))
            if model.name in models
        },
        ledger_writer=ledger_writer,
        scheduler=scheduler,
        counters=counters,
        in_flight=InFlightRecords(plan.concurrency),
        stop=scheduler.stop,
        attachments=attachment_reader(plan, inputs[0].attachments if inputs else None, stop=scheduler.stop),
        earlier_judge_reply=environment.earlier_judge_reply,
        event_emitter=None
        if observe is None
        else RecordEventEmitter(observe, plan, environ=environment.environ, clock=environment.clock),
        chance=environment.chance,
        clock=environment.clock,
        stopwatch=environment.stopwatch,
    )


def grading_settings(plan: Plan, plugins: OpenPlugins) -> GradingSettings:
    """Return the settings of prompts and grading, the same for single calls and for batches."""
    return plugins.into(settings_of(plan))


def _learned(ledger: Ledger) -> Mapping[str, Sequence[Adjustment]]:
    """Read what earlier workers learned about the models' parameters."""
    return read_adjustments(ledger.run().notes)


def _tally(ledger: Ledger, plan: Plan, *, started: float) -> RunCounters:
    counts = ledger.counts()
    opened = counts.pop("open", 0)
    done = sum(counts.values())
    spent = ledger.spent() if plan.max_cost is not None or plan.batch is not None else 0.0
    return RunCounters(done + opened, counts, started=started, cost=spent, done_before=done)


def _route(plan: Plan, model: ModelPlan, opened: Model, *, scheduler: CallScheduler, environment: RunEnvironment) -> Route:
    provider = next(provider for provider in plan.providers if provider.name == model.provider)
    return Route(
        name=model.name,
        model=opened,
        queue=scheduler.new_queue(model.provider, "candidate" if model is plan.candidate else "judge"),
        address=request_addressing(provider, model, environ=environment.environ),
        cost=_cost(provider, model, environment) if model != plan.called_grader() else _free,
        is_cacheable=PROVIDERS[provider.kind].is_kept,
        is_repeatable=PROVIDERS[provider.kind].is_repeatable,
        trial=None if negotiator_of(opened) is None else ParameterTrial(),
    )


def _cost(provider: ProviderPlan, model: ModelPlan, environment: RunEnvironment) -> Callable[[Reply], float | None]:
    return pricing(provider, model, environ=environment.environ, clock=environment.clock)


def _free(_: Reply) -> float:
    """Return the price of a call to a custom grader: none."""
    return 0.0
