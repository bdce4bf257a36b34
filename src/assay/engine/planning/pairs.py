"""Ranking: a run that compares the answers of finished runs, two at a time and in both orders; no candidate is called."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case, Choice
from assay.core.errors import UsageProblem
from assay.core.plan import (
    ComparedRun,
    ComparisonPlan,
    DatasetPlan,
    ModelPlan,
    Plan,
    ProviderPlan,
)
from assay.core.provider import PROVIDER_KINDS
from assay.core.retention import longest_retention, retention_in
from assay.core.runs import RUNS_DIR
from assay.core.secrets import is_redacted
from assay.core.settings import ProviderEntry
from assay.engine.planning.providers import BadName, model_plan, used_providers
from assay.engine.planning.request import MergedSettings, PlanProblems, RunRequest
from assay.engine.planning.responses import Responses, load_responses
from assay.engine.planning.selection import sample_rank
from assay.engine.records.run_metrics import PAIR
from assay.engine.storage.run_paths import check_target_free, find_run, folders_of, intact_run
from assay.grading import GRADING_METHODS, PAIRWISE_ID
from assay.models import check_models
from assay.store.ledger import RecordRow
from assay.store.published_run import PublishedRun, open_run_folder

FIRST = 5
"""Records that a note names before it only counts them."""
_replace = msgspec.structs.replace
_encode = msgspec.json.Encoder().encode


class RankRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `assay rank`."""

    runs: tuple[str, ...]
    judges: tuple[str, ...]
    runs_dir: str = RUNS_DIR
    run_id: str = ""
    limit: int | None = None
    sample: int | None = None
    seed: int | None = None
    concurrency: int | None = None
    max_cost: float | None = None


class PlannedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A run that compares, before its first call."""

    plan: Plan
    runs_dir: str
    n_records: int
    n_comparisons: int


class _Key(NamedTuple):
    """One record as some runs have it: the same id, the same of several answers, the same contents."""

    record_id: str
    sample: int
    sha256: str


class _PredictionFields(msgspec.Struct):
    """Members of a prediction that say whether there is something to compare."""

    record_id: str
    record_sha256: str
    sample: int = 0
    model_response: str | None = None
    evaluator: str | None = None


class _Side:
    """One of the runs: which records it has answered."""

    def __init__(self, run: PublishedRun) -> None:
        self.run = run
        self.answered: dict[_Key, None] = {}
        self.unanswered: dict[tuple[str, int], None] = {}
        self.choices: dict[tuple[str, int], None] = {}
        """Multiple-choice records, which are right or wrong and never better than each other."""
        # Where a grader of the run's own graded, its evaluator may have any name.
        by_choice = () if run.manifest.settings.grader() else GRADING_METHODS["mcq"].evaluators
        for line in run.typed_lines("predictions.jsonl", _PredictionFields):
            name = line.record_id, line.sample
            if line.evaluator in by_choice:
                self.choices[name] = None
            elif line.model_response is None:
                self.unanswered[name] = None
            else:
                self.answered[_Key(*name, line.record_sha256)] = None

    def names(self) -> dict[tuple[str, int], None]:
        """Return all records of the run, regardless of their outcome."""
        return {**{(key.record_id, key.sample): None for key in self.answered}, **self.unanswered, **self.choices}


def plan_comparison(request: RankRequest, *, environ: Mapping[str, str], new_run_id: Callable[[], str]) -> PlannedComparison:
    """Return the run that a request describes; raises PlanProblems, UsageProblem and RunNotFound before any call."""
    # Verified first: their answers are what is paid for.
    runs = [intact_run(find_run(Path(request.runs_dir), name)) for name in request.runs]
    _check_runs(runs)
    plans = [run.manifest.settings for run in runs]
    settings = MergedSettings(_as_run_request(request))
    run_id = request.run_id or new_run_id()
    folders = folders_of(Path(request.runs_dir).absolute(), run_id)
    # Before reading any run, which takes longer.
    check_target_free(folders)
    sides = [_Side(run) for run in runs]
    comparison = ComparisonPlan(runs=_compared(runs), notes=tuple(_notes(sides)))
    plan = _plan(settings, plans, comparison=comparison, environ=environ)
    plan = _replace(plan, run_id=run_id)
    problems = [*settings.problems, *check_models(plan, environ=environ)]
    if problems:
        raise PlanProblems(list(dict.fromkeys(problems)))
    shared = _selected(sides, plan)
    if not shared:
        raise UsageProblem(
            "; ".join(("no two of the runs have answered the same record", *comparison.notes)),
            hint="compare runs over the same dataset",
        )
    return PlannedComparison(
        plan=plan,
        runs_dir=str(folders.runs_dir),
        n_records=len({(key.record_id, key.sample) for key in shared}),
        # Every pair once; each is judged in both orders.
        n_comparisons=sum(len(places) * (len(places) - 1) // 2 for places in shared.values()),
    )


def _check_runs(runs: Sequence[PublishedRun]) -> None:
    if len(runs) < 2:
        raise UsageProblem("one run alone has no rank", hint="name two or more finished runs over the same dataset")
    ids = Counter(run.manifest.run_id for run in runs)
    for run_id in (run_id for run_id, count in ids.items() if count > 1):
        raise UsageProblem(f"run '{run_id}' is named twice", hint="name every run once")
    projects = sorted({run.manifest.settings.project for run in runs})
    if len(projects) > 1:
        raise UsageProblem(
            f"the runs belong to different projects: {', '.join(projects)}", hint="rank the runs of one project at a time"
        )
    for run in runs:
        if run.manifest.settings.comparison is not None:
            raise UsageProblem(f"run '{run.manifest.run_id}' is itself a ranking", hint="name the runs that it compares")


def _as_run_request(request: RankRequest) -> RunRequest:
    same = ("judges", "limit", "sample", "seed", "concurrency", "max_cost")
    return RunRequest(**{name: getattr(request, name) for name in same})


def _compared(runs: Sequence[PublishedRun]) -> tuple[ComparedRun, ...]:
    counts = Counter(run.manifest.candidate.name for run in runs)
    return tuple(
        ComparedRun(
            run_id=run.manifest.run_id,
            # Two runs of one candidate are distinguished by their ids.
            name=name if counts[name] == 1 else f"{name} · {run.manifest.run_id}",
            path=str(run.path.absolute()),
            manifest_sha256=run.manifest.own_hash,
        )
        for run, name in ((run, run.manifest.candidate.name) for run in runs)
    )


def _plan(settings: MergedSettings, plans: Sequence[Plan], *, comparison: ComparisonPlan, environ: Mapping[str, str]) -> Plan:
    value, first = settings.value, plans[0]
    judges, providers = _judges(settings, plans, environ=environ)
    names = ", ".join(run.name for run in comparison.runs)
    return Plan(
        run_id="",
        datasets=tuple(map(_own_name, first.datasets)),
        candidate=ModelPlan(name=names, provider="", model=names),
        judges=judges,
        providers=providers,
        response_source="prefilled",
        concurrency=value.run.concurrency,
        max_cost=value.max_cost,
        slices=first.slices,
        # Comparisons of one record are not independent.
        cluster_key=first.cluster_key or f"{PAIR}.record_id",
        limit=value.limit,
        sample=value.sample,
        seed=value.seed,
        comparison=comparison,
        project=first.project,
        retention=longest_retention(retention_in(environ)),
    )


def _own_name(dataset: DatasetPlan) -> DatasetPlan:
    """Rename the dataset of a comparison, which must not appear among runs over the compared dataset itself."""
    return _replace(dataset, dataset_id=f"pairwise:{dataset.dataset_id}", name=f"pairwise:{dataset.name}")


def _judges(
    settings: MergedSettings, plans: Sequence[Plan], *, environ: Mapping[str, str]
) -> tuple[tuple[ModelPlan, ...], tuple[ProviderPlan, ...]]:
    """Return the judges by their names; models and providers that the compared runs define apply here too."""
    # Reversed, so that the first run's settings of a judge win.
    known = {judge.name: judge for plan in reversed(plans) for judge in plan.judges if not is_redacted(judge)}
    declared: dict[str, ProviderEntry] = {
        provider.name: provider
        for plan in reversed(plans)
        for provider in plan.providers
        # Built-in providers need no declaration, and one whose settings were redacted cannot be called.
        if provider.name not in PROVIDER_KINDS and not is_redacted(provider)
    }
    judges: dict[str, ModelPlan] = {}
    for path, entry in settings.models("judges"):
        try:
            judge = known.get(entry.model) or model_plan(entry, declared, folder=Path())
            judges[judge.name] = judge
            used_providers([judge], declared, environ=environ)
        except BadName as problem:
            settings.add(path, str(problem))
    if not settings.models("judges"):
        settings.add(("judges",), "no judge is named; add one with --judge provider/model")
    # With problems nothing more is resolved, or each would be reported twice.
    found = () if settings.problems else tuple(judges.values())
    return found, used_providers(found, declared, environ=environ)


def _notes(sides: Sequence[_Side]) -> Iterator[str]:
    """Yield a note for each kind of record that is not compared, or not between all runs, with the first of them."""
    names = {name: None for side in sides for name in side.names()}
    versions: dict[tuple[str, int], set[str]] = {}
    for key in (key for side in sides for key in side.answered):
        versions.setdefault((key.record_id, key.sample), set()).add(key.sha256)
    found = [side.names() for side in sides]
    kinds = {
        "are not in every run": [name for name in names if any(name not in run for run in found)],
        "have other contents in one run than in another": [name for name, hashes in versions.items() if len(hashes) > 1],
        "have no answer in some run": list({name: None for side in sides for name in side.unanswered}),
        "are multiple choice, where no answer is better than another right one": list(
            {name: None for side in sides for name in side.choices}
        ),
    }
    for words, listed in kinds.items():
        if listed:
            more = ", …" if len(listed) > FIRST else ""
            yield f"{len(listed):,} record(s) {words}: {', '.join(map(_shown_name, listed[:FIRST]))}{more}"


def _shown_name(name: tuple[str, int]) -> str:
    return f"{name[0]} (sample {name[1]})" if name[1] else name[0]


def _selected(sides: Sequence[_Side], plan: Plan) -> dict[_Key, list[int]]:
    """Return the records that at least two runs have answered, with those runs' indexes; sample and limit count records."""
    places: dict[_Key, list[int]] = {}
    for place, side in enumerate(sides):
        for key in side.answered:
            places.setdefault(key, []).append(place)
    shared = {key: found for key, found in places.items() if len(found) > 1}
    ids = list(dict.fromkeys(key.record_id for key in shared))
    if plan.sample is not None:
        # Sampled by a hash of the id, so that the same records are drawn regardless of the runs.
        sample = set(nsmallest(plan.sample, ids, key=lambda record_id: sample_rank(record_id, plan.seed)))
        ids = [record_id for record_id in ids if record_id in sample]
    chosen = set(ids[: plan.limit])
    return {key: found for key, found in shared.items() if key.record_id in chosen}


