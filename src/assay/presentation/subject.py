"""What a run is about and who takes part in it: the facts of every report, and the plan of a run that is not started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import get_args

import msgspec

from assay import api
from assay.core.artifact_lines import AttemptLine
from assay.core.checks import PassRule, PassShare
from assay.core.contract import file_stem
from assay.core.gate_text import gate_texts
from assay.core.graders import CategoryScale, GraderPlan
from assay.core.manifest import BatchEntry, LimitOrigin, Manifest
from assay.core.model_call import OMITTED, Adjustment
from assay.core.open_fields import Audience, add_counts
from assay.core.plan import DatasetPlan, ImportPlan, ModelPlan, Plan
from assay.core.provider import PROVIDERS
from assay.core.settings import TokenPrice
from assay.presentation.decisions import default_gates_text
from assay.presentation.sections import Cell, Column, Fact, Section, Table
from assay.presentation.validation import AUDIENCES, field_lines
from assay.presentation.words import (
    DASH,
    assumption_text,
    batch_text,
    counted,
    dollars,
    estimate_text,
    first_datasets,
    plugin_words,
    rate,
)

Words = tuple[str, tuple[str, ...]]
"""A label, and the words that belong to it."""
NAME_LIMIT = 120
"""Characters of a name that a report in text shows."""
_NAMED = ("dataset", "candidate", "judge")
"""Labels of names that others gave, which may be of any length."""
_SHORT = {AUDIENCES["candidate_and_judge"]: "sent"}
GRADER_CALL = "grader"
"""Call of a grader of one's own, which stands among those of judges."""
_FORMS = {"reply_format": "reply format", "system": "instructions as"}
"""Adjustments of the form of requests, which are not parameters."""
_LIMIT_ORIGINS: dict[LimitOrigin, str] = {
    "user": "as set",
    "provider": "the model's maximum as its provider states it",
    "model": "the model's own maximum",
}
_ODD_LINES = {"duplicates": "repeated", "unknown": "unknown", "malformed": "unreadable"}
"""Lines of results of batches that became nothing."""


def subject_facts(plan: Plan, manifest: Manifest, *, has_candidate: bool = True) -> tuple[Fact, ...]:
    """Return what was asked, who answered, who graded, and where it comes from, as facts."""
    return tuple(
        Fact(label, " · ".join(words), limit=NAME_LIMIT if label in _NAMED else 0, parts=words)
        for label, words in subject(plan, manifest, has_candidate=has_candidate)
    )


def subject(plan: Plan, manifest: Manifest, *, has_candidate: bool = True) -> Iterator[Words]:
    """Yield what was asked, who answered, who graded, and where it comes from."""
    datasets, more = first_datasets(plan.datasets)
    for dataset in datasets:
        yield "dataset", dataset.words
    if more:
        yield "datasets", (more,)
    if has_candidate:
        yield "candidate", candidate_words(plan)
        yield from _output_limit(plan, manifest)
    yield from graders(plan)
    yield from negotiated_words(manifest)
    yield from sent_fields(plan)
    if plan.imported is not None:
        yield "imported", imported_words(plan.imported)
    if manifest.batches:
        yield "batches", tuple(batch_words(manifest.batches))
    # A rescored run made no call, so it cannot be called a repetition even where its parent was one.
    if manifest.rescored_from is not None:
        yield "rescored", (f"from {manifest.rescored_from.run_id}, without any call",)
    elif plan.parent_run_id:
        what = (
            "the comparisons of {} with an error; the others are as they were"
            if plan.comparison
            else "the records of {} with an error"
        )
        yield "repeats", (what.format(plan.parent_run_id),)


def _output_limit(plan: Plan, manifest: Manifest) -> Iterator[Words]:
    """Yield the longest answer of a candidate that was called, and who limited it; earlier versions did not record it."""
    found = next((model for model in manifest.negotiated if model.model == plan.candidate.name), None)
    if found is not None and _has_output_limit(plan):
        yield "max output", (_limit_text(found.output_limit, found.output_limit_origin),)


def _has_output_limit(plan: Plan) -> bool:
    """Return whether the candidate is a model that is called, rather than a script or a recording."""
    rows = [PROVIDERS[provider.kind] for provider in plan.providers if provider.name == plan.candidate.provider]
    is_called = plan.response_source == "sampled" and plan.comparison is None and plan.imported is None
    return is_called and any(row.has_parameters and not row.is_repeatable for row in rows)


