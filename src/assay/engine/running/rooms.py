"""The room of a run: everything that its cases share, opened and closed in the same way on every engine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from assay.core.ask import Reply
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.provider import PROVIDERS
from assay.engine.planning.attachments import attachment_reader
from assay.engine.planning.handles import make_room_for_handles
from assay.engine.planning.plugins import OpenPlugins
from assay.engine.planning.responses import open_responses
from assay.engine.running.case import Room, Route
from assay.engine.running.crew import Crew
from assay.engine.running.journal import Journal
from assay.engine.running.leasing import open_limits
from assay.engine.running.limits import Limits
from assay.engine.running.observing import Watcher
from assay.engine.running.surroundings import Surroundings
from assay.engine.sealing.shown import redactor_of
from assay.engine.tally import Tally
from assay.grading import GradingSettings, settings_of
from assay.models import Model, asked_models, open_models
from assay.models.address import request_addressing
from assay.models.prices import pricing
from assay.store.cache import ReplyCache
from assay.store.ledger import Ledger


@asynccontextmanager
async def opened_room(ledger: Ledger, plan: Plan, surroundings: Surroundings, *, stop: asyncio.Event) -> AsyncIterator[Room]:
    """What the cases of a run share while a process works on them, until a stop; raises UsageProblem, MissingExtra."""
    make_room_for_handles(plan.concurrency + len(surroundings.inputs or ()))
    plugins = OpenPlugins(plan, surroundings.plugins)
    cache = ReplyCache(Path(plan.cache_dir), redactor=redactor_of(plan, surroundings.environ)) if plan.cache_dir else None
    journal = Journal(ledger, on_cancel=partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
    try:
        async with (
            open_models(plan, environ=surroundings.environ, functions=plugins.functions()) as models,
            open_limits(ledger, plan, clock=surroundings.stopwatch, stop=stop) as limits,
        ):
            tally = await journal.call(_tally, ledger, plan, started=surroundings.clock())
            if plan.max_cost is not None:
                limits.share_cost(tally, plan.max_cost)
            room = _furnished(plan, surroundings, journal=journal, models=models, tally=tally, limits=limits)
            room.settings, room.cache = grading_settings(plan, plugins), cache
            # A large file of answers takes a while to read, in which others are not to be kept waiting.
            room.responses = surroundings.answers or await asyncio.to_thread(open_responses, plan)
            yield room
    finally:
        await journal.close()
        if cache is not None:
            cache.close()


def _furnished(
    plan: Plan, surroundings: Surroundings, *, journal: Journal, models: Mapping[str, Model], tally: Tally, limits: Limits
) -> Room:
    inputs, observe = surroundings.inputs, surroundings.observe
    return Room(
        plan=plan,
        settings=settings_of(plan),
        routes={
            model.name: _route(plan, model, models[model.name], limits=limits, surroundings=surroundings)
            for model in (*asked_models(plan), *filter(None, (plan.called_grader(),)))
            if model.name in models
        },
        journal=journal,
        limits=limits,
        tally=tally,
        crew=Crew(plan.concurrency),
        stop=limits.stop,
        attachments=attachment_reader(plan, inputs[0].attachments if inputs else None, stop=limits.stop),
        judged=surroundings.judged,
        watcher=None if observe is None else Watcher(observe, plan, environ=surroundings.environ, clock=surroundings.clock),
        chance=surroundings.chance,
        clock=surroundings.clock,
        stopwatch=surroundings.stopwatch,
    )


def grading_settings(plan: Plan, plugins: OpenPlugins) -> GradingSettings:
    """What cases are asked and graded by, the same one by one and in batches."""
    return plugins.into(settings_of(plan))


def _tally(ledger: Ledger, plan: Plan, *, started: float) -> Tally:
    counts = ledger.counts()
    opened = counts.pop("open", 0)
    done = sum(counts.values())
    spent = ledger.spent() if plan.max_cost is not None or plan.batch is not None else 0.0
    return Tally(done + opened, counts, started=started, cost=spent, done_before=done)


def _route(plan: Plan, model: ModelPlan, opened: Model, *, limits: Limits, surroundings: Surroundings) -> Route:
    provider = next(provider for provider in plan.providers if provider.name == model.provider)
    return Route(
        name=model.name,
        model=opened,
        gate=limits.gate(model.provider, "candidate" if model is plan.candidate else "judge"),
        address=request_addressing(provider, model, environ=surroundings.environ),
        cost=_cost(provider, model, surroundings) if model != plan.called_grader() else _free,
        is_kept=PROVIDERS[provider.kind].is_kept,
        is_repeatable=PROVIDERS[provider.kind].is_repeatable,
    )


def _cost(provider: ProviderPlan, model: ModelPlan, surroundings: Surroundings) -> Callable[[Reply], float | None]:
    return pricing(provider, model, environ=surroundings.environ, clock=surroundings.clock)


def _free(_: Reply) -> float:
    """A grader of one's own has no price."""
    return 0.0
