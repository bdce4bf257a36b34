"""Sources of probe items: a dataset of any contract, or the answers of a finished run."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from assay.core.case import Case
from assay.core.errors import RunNotFound, UsageProblem
from assay.engine.judge_quality.probe_items import Items, ProbeItem, shipped_items
from assay.engine.planning.inputs import DatasetInput, cases_of, dataset_plan, read_dataset
from assay.engine.storage.integrity import intact_run
from assay.engine.storage.run_paths import find_run
from assay.grading import is_judged, kind_of
from assay.store.published_run import PublishedRun

FEWEST = 2
"""Minimum number of questions, so that each has an answer to another question."""
_HALF = 2


class _SourceQuestion(msgspec.Struct, frozen=True):
    """A question with the answers that its source has."""

    case: Case
    reference: str = ""
    answer: str = ""
    """The answer of a run."""

    @property
    def text(self) -> str:
        """Key by which duplicate questions are dropped."""
        return self.reference or self.answer


class _ProbeAnswer(msgspec.Struct):
    """The members of a prediction that a probe needs."""

    model_response: str | None = None
    sample: int = 0


def source_items(source: str, *, runs_dir: str, limit: int, seed: int) -> Items:
    """The questions of a dataset file, or of a run by its id or folder; `limit` of them, the same for the same seed.

    Raises SourceUnreadable, and UsageProblem for what is neither, is not valid, or has too few records that a judge grades.
    """
    if Path(source).is_file():
        return dataset_items(source, limit=limit, seed=seed)
    try:
        folders = find_run(Path(runs_dir), source)
    except RunNotFound as problem:
        raise UsageProblem(
            f"'{source}' is neither a file nor a run: {problem.message}",
            hint="name a dataset, or a run; list the runs with: assay runs",
        ) from problem
    return run_items(intact_run(folders), limit=limit, seed=seed)


def dataset_items(path: str, *, limit: int, seed: int) -> Items:
    """Questions of a dataset: its reference is the right answer, half of it the partial one, another record's the wrong one.

    Records without a reference have no right answer; the wrong one to them is about something else.
    """
    source, report = read_dataset(Path(path))
    if report.contract is None or report.outcome == "rejected":
        raise UsageProblem(f"'{path}' is no valid dataset", hint=f"see what is wrong with it: assay validate {path}")
    dataset = DatasetInput(dataset_plan(source, report, name=""), source, report)
    cases = list(cases_of(dataset, is_recorded=False))
    known = [_SourceQuestion(case, _reference(case)) for case in cases if _is_usable(case)]
    chosen = _chosen(known, limit=limit, seed=seed, source=path)
    items = tuple(_item(one, other=_other(chosen, place), partial=_first_half(one.reference)) for place, one in enumerate(chosen))
    return Items(items=items, source=path, sha256=source.sha256(), left_out=_left_out(cases, known))


def run_items(run: PublishedRun, *, limit: int, seed: int) -> Items:
    """Take questions and answers from a finished run; the quality of the answers does not matter."""
    plan = run.manifest.settings
    run_id = run.manifest.run_id
    if plan.comparison is not None:
        raise UsageProblem(f"run '{run_id}' compares the answers of other runs", hint="name one of those, or a dataset")
    cases, known = [], []
    for case, answer in _answers(run):
        cases.append(case)
        if answer and _is_usable(case):
            known.append(_SourceQuestion(case, _reference(case), answer))
    chosen = _chosen(known, limit=limit, seed=seed, source=f"run '{run_id}'")
    items = tuple(_item(one, other=_other(chosen, place), partial=one.answer) for place, one in enumerate(chosen))
    return Items(items=items, source=f"run {run_id}", sha256=run.manifest.own_hash, left_out=_left_out(cases, known), run=plan)


def _answers(run: PublishedRun) -> Iterator[tuple[Case, str]]:
    """Yield every record with its first answer."""
    for entry, answer in zip(run.records(), run.typed_lines("predictions.jsonl", _ProbeAnswer), strict=True):
        if not answer.sample:
            yield msgspec.convert(entry["record"], Case), (answer.model_response or "").strip()


def _is_usable(case: Case) -> bool:
    """Return True when a judge grades the record and its rubric can give points."""
    kind = kind_of(case)
    has_points = kind != "rubric" or any(criterion.weight > 0 for criterion in case.criteria)
    return is_judged(kind, grader=None) and has_points


def _reference(case: Case) -> str:
    """Return the first reference if it is long enough to be halved, otherwise an empty text."""
    return next((text for text in case.references[:1] if len(text.split()) >= _HALF), "")


def _chosen(known: Sequence[_SourceQuestion], *, limit: int, seed: int, source: str) -> list[_SourceQuestion]:
    """Sample questions at random, those with a reference answer first, since more probes can use them."""
    distinct = list({one.text or f"\n{one.case.id}": one for one in known}.values())
    if len(distinct) < FEWEST:
        found = "1 record" if distinct else "no records"
        raise UsageProblem(
            f"{source} has {found} that a judge could grade, and two are the least",
            hint="name a dataset or a run with more of them, or none for the questions that come with the product",
        )
    chance = random.Random(seed)
    groups = ([one for one in distinct if one.reference], [one for one in distinct if not one.reference])
    return [one for group in groups for one in chance.sample(group, len(group))][:limit]


def _left_out(cases: Sequence[Case], known: Sequence[_SourceQuestion]) -> int:
    return len(cases) - len({one.text or f"\n{one.case.id}" for one in known})


def _other(chosen: Sequence[_SourceQuestion], place: int) -> str:
    """Return an answer to another question; a shipped one when the source has none."""
    following = (chosen[(place + step) % len(chosen)].text for step in range(1, len(chosen)))
    other_answers = shipped_items().items
    return next(filter(None, following), other_answers[place % len(other_answers)].right)


def _item(known: _SourceQuestion, *, other: str, partial: str) -> ProbeItem:
    half = _first_half(known.text)
    return ProbeItem(
        case=msgspec.structs.replace(known.case, attachments=(), max_latency_ms=None, sample=msgspec.UNSET),
        right=known.reference,
        partial=partial,
        wrong=other,
        stray=other,
        pair=(known.text, half) if half != known.text else None,
    )


def _first_half(text: str) -> str:
    words = text.split()
    return " ".join(words[: max(1, len(words) // _HALF)])
