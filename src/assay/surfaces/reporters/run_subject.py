"""Who took part in a run and what it is about: the same facts with the same labels in every report."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from assay.core.dataset_title import dataset_words
from assay.core.field_uses import added
from assay.core.manifest import BatchEntry, Manifest
from assay.surfaces.printable import printable
from assay.surfaces.reporters.imports import imported_words
from assay.surfaces.reporters.wording import AUDIENCES, counted, field_lines, first_datasets, plugin_words

Json = dict[str, Any]
Fact = tuple[str, tuple[str, ...]]
"""A label, and words that each report joins and cuts to its size."""
_SHORT = {AUDIENCES["candidate_and_judge"]: "sent"}
GRADER_CALL = "grader"
"""The call of a grader of one's own, which stands among those of judges."""
_ODD_LINES = {"duplicates": "repeated", "unknown": "unknown", "malformed": "unreadable"}
"""Lines of results of batches that became nothing."""


def subject(plan: Json, manifest: Manifest, *, has_candidate: bool = True) -> Iterator[Fact]:
    """What was asked, who answered, who graded, and where it comes from."""
    datasets, more = first_datasets(plan.get("datasets", ()))
    for dataset in datasets:
        yield "dataset", dataset_words(dataset)
    if more:
        yield "datasets", (more,)
    if has_candidate:
        yield "candidate", candidate_words(plan)
    yield from graders(plan)
    yield from sent_fields(plan)
    if plan.get("imported"):
        yield "imported", imported_words(plan["imported"])
    if manifest.batches:
        yield "batches", tuple(batch_words(manifest.batches))
    if manifest.rescored_from is not None:
        yield "rescored", (f"from {manifest.rescored_from.run_id}, without any call",)
    elif plan.get("parent_run_id"):
        what = (
            "the comparisons of {} with an error; the others are as they were"
            if plan.get("comparison")
            else "the records of {} with an error"
        )
        yield "repeats", (what.format(plan["parent_run_id"]),)


def sent_fields(plan: Json) -> Iterator[Fact]:
    """Fields of the datasets that no model or only judges are sent; code of one's own sees whole records, and says it itself."""
    if plan.get("imported") or plan.get("comparison") or any(own_code(plan)):
        return
    datasets = plan.get("datasets", ())
    is_turns = {dataset["contract"] for dataset in datasets} == {"conversation_v1"}
    for label, text in field_lines(added(dataset.get("fields", {}) for dataset in datasets), "turn" if is_turns else "record"):
        yield _SHORT.get(label, label), (text,)


def graders(plan: Json) -> Iterator[Fact]:
    """Who graded: judges, and code of one's own."""
    for judge in plan.get("judges", ()):
        yield "judge", model_words(judge)
    yield from own_code(plan)


def own_code(plan: Json) -> Iterator[Fact]:
    """The policy and the grader of a run; a policy that grades is both."""
    for plugin in plan.get("plugins", ()):
        if plugin["kind"] in ("policy", "grader"):
            grades = ("grades too",) if plugin["kind"] == "policy" and plugin.get("grades") else ()
            yield plugin["kind"], (*plugin_words(plugin), *grades)


def grading_word(plan: Json) -> str:
    """What the figures of grading are about: judges, unless the run's own grader is called in their place."""
    is_called = any(plugin.get("grades") and not plugin.get("asks_judges") for plugin in plan.get("plugins", ()))
    return "grader" if is_called else "judge"


def stage_word(attempt: Json) -> str:
    """Who was called: `candidate`, `judge`, or `grader` for code of one's own."""
    return GRADER_CALL if attempt["call_id"] == GRADER_CALL else str(attempt["stage"])


def candidate_words(plan: Json) -> tuple[str, ...]:
    """The candidate, and where its answers come from if nobody asked it for them."""
    sources = {} if plan.get("imported") else {"prefilled": "answers from a file", "part_of_conversation": "recorded answers"}
    source = "answers of finished runs" if plan.get("comparison") else sources.get(plan.get("response_source", ""), "")
    return model_words(plan["candidate"], source=source)


def model_words(model: Json, *, source: str = "") -> tuple[str, ...]:
    """`gpt`, `openai/gpt-5-mini`, `temperature 0`."""
    # The path of a recording says less than the name that it was given.
    address = f"{model['provider']}/{model['model']}" if model["provider"] not in ("", "replay") else ""
    # Nobody was asked for a given answer, so that nothing was asked for with these parameters.
    given = {} if source else model.get("parameters") or {}
    parameters = [f"{name.replace('_', ' ')} {_plain(value)}" for name, value in given.items() if value not in (None, {})]
    return tuple(filter(None, (model["name"], address if address != model["name"] else "", source, *parameters)))


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def batch_words(batches: Sequence[BatchEntry]) -> Iterator[str]:
    """What became of the batches: how many requests were answered, and what became of the others."""
    taken = [batch for batch in batches if batch.status != "failed"]
    errors = Counter[str]()
    for batch in taken:
        errors.update(batch.errors)
    total = {name: sum(getattr(batch, name) for batch in taken) for name in ("answered", "requests", "asked_live", *_ODD_LINES)}
    yield "1 batch" if len(taken) == 1 else f"{len(taken):,} batches"
    yield f"{total['answered']:,} of {counted(total['requests'], 'request')} answered"
    if errors:
        yield ", ".join(f"{printable(code)} {count:,}" for code, count in sorted(errors.items()))
    if total["asked_live"]:
        yield f"{total['asked_live']:,} sent as single calls"
    for name, odd in _ODD_LINES.items():
        if total[name]:
            yield f"{counted(total[name], f'{odd} line')} of results"
    for batch in taken:
        yield from map(printable, batch.problems)