def _limit_text(tokens: int | None, origin: LimitOrigin) -> str:
    if tokens is None:
        return "the model's own maximum"
    return f"{tokens:,} tokens, {_LIMIT_ORIGINS[origin]}"


def negotiated_words(manifest: Manifest) -> Iterator[Words]:
    """Yield what providers rejected, and what the models were sent instead; a setting of the user is noted by itself."""
    candidate = manifest.candidate.name
    for model in manifest.negotiated:
        # Of several steps of one parameter the last one is what was sent.
        steps = {one.parameter: one for one in model.adjustments if one.is_loss or one.parameter in _FORMS}
        limit = steps.get("max_tokens")
        if limit is not None and limit.value != OMITTED and model.model == candidate and model.output_limit_origin == "provider":
            # Shown as `max output` already.
            del steps["max_tokens"]
        shown = [_adjusted(one) for one in steps.values()]
        if shown:
            yield "adjusted", (model.model, *dict.fromkeys(shown))
        for one in model.adjustments:
            if one.is_explicit and one.is_loss:
                yield "note", (f"{model.model} rejects {one.parameter}, which was set: {_adjusted(one)}; it says: {one.reason}",)


def _adjusted(adjustment: Adjustment) -> str:
    """Return `without temperature`, `max_tokens 64,000`, or `reply format json_object`."""
    if adjustment.value == OMITTED:
        return f"without {adjustment.parameter}"
    value = f"{int(adjustment.value):,}" if adjustment.value.isdecimal() else adjustment.value
    return f"{_FORMS.get(adjustment.parameter, adjustment.parameter)} {value}"


def sent_fields(plan: Plan) -> Iterator[Words]:
    """Fields of the datasets that no model or only judges are sent; code of one's own sees whole records, and says it itself."""
    if plan.imported or plan.comparison or any(own_code(plan)):
        return
    is_turns = {dataset.contract for dataset in plan.datasets} == {"conversation_v1"}
    for label, text in field_lines(add_counts(dataset.fields for dataset in plan.datasets), "turn" if is_turns else "record"):
        yield _SHORT.get(label, label), (text,)


def graders(plan: Plan) -> Iterator[Words]:
    """Yield who graded: checks, several graders, judges, and code of one's own."""
    if plan.checks:
        yield "checks", (", ".join(check.title for check in plan.checks), _pass_words(plan.pass_rule))
    for grader in plan.graders:
        yield "grader", _grader_words(grader)
    for judge in plan.judges:
        yield "judge", model_words(judge)
    yield from own_code(plan)


def _grader_words(grader: GraderPlan) -> tuple[str, ...]:
    """Return `form · primary · checks equals, short · all must pass`."""
    head = (grader.name, *(("primary",) if grader.is_primary else ()))
    if grader.kind == "checks":
        return (*head, f"checks {', '.join(check.title for check in grader.checks)}", _pass_words(grader.pass_rule))
    if grader.kind == "plugin":
        return (*head, f"plugin {grader.plugin}")
    if grader.prompt is None:
        return (*head, f"judge {grader.judge}")
    scale = (
        "categories " + ", ".join(grader.scale.categories) if isinstance(grader.scale, CategoryScale) else f"scale {grader.scale}"
    )
    return (*head, f"judge {grader.judge}", f"prompt {grader.prompt.id}", scale)


def _pass_words(rule: PassRule) -> str:
    if isinstance(rule, PassShare):
        return f"{rate(rule.at_least)} of the weights must pass"
    return "all must pass" if rule == "all" else "one must pass"


def own_code(plan: Plan) -> Iterator[Words]:
    """Yield the policy and the grader of a run; a policy that grades is both."""
    for plugin in plan.plugins:
        if plugin.kind in ("policy", "grader"):
            grades = ("grades too",) if plugin.kind == "policy" and plugin.grades else ()
            yield plugin.kind, (*plugin_words(plugin), *grades)


def grading_word(plan: Plan) -> str:
    """Return what the figures of grading are about: judges, unless the run's own grader is called in their place."""
    # A grader that asks judges is part of their figures; one that decides alone takes their place in them.
    is_called = any(plugin.grades and not plugin.asks_judges for plugin in plan.plugins)
    return "grader" if is_called else "judge"


