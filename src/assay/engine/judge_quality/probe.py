"""Sources of probe items: a dataset of any contract, or the answers of a finished run."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from assay.core.case import Case
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.judge_card import JudgeCard
from assay.core.model_call import Reply
from assay.core.outcome import Grade, GradedOutcome
from assay.core.plan import ModelPlan, Plan
from assay.core.provider import PROVIDERS
from assay.core.runs import RUNS_DIR
from assay.core.settings import GradingRules, ModelEntry
from assay.core.text import iso
from assay.core.version import __version__
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.judge_quality.probes import Items, Judgments, ProbeItem, Trial, overall, run_probes, shipped_items, trials
from assay.engine.judge_quality.temporary_runs import evaluate_cases
from assay.engine.planning.dataset_inputs import DatasetInput, cases_of, dataset_plan, read_dataset
from assay.engine.planning.providers import BadName, model_plan, used_providers
from assay.engine.planning.request import PlanProblems
from assay.engine.records.run_counters import Snapshot
from assay.engine.storage.run_paths import find_run, intact_run
from assay.grading import graded_by, is_judged, kind_of, settings_of, templates
from assay.models import check_models
from assay.store.ledger import FinishedRecord
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
    """Return the questions of a dataset file, or of a run by its id or folder; `limit` of them, the same for the same seed.

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
        raise UsageProblem(f"'{path}' is not a valid dataset", hint=f"see what is wrong with it: assay validate {path}")
    dataset = DatasetInput(dataset_plan(source, report, name=""), source, report)
    cases = list(cases_of(dataset, is_recorded=False))
    # Records that a rule grades, or that no rubric can give points, test no judge.
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
            yield run.case_of(entry), (answer.model_response or "").strip()


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
    # By text: equal references would make the wrong answer of one record the right one of another.
    distinct = list({one.text or f"\n{one.case.id}": one for one in known}.values())
    if len(distinct) < FEWEST:
        found = "1 record" if distinct else "no records"
        raise UsageProblem(
            f"{source} has {found} that a judge could grade, and two are the least",
            hint="name a dataset or a run with more of them, or none for the questions that come with the product",
        )
    chance = random.Random(seed)
    # Those with a reference first: more probes can be tried with them.
    groups = ([one for one in distinct if one.reference], [one for one in distinct if not one.reference])
    # Shuffled within the groups, and cut afterwards.
    return [one for group in groups for one in chance.sample(group, len(group))][:limit]


def _left_out(cases: Sequence[Case], known: Sequence[_SourceQuestion]) -> int:
    return len(cases) - len({one.text or f"\n{one.case.id}" for one in known})


def _other(chosen: Sequence[_SourceQuestion], place: int) -> str:
    """Return an answer to another question; a shipped one when the source has none."""
    # The next question with an answer, around the end of the list.
    following = (chosen[(place + step) % len(chosen)].text for step in range(1, len(chosen)))
    other_answers = shipped_items().items
    return next(filter(None, following), other_answers[place % len(other_answers)].right)


