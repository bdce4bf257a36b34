"""Approximate token counts for estimates."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import ceil, fsum

import msgspec

from assay.core.case import Case
from assay.core.model_call import ModelRequest, Reply, Stage, Usage
from assay.core.outcome import GradingFailure
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.provider import PROVIDERS
from assay.core.settings import BatchSettings
from assay.engine.planning.attachments import folder_of
from assay.engine.planning.dataset_inputs import DatasetInput, cases_of
from assay.engine.planning.plans import PlannedRuns
from assay.engine.planning.plugins import OpenPlugins
from assay.engine.planning.selection import merged, rules_of, selector_for
from assay.grading import GradingSettings, settings_of, start
from assay.models.batch_api import batch_limits
from assay.models.prices import is_paid, tariff_of, usage_cost

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of a prompt per token: correct for English, and close for other languages."""
ANSWER_TOKENS = 400
VERDICT_TOKENS = 150


SAMPLED = 400
"""Maximum records whose prompts are built; of more records, evenly spaced ones are taken."""
LINE_BYTES = 200
"""Approximate bytes of a batch request besides its messages."""

_ANSWER = Reply(text="x" * ANSWER_TOKENS * BYTES_PER_TOKEN)
"""Placeholder for the candidate's answer in the prompts of judges."""


class ModelEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated calls, tokens and cost of one model."""

    stage: Stage
    model: str
    calls: int
    """Calls without retries; judges that are called only when another is unsure are not counted."""
    input_tokens: int
    output_tokens: int
    """Assumed output tokens, or the model's maximum if that is lower."""
    cost: float | None
    """US dollars; None when the price is unknown."""
    is_free: bool = False
    """True for a scripted, recorded or local model, whose calls cost nothing."""
    batches: int = 0
    """Approximate number of provider batches for these calls; 0 for single calls."""
    live_cost: float | None = None
    """For calls in batches, their cost as single calls."""
    is_assumed: bool = False
    """True when the price of batches is not listed; half the usual price is assumed."""


class CostEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated cost of the runs of one request."""

    models: tuple[ModelEstimate, ...]
    calls: int
    cost: float | None
    """US dollars for all calls; None when some price is unknown."""
    known_cost: float
    """US dollars for the calls with a known price."""
    records: int
    """Records that would be evaluated."""
    sampled: int
    """Records whose prompts were built for this estimate; the others are assumed to be alike."""
    answer_tokens: int = ANSWER_TOKENS
    verdict_tokens: int = VERDICT_TOKENS


class _ModelLoad(msgspec.Struct):
    """Requests of the sampled records to one model."""

    calls: int = 0
    bytes: int = 0


_Loads = dict[tuple[Stage, str], _ModelLoad]


def estimate_cost(planned: PlannedRuns, *, environ: Mapping[str, str], now: float) -> CostEstimate:
    """Estimate the calls and cost of planned runs; no model is called."""
    # With the plugins of the request, as they may change what is asked.
    settings = [OpenPlugins(plan, planned.plugins).into(settings_of(plan)) for plan in planned.plans]
    loads: list[_Loads] = [{} for _ in planned.plans]
    sampled = 0
    for case, attachments in _sample(planned):
        sampled += 1
        for own, load in zip(settings, loads, strict=True):
            _add_asks(case, own, attachments=attachments, loads=load)
    pricing = _CostPricer(environ, datetime.fromtimestamp(now, UTC))
    # From the sample to all records.
    scale = planned.valid_records / max(sampled, 1)
    models: list[ModelEstimate] = []
    for plan, load in zip(planned.plans, loads, strict=True):
        models += pricing.models(plan, load, scale * plan.repeat)
    costs = [model.cost for model in models if model.cost is not None]
    return CostEstimate(
        models=tuple(models),
        calls=sum(model.calls for model in models),
        cost=fsum(costs) if len(costs) == len(models) else None,
        known_cost=fsum(costs),
        records=planned.valid_records,
        sampled=sampled,
    )


_Texts = dict[str, str]


def _sample(planned: PlannedRuns) -> Iterator[tuple[Case, _Texts]]:
    """Yield evenly spaced selected cases with the texts of their attachments, one at a time to bound memory."""
    # Evenly spaced, since long records often stand together.
    step = max(1, ceil(planned.valid_records / SAMPLED))
    return ((case, _attachments(case, dataset)) for number, (case, dataset) in enumerate(_selected(planned)) if number % step == 0)


def _selected(planned: PlannedRuns) -> Iterator[tuple[Case, DatasetInput]]:
    """Yield the selected valid cases, in the order of the run."""
    rules = rules_of(planned.plans[0])
    selector = selector_for(rules, planned.inputs)
    for number, dataset in enumerate(planned.inputs):
        for entry in merged(cases_of(dataset, is_recorded=rules.is_recorded), dataset.broken):
            if selector.is_full:
                return
            # Invalid records take part in the selection by position, as in the run.
            if isinstance(entry, int):
                selector.takes(number, None, None)
            elif selector.takes(number, entry.id, entry.metadata):
                yield entry, dataset


def _attachments(case: Case, dataset: DatasetInput) -> _Texts:
    """Return the texts as read when the run was planned; a file that has changed since is reported by the run."""
    pinned = dataset.attachments.pinned(folder_of(dataset.plan), case.attachments)
    return {attachment.path: dataset.attachments.kept(attachment.sha256) or "" for attachment in pinned}


def _add_asks(case: Case, settings: GradingSettings, *, attachments: _Texts, loads: _Loads) -> None:
    """Add the requests to the candidate, and those to judges about an answer of the assumed length."""
    flow = start(case, settings, attachments=attachments)
    try:
        _add(next(flow), loads)
        # An answer of average length stands in for the candidate, so that the judges' prompts can be counted.
        _add(flow.send((_ANSWER,)), loads)
    except (StopIteration, GradingFailure):
        # Graded without a judge, or not to be graded at all.
        return
    flow.close()


def _add(asks: tuple[ModelRequest, ...], loads: _Loads) -> None:
    for ask in asks:
        # A given answer has no messages: no model is called for it.
        if ask.messages:
            load = loads.setdefault((ask.stage, ask.model), _ModelLoad())
            load.calls += 1
            load.bytes += sum(len(message.content.encode("utf-8", "replace")) for message in ask.messages)


class _CostPricer:
    """Converter of requests into tokens and dollars, by the prices at one time."""

    def __init__(self, environ: Mapping[str, str], at: datetime) -> None:
        self._environ = environ
        self._at = at

    def models(self, plan: Plan, loads: _Loads, scale: float) -> Iterator[ModelEstimate]:
        """Yield the estimate of the candidate and of each judge that is called."""
        named: tuple[tuple[Stage, ModelPlan], ...] = (
            ("candidate", plan.candidate),
            *(("judge", judge) for judge in plan.judges),
        )
        providers = {provider.name: provider for provider in plan.providers}
        for stage, model in named:
            load = loads.get((stage, model.name))
            if load is not None:
                provider = providers[model.provider]
                estimate = self._model(stage, model, provider=provider, load=load, scale=scale)
                takes_batches = PROVIDERS[provider.kind].batches is not None
                is_batched = stage == "candidate" and plan.batch is not None and takes_batches
                yield self._in_batches(estimate, plan, provider=provider, load=load) if is_batched else estimate

    def _in_batches(self, estimate: ModelEstimate, plan: Plan, *, provider: ProviderPlan, load: _ModelLoad) -> ModelEstimate:
        """Return the estimate for the same calls in provider batches."""
        limits = batch_limits(provider.kind, plan.batch or BatchSettings())
        size = (load.bytes / load.calls + LINE_BYTES) * estimate.calls
        tariff = tariff_of(provider, plan.candidate, environ=self._environ, at=self._at, is_batch=True)
        # A batch is priced by request, like live calls.
        used = Usage(input_tokens=estimate.input_tokens // estimate.calls, output_tokens=estimate.output_tokens // estimate.calls)
        each = None if tariff is None else usage_cost(tariff, used)
        return msgspec.structs.replace(
            estimate,
            batches=ceil(max(estimate.calls / limits.requests, size / limits.bytes)),
            live_cost=estimate.cost,
            cost=None if each is None else each * estimate.calls,
            is_assumed=tariff is not None and tariff.is_assumed,
        )

    def _model(self, stage: Stage, model: ModelPlan, *, provider: ProviderPlan, load: _ModelLoad, scale: float) -> ModelEstimate:
        answered = ANSWER_TOKENS if stage == "candidate" else VERDICT_TOKENS
        # A limit on tokens makes an answer shorter than the assumed one.
        answered = min(answered, model.parameters.max_tokens or answered)
        asked = ceil(load.bytes / BYTES_PER_TOKEN / load.calls)
        calls = round(load.calls * scale)
        is_free = not is_paid(provider)
        tariff = None if is_free else tariff_of(provider, model, environ=self._environ, at=self._at)
        each = 0.0 if is_free else None if tariff is None else usage_cost(tariff, Usage(input_tokens=asked, output_tokens=answered))
        return ModelEstimate(
            stage=stage,
            model=model.name,
            calls=calls,
            input_tokens=asked * calls,
            output_tokens=answered * calls,
            cost=None if each is None else each * calls,
            is_free=is_free,
        )