def stage_word(attempt: AttemptLine) -> str:
    """Return who was called: `candidate`, `judge`, or `grader` for code of one's own."""
    return GRADER_CALL if attempt.call_id.partition(":")[0] == GRADER_CALL else attempt.stage


def candidate_words(plan: Plan) -> tuple[str, ...]:
    """Return the candidate, and where its answers come from if it was not called."""
    sources = {} if plan.imported else {"prefilled": "answers from a file", "part_of_conversation": "recorded answers"}
    source = "answers of finished runs" if plan.comparison else sources.get(plan.response_source, "")
    return model_words(plan.candidate, source=source)


def model_words(model: ModelPlan, *, source: str = "") -> tuple[str, ...]:
    """Return `gpt`, `openai/gpt-6-luna`, `temperature 0`."""
    # The path of a recording says less than the name that it was given.
    address = f"{model.provider}/{model.model}" if model.provider not in ("", "replay", model.model) else ""
    # No model was called for a given answer, so these parameters were never sent.
    given: dict[str, object] = {} if source else msgspec.to_builtins(model.parameters)
    # Manifests have them in the order of their names; so has a plan that is not stored yet.
    parameters = [f"{name.replace('_', ' ')} {_plain(value)}" for name, value in sorted(given.items()) if value not in (None, {})]
    price = () if model.price is msgspec.UNSET or source else (price_words(model.price),)
    return tuple(filter(None, (model.name, address if address != model.name else "", source, *parameters, *price)))


def price_words(price: TokenPrice) -> str:
    """Return `price as set: $2.5 in, $10 out per million tokens`."""
    return f"price as set: ${price.input:g} in, ${price.output:g} out per million tokens"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def batch_words(batches: Sequence[BatchEntry]) -> Iterator[str]:
    """Yield what became of the batches: how many requests were answered, and what became of the others."""
    taken = [batch for batch in batches if batch.status != "failed"]
    errors = Counter[str]()
    for batch in taken:
        errors.update(batch.errors)
    total = {name: sum(getattr(batch, name) for batch in taken) for name in ("answered", "requests", "asked_live", *_ODD_LINES)}
    yield "1 batch" if len(taken) == 1 else f"{len(taken):,} batches"
    yield f"{total['answered']:,} of {counted(total['requests'], 'request')} answered"
    if errors:
        yield ", ".join(f"{code} {count:,}" for code, count in sorted(errors.items()))
    if total["asked_live"]:
        yield f"{total['asked_live']:,} sent as single calls"
    for name, odd in _ODD_LINES.items():
        if total[name]:
            yield f"{counted(total[name], f'{odd} line')} of results"
    for batch in taken:
        yield from batch.problems


def imported_words(imported: ImportPlan) -> tuple[str, ...]:
    """Return where an imported run comes from: `from inspect_ai 0.3.285`, `scorer includes (0/1)`, `capitals.eval`."""
    tool = f"from {imported.tool} {imported.version}".strip()
    scorer = f"scorer {imported.scorer} ({imported.scale})" if imported.scorer else "no scorer"
    files = [PurePath(file.name).name for file in imported.files]
    more = [f"and {len(files) - 3:,} more files"] if len(files) > 3 else []
    # Runs that were imported by earlier versions do not say it.
    incomplete = [f"incomplete: {'; '.join(imported.incomplete)}"] if imported.incomplete else []
    return tool, scorer, *files[:3], *more, *incomplete


# A run that is not started: its datasets, models, limits and gates

TEXT_LIMIT = 400
_FALLBACKS = {"live": "sent as single calls at full price", "fail": "their records end in an error"}
"""What becomes of requests that a batch leaves without an answer."""
_SOURCES = {"sampled": "called in this run", "prefilled": "answers from {path}", "part_of_conversation": "recorded answers"}


