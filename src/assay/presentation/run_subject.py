"""Who took part in a run and what it is about: the same facts with the same labels in every report."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from assay.core.contract import dataset_words
from assay.core.manifest import BatchEntry, Manifest
from assay.core.open_fields import add_counts
from assay.presentation.sections import Fact
from assay.presentation.validation import AUDIENCES, field_lines
from assay.presentation.words import counted, first_datasets, plugin_words

Json = dict[str, Any]
Words = tuple[str, tuple[str, ...]]
"""A label, and the words that belong to it."""
NAME_LIMIT = 120
"""Characters of a name that a report in text shows."""
_NAMED = ("dataset", "candidate", "judge")
"""Labels of names that others gave, which may be of any length."""
_SHORT = {AUDIENCES["candidate_and_judge"]: "sent"}
GRADER_CALL = "grader"
"""The call of a grader of one's own, which stands among those of judges."""
_ODD_LINES = {"duplicates": "repeated", "unknown": "unknown", "malformed": "unreadable"}
"""Lines of results of batches that became nothing."""


def subject_facts(plan: Json, manifest: Manifest, *, has_candidate: bool = True) -> tuple[Fact, ...]:
    """What was asked, who answered, who graded, and where it comes from, as facts."""
    return tuple(
        Fact(label, " · ".join(words), limit=NAME_LIMIT if label in _NAMED else 0, parts=words)
        for label, words in subject(plan, manifest, has_candidate=has_candidate)
    )


def subject(plan: Json, manifest: Manifest, *, has_candidate: bool = True) -> Iterator[Words]:
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


def sent_fields(plan: Json) -> Iterator[Words]:
    """Fields of the datasets that no model or only judges are sent; code of one's own sees whole records, and says it itself."""
    if plan.get("imported") or plan.get("comparison") or any(own_code(plan)):
        return
    datasets = plan.get("datasets", ())
    is_turns = {dataset["contract"] for dataset in datasets} == {"conversation_v1"}
    for label, text in field_lines(add_counts(dataset.get("fields", {}) for dataset in datasets), "turn" if is_turns else "record"):
        yield _SHORT.get(label, label), (text,)


def graders(plan: Json) -> Iterator[Words]:
    """Who graded: judges, and code of one's own."""
    for judge in plan.get("judges", ()):
        yield "judge", model_words(judge)
    yield from own_code(plan)


def own_code(plan: Json) -> Iterator[Words]:
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
        yield ", ".join(f"{code} {count:,}" for code, count in sorted(errors.items()))
    if total["asked_live"]:
        yield f"{total['asked_live']:,} sent as single calls"
    for name, odd in _ODD_LINES.items():
        if total[name]:
            yield f"{counted(total[name], f'{odd} line')} of results"
    for batch in taken:
        yield from batch.problems


def imported_words(imported: Json) -> tuple[str, ...]:
    """Where an imported run comes from: `from inspect_ai 0.3.285`, `scorer includes (0/1)`, `capitals.eval`."""
    tool = f"from {imported['tool']} {imported['version']}".strip()
    scorer = f"scorer {imported['scorer']} ({imported['scale']})" if imported["scorer"] else "no scorer"
    files = [PurePath(file["name"]).name for file in imported["files"]]
    more = [f"and {len(files) - 3:,} more files"] if len(files) > 3 else []
    # Runs that were imported by earlier versions do not say it.
    incomplete = [f"incomplete: {'; '.join(imported['incomplete'])}"] if imported.get("incomplete") else []
    return tool, scorer, *files[:3], *more, *incomplete
