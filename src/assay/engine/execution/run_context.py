"""The environment of a run: what it takes from the process and the caller."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from assay.core.model_call import Reply
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.plugin import Plugin
from assay.core.provider import PROVIDERS
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.engine.execution.case import Route, RunContext
from assay.engine.execution.in_flight import InFlightRecords
from assay.engine.execution.ledger_writer import LedgerWriter
from assay.engine.execution.limits import CallScheduler
from assay.engine.execution.record_events import Observer, RecordEventEmitter
from assay.engine.execution.shared_scheduler import open_scheduler
from assay.engine.planning.attachments import attachment_reader
from assay.engine.planning.dataset_inputs import DatasetInput, make_room_for_handles
from assay.engine.planning.plugins import OpenPlugins
from assay.engine.planning.responses import open_responses
from assay.engine.records.redaction import redactor_of
from assay.engine.records.run_counters import RunCounters, Snapshot
from assay.grading import GradingSettings, settings_of
from assay.models import Model, asked_models, open_models
from assay.models.prices import pricing
from assay.models.requests import request_addressing
from assay.store.cache import ReplyCache
from assay.store.ledger import Ledger


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
    """The datasets, when the caller has just read them."""
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
    """True when the caller or another server resumes the run after an outage, so that an outage is no failure of the run."""
    driver: str = ""
    """Name under which this process owns a run with a shared ledger."""


class RunInterrupted(Exception):
    """The run was stopped before its end and can be resumed."""


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
    )


def _cost(provider: ProviderPlan, model: ModelPlan, environment: RunEnvironment) -> Callable[[Reply], float | None]:
    return pricing(provider, model, environ=environment.environ, clock=environment.clock)


def _free(_: Reply) -> float:
    """Return the price of a call to a custom grader: none."""
    return 0.0