def plan_document(planned: api.PlannedRuns, estimate: api.CostEstimate) -> dict[str, object]:
    """Return the plans as plain values; there is no key in them."""
    fields = add_counts(dataset.fields for dataset in planned.plans[0].datasets)
    return {
        "runs_dir": planned.runs_dir,
        "valid_records": planned.valid_records,
        "invalid_records": planned.invalid_records,
        "judged_records": planned.judged_records,
        "estimate": msgspec.to_builtins(estimate),
        "notes": list(planned.notes),
        "output_limits": [
            {"model": plan.candidate.name, "output_limit": limit, "origin": "model" if limit is None else "user"}
            for plan in planned.plans
            if _has_output_limit(plan)
            for limit in (plan.candidate.parameters.max_tokens,)
        ],
        # Every audience has its member, also without fields, so that a consumer of the JSON need not test for it.
        **{audience: dict(fields.get(audience, {})) for audience in get_args(Audience)},
        "plans": [msgspec.to_builtins(plan) for plan in planned.plans],
    }


def plan_section(planned: api.PlannedRuns, estimate: api.CostEstimate) -> Section:
    """Return what a run would do, as facts."""
    facts = tuple(Fact(label, text, limit=TEXT_LIMIT) for label, text in _lines(planned, estimate))
    return Section(title="Dry run", heading=(Cell("dry run"), Cell("no model was called")), facts=facts)


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
    yield "gates", (", ".join(_gates(first)) or "none") + default_gates_text(first)
    yield "runs in", planned.runs_dir
    for note in planned.notes:
        yield "note", note


def _subjects(planned: api.PlannedRuns) -> Iterator[tuple[str, str]]:
    """Yield what is asked, who answers, and who grades."""
    first = planned.plans[0]
    datasets, more = first_datasets(first.datasets)
    for dataset in datasets:
        yield "dataset", _planned_dataset(dataset)
    if more:
        yield "datasets", more
    yield "records", _records(planned, first)
    for plan in planned.plans:
        source = _SOURCES[plan.response_source].format(path=plan.responses_path)
        yield "candidate", f"{_model(plan.candidate)} · {source} · run {plan.run_id}"
    for number, text in enumerate(dict.fromkeys(_planned_limits(planned))):
        yield "" if number else "max output", text
    for label, words in graders(first):
        yield label, " · ".join(words)
    for label, words in sent_fields(first):
        yield label, " · ".join(words)
    if first.has_panel:
        yield "panel", _panel(first)


def _planned_limits(planned: api.PlannedRuns) -> Iterator[str]:
    """Yield the longest answer of each candidate that is called; one text for all that have the same."""
    plans = [plan for plan in planned.plans if _has_output_limit(plan)]
    limits = {plan.candidate.parameters.max_tokens for plan in plans}
    for plan in plans:
        text = _limit_text(plan.candidate.parameters.max_tokens, "user")
        yield text if len(limits) == 1 else f"{plan.candidate.name}: {text}"


def _planned_dataset(dataset: DatasetPlan) -> str:
    split = f" · only {dataset.split_field} = {dataset.split_value}" if dataset.split_field else ""
    limit = f" · the first {dataset.limit:,}" if dataset.limit else ""
    # A name that repeats the id or the file adds nothing.
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
    return " · ".join(model_words(model))


def _panel(plan: Plan) -> str:
    # Without a quorum every judge has to vote.
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
    return [gate.asked for gate in gate_texts(plan.gates, None)]


def estimate_table(estimate: api.CostEstimate) -> Table:
    """Return a row for each model that a run would call."""
    rows = tuple(
        (
            Cell(model.model),
            Cell("candidate" if model.stage == "candidate" else "judge"),
            Cell(f"{model.calls:,}"),
            Cell(f"{model.input_tokens:,}"),
            Cell(f"{model.output_tokens:,}"),
            _model_cost(model),
        )
        for model in estimate.models
    )
    columns = (
        Column("Model"),
        Column("As"),
        Column("Calls", "Before any retry.", is_number=True),
        Column("Tokens sent", "Of the prompts that would be sent, at 4 bytes each.", is_number=True),
        Column(
            "Tokens back",
            f"At {estimate.answer_tokens:,} for an answer, {estimate.verdict_tokens:,} for a verdict.",
            is_number=True,
        ),
        Column("Cost", "Tokens times the listed price, in US dollars.", is_number=True),
    )
    return Table(title="Cost by model", columns=columns, rows=rows)


def _model_cost(model: api.ModelEstimate) -> Cell:
    if model.is_free:
        return Cell("free", "A scripted, recorded or local model.")
    if model.cost is None:
        return Cell("unknown price", "The price list does not have this model.", tone="warn")
    return Cell(dollars(model.cost) if model.cost else DASH)
