"""What a run would do, without a call: its datasets, models, limits and gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from assay import api
from assay.core.contract import file_stem
from assay.core.gate_text import gate_texts
from assay.core.open_fields import Audience, add_counts
from assay.core.plan import DatasetPlan, ModelPlan, Plan
from assay.presentation.run_decision import default_gates_text
from assay.presentation.run_subject import graders, model_words, sent_fields
from assay.presentation.sections import Fact, Section
from assay.presentation.words import assumption_text, batch_text, counted, dollars, estimate_text, first_datasets

TEXT_LIMIT = 400
_FALLBACKS = {"live": "sent as single calls at full price", "fail": "their records end in an error"}
"""What becomes of requests that a batch leaves without an answer."""
_SOURCES = {"sampled": "called in this run", "prefilled": "answers from {path}", "part_of_conversation": "recorded answers"}


def plan_document(planned: api.PlannedRuns, estimate: api.CostEstimate) -> dict[str, Any]:
    """The plans as plain values; there is no key in them."""
    fields = add_counts(dataset.fields for dataset in planned.plans[0].datasets)
    return {
        "runs_dir": planned.runs_dir,
        "valid_records": planned.valid_records,
        "invalid_records": planned.invalid_records,
        "judged_records": planned.judged_records,
        "estimate": msgspec.to_builtins(estimate),
        "notes": list(planned.notes),
        **{audience: dict(fields.get(audience, {})) for audience in get_args(Audience)},
        "plans": [msgspec.to_builtins(plan) for plan in planned.plans],
    }


def plan_section(planned: api.PlannedRuns, estimate: api.CostEstimate) -> Section:
    """What a run would do, as facts."""
    facts = tuple(Fact(label, text, limit=TEXT_LIMIT) for label, text in _lines(planned, estimate))
    return Section(title="Dry run", facts=facts)


def _lines(planned: api.PlannedRuns, estimate: api.CostEstimate) -> Iterator[tuple[str, str]]:
    first = planned.plans[0]
    yield from _subjects(planned)
    if first.profile:
        yield (
            "profile",
            f"{first.profile} · {'errors as the benchmark counts them' if first.compat else 'errors have no score'}",
        )
    yield "calls", _calls(planned, estimate)
    yield "cost", " · ".join(part for part in (estimate_text(estimate), assumption_text(estimate)) if part)
    for model in estimate.models:
        if model.batches:
            yield "batches", batch_text(model)
    if first.batch is not None:
        yield "unanswered", _FALLBACKS[first.batch.fallback]
    yield "limits", _limits(first)
    yield "gates", (", ".join(_gates(first)) or "none") + default_gates_text(msgspec.to_builtins(first))
    yield "runs in", planned.runs_dir
    for note in planned.notes:
        yield "note", note


def _subjects(planned: api.PlannedRuns) -> Iterator[tuple[str, str]]:
    """What is asked, who answers, and who grades."""
    first = planned.plans[0]
    datasets, more = first_datasets(first.datasets)
    for dataset in datasets:
        yield "dataset", _dataset(dataset)
    if more:
        yield "datasets", more
    yield "records", _records(planned, first)
    for plan in planned.plans:
        source = _SOURCES[plan.response_source].format(path=plan.responses_path)
        yield "candidate", f"{_model(plan.candidate)} · {source} · run {plan.run_id}"
    for label, words in graders(msgspec.to_builtins(first)):
        yield label, " · ".join(words)
    for label, words in sent_fields(msgspec.to_builtins(first)):
        yield label, " · ".join(words)
    if len(first.judges) > 1:
        yield "panel", _panel(first)


def _dataset(dataset: DatasetPlan) -> str:
    split = f" · only {dataset.split_field} = {dataset.split_value}" if dataset.split_field else ""
    limit = f" · the first {dataset.limit:,}" if dataset.limit else ""
    name = "" if dataset.name in (dataset.dataset_id, file_stem(dataset.file)) else f" · {dataset.name}"
    return f"{dataset.dataset_id} · {dataset.dataset_version} · {dataset.contract}{name}{split}{limit} · {dataset.path}"


def _records(planned: api.PlannedRuns, plan: Plan) -> str:
    parts = [f"{planned.valid_records:,} to evaluate"]
    parts += [f"{plan.repeat} times each"] if plan.repeat > 1 else []
    parts += [f"{planned.invalid_records:,} invalid"] if planned.invalid_records else []
    parts += [f"a sample of {plan.sample:,} with seed {plan.seed}"] if plan.sample else []
    parts += [f"the first {plan.limit:,}"] if plan.limit else []
    return " · ".join(parts)


def _model(model: ModelPlan) -> str:
    return " · ".join(model_words(msgspec.to_builtins(model)))


def _panel(plan: Plan) -> str:
    wanted = plan.panel.quorum or len(plan.judges)
    votes = f"at least {wanted} of {len(plan.judges)} judges must vote" if wanted < len(plan.judges) else "every judge must vote"
    order = f"{plan.judges[0].name} first, the others where it is unsure" if plan.panel.escalate else "all are called"
    return f"{order} · {votes} · the majority or the median counts"


def _calls(planned: api.PlannedRuns, estimate: api.CostEstimate) -> str:
    """Calls without retries: the very ones that the cost is reckoned for."""
    asked = {stage: sum(model.calls for model in estimate.models if model.stage == stage) for stage in ("candidate", "judge")}
    plan, grader = planned.plans[0], planned.plans[0].grader()
    # A first judge who is not sure calls in the others, and a grader asks as often as it likes.
    is_least = plan.panel.escalate or (grader is not None and grader.asks_judges)
    words = "at least " * is_least + "about " * (estimate.sampled < estimate.records)
    of_judges = f"{words}{asked['judge']:,} of judges" if asked["judge"] else "none of judges"
    return f"{counted(asked['candidate'], 'call')} of candidates · {of_judges} · before any retry"


def _limits(plan: Plan) -> str:
    parts = [f"{plan.concurrency:,} calls in flight", f"{plan.retry.max_attempts} attempts per record"]
    parts += [f"no new call after {dollars(plan.max_cost)}"] if plan.max_cost is not None else []
    for provider in plan.providers:
        parts += [f"{provider.name} {provider.requests_per_minute:g} calls a minute"] if provider.requests_per_minute else []
        parts += [f"{provider.name} {provider.tokens_per_minute:g} tokens a minute"] if provider.tokens_per_minute else []
    return " · ".join(parts)


def _gates(plan: Plan) -> list[str]:
    return [gate.asked for gate in gate_texts(msgspec.structs.asdict(plan.gates), None)]