def _item(known: _SourceQuestion, *, other: str, partial: str) -> ProbeItem:
    half = _first_half(known.text)
    return ProbeItem(
        # Attachments and limits of time do not concern a judge.
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


LIMIT = 16
"""Default number of records of a dataset that are used."""
REPEATS = 3
_ANSWERS = ModelPlan(name="probe", provider="", model="probe")
"""Name of the placeholder for the candidate; the probe supplies the answers."""


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `assay probe`."""

    judge: str
    source: str = ""
    """A dataset file, or a run by its id or folder; empty for the shipped questions."""
    runs_dir: str = RUNS_DIR
    candidate: str = ""
    limit: int = LIMIT
    repeats: int = REPEATS
    seed: int = 0
    concurrency: int = 32
    max_cost: float | None = None


def probe_judge(
    request: ProbeRequest, *, environ: Mapping[str, str], clock: Callable[[], float], watch: Callable[[Snapshot], None] | None
) -> JudgeCard:
    """Probe a judge and return its card; raises UsageProblem or PlanProblems before any call."""
    items = _items(request)
    plan = _plan(request, environ, like=items.run)
    asked = tuple(trials(items.items, repeats=request.repeats))

    # Marked as prefilled, so that no model is called for the answers.
    answers = {(trial.case.id, trial.sample): Reply(text=trial.answer, flags=("prefilled",)) for trial in asked}
    environment = RunEnvironment(
        environ=environ, clock=clock, watch=watch, answers=lambda case_id, sample: answers[case_id, sample]
    )
    finished = evaluate_cases(plan, (trial.case for trial in asked), environment)
    judged = _judgments(items, asked, finished, repeats=request.repeats)
    return _card(request, plan, items=items, judged=judged, finished=finished, at=clock())


def _items(request: ProbeRequest) -> Items:
    if not request.source:
        return shipped_items(request.limit)
    return source_items(request.source, runs_dir=request.runs_dir, limit=request.limit, seed=request.seed)


def _plan(request: ProbeRequest, environ: Mapping[str, str], *, like: Plan | None) -> Plan:
    """Replace a run's judges in its plan by the probed one; thresholds and prompts stay as they were."""
    try:
        judge = model_plan(ModelEntry(model=request.judge), {}, folder=Path())
        providers = used_providers((judge,), {}, environ=environ)
    except BadName as problem:
        raise UsageProblem(f"--judge: {problem}") from problem
    plan = Plan(
        run_id="probe",
        datasets=(),
        candidate=_ANSWERS,
        judges=(judge,),
        providers=providers,
        response_source="prefilled",
        concurrency=request.concurrency,
        max_cost=request.max_cost,
        # With the thresholds and prompts of the run whose answers are used, so that the card is about its judge.
        **({} if like is None else {name: getattr(like, name) for name in GradingRules.__struct_fields__}),
    )
    problems = check_models(plan, environ=environ)
    if problems:
        raise PlanProblems(problems)
    return plan


def _judgments(items: Items, asked: tuple[Trial, ...], finished: list[FinishedRecord], *, repeats: int) -> Judgments:
    grades = {
        (role, trial.item, trial.sample): _judgment(record)
        for trial, record in zip(asked, finished, strict=True)
        for role in trial.roles
    }
    return Judgments(ids=tuple(item.case.id for item in items.items), grades=grades, repeats=repeats)


def _judgment(record: FinishedRecord) -> Grade | str:
    outcome = record.outcome
    # A record without an outcome was never asked, because the budget was spent.
    return outcome.grade if isinstance(outcome, GradedOutcome) else getattr(outcome, "code", "not_asked")


def _card(
    request: ProbeRequest, plan: Plan, *, items: Items, judged: Judgments, finished: list[FinishedRecord], at: float
) -> JudgeCard:
    (judge,) = plan.judges
    candidate = request.candidate or _candidate(items.run)
    results = run_probes(judged, judge=judge.name, candidate=candidate)
    calls = [attempt for record in finished for attempt in record.attempts if attempt.stage == "judge"]
    # Failed calls have no price, and are counted on their own.
    priced = Counter(attempt.cost is not None for attempt in calls if not attempt.error_code)
    return JudgeCard(
        judge=judge.name,
        verdict=overall(results),
        probes=results,
        candidate=candidate,
        source=items.source,
        source_sha256=items.sha256,
        records=len(items.items),
        records_left_out=items.left_out,
        repeats=request.repeats,
        seed=request.seed,
        parameters=msgspec.to_builtins(judge.parameters),
        templates=_prompts(items, plan),
        created_at=iso(at),
        product_version=__version__,
        calls=len(calls),
        failed_calls=sum(bool(attempt.error_code) for attempt in calls),
        cost=sum(attempt.cost or 0.0 for attempt in calls),
        unknown_costs=priced[False],
    )


def _candidate(run: Plan | None) -> str:
    """Return the model that answered in a run; empty for supplied answers."""
    if run is None or run.response_source != "sampled":
        return ""
    kinds = [provider.kind for provider in run.providers if provider.name == run.candidate.provider]
    # Recorded answers of a model do not show that judge and candidate were one family in this run.
    is_recorded = any(PROVIDERS[kind].has_files for kind in kinds)
    return "" if is_recorded else f"{run.candidate.provider}/{run.candidate.model}"


def _prompts(items: Items, plan: Plan) -> dict[str, str]:
    """Return the templates that the judge was prompted with, and their hashes."""
    settings, hashes = settings_of(plan), templates()
    ways = (graded_by(trial.case, settings) for trial in trials(items.items, repeats=1))
    used = {text for way in ways if way is not None for text in (way.template, *way.others)}
    return {template_id: hashes[template_id] for template_id in sorted(used)}