def compared_records(plan: Plan) -> Iterator[RecordRow]:
    """Yield the comparisons of a plan in the order of their records; raises UsageProblem when a run has changed."""
    assert plan.comparison is not None
    compared = plan.comparison.runs
    runs = [_reopened(run) for run in compared]
    answers = [_answers(run) for run in runs]
    left = _selected([_Side(run) for run in runs], plan)
    position = 0
    for run in runs:
        for entry in run.records():
            # The record is taken from the first run that has it, as all have the same contents.
            places = left.pop(_Key(entry.record_id, entry.sample or 0, entry.record_sha256), ())
            for pair in combinations(places, 2):
                name = entry.record_id, entry.sample or 0
                choices = tuple(Choice(compared[place].name, answers[place].text_for(*name)) for place in pair)
                case = _case(run.case_of(entry), choices, pair=pair, index=position)
                yield RecordRow(position, case.id, case.record_sha256, _encode(case), b"")
                position += 1


def _reopened(run: ComparedRun) -> PublishedRun:
    found = open_run_folder(Path(run.path))
    if found.manifest.own_hash != run.manifest_sha256:
        raise UsageProblem(
            f"run '{run.run_id}' is not the one that the comparison was planned with", hint="restore its folder, or start again"
        )
    return found


def _answers(run: PublishedRun) -> Responses:
    return next(iter(load_responses(run.path).by_candidate.values()), Responses())


def _case(record: Case, choices: tuple[Choice, ...], *, pair: tuple[int, ...], index: int) -> Case:
    """Return the comparison of two answers to a record; judges do not learn which run gave which."""
    first, second = (place + 1 for place in pair)
    sample = record.sample or 0
    contents = {"record_sha256": record.record_sha256, "answers": [[choice.id, choice.text] for choice in choices]}
    return _replace(
        record,
        # Numbers and not names: a judge that reads the id must not learn a candidate.
        id=f"{record.id}{f'.{sample}' if sample else ''}#{first}-{second}",
        index=index,
        task="pairwise",
        choices=choices,
        correct_choice_ids=(),
        attachments=(),
        # Recorded turns and limits belong to the original question.
        turns=(),
        max_latency_ms=None,
        policy_id=PAIRWISE_ID,
        metadata={**record.metadata, PAIR: {"record_id": record.id, "sample": sample, "first": first, "second": second}},
        sample=msgspec.UNSET,
        # The answers are part of the hash: the same record with other answers is another comparison.
        record_sha256=sha256_hex(canonical_json(contents)),
    )
