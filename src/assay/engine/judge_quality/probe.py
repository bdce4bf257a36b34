"""Probing of a judge: runs all trials with the prompts and limits of a run, and fills the judge's card."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from assay.core.errors import UsageProblem
from assay.core.judge_card import JudgeCard
from assay.core.model_call import Reply
from assay.core.moment import iso
from assay.core.outcome import Grade, GradedOutcome
from assay.core.plan import ModelPlan, Plan, plan_sha256
from assay.core.provider import PROVIDERS
from assay.core.run_backend import RUNS_DIR
from assay.core.settings import GradingRules, ModelEntry
from assay.core.version import __version__
from assay.engine.execution.run import evaluate
from assay.engine.execution.run_environment import RunEnvironment
from assay.engine.judge_quality.probe_items import Items, shipped_items
from assay.engine.judge_quality.probe_sources import source_items
from assay.engine.judge_quality.probe_trials import Trial, trials
from assay.engine.judge_quality.probes import Judgments, overall, run_probes
from assay.engine.planning.providers import BadName, model_plan, used_providers
from assay.engine.planning.request import PlanProblems
from assay.engine.run_counters import Snapshot
from assay.grading import graded_by, settings_of, templates
from assay.models import check_models
from assay.store.ledger import FinishedRecord, RecordRow
from assay.store.sqlite import create_ledger

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

    answers = {(trial.case.id, trial.sample): Reply(text=trial.answer, flags=("prefilled",)) for trial in asked}
    environment = RunEnvironment(
        environ=environ, clock=clock, watch=watch, answers=lambda case_id, sample: answers[case_id, sample]
    )
    finished = _evaluated(plan, asked, environment)
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
        **({} if like is None else {name: getattr(like, name) for name in GradingRules.__struct_fields__}),
    )
    problems = check_models(plan, environ=environ)
    if problems:
        raise PlanProblems(problems)
    return plan


def _evaluated(plan: Plan, asked: tuple[Trial, ...], environment: RunEnvironment) -> list[FinishedRecord]:
    """Run all trials and return them with their outcomes, in order; the temporary ledger is deleted."""
    rows = (
        RecordRow(position, trial.case.id, trial.case.record_sha256, msgspec.json.encode(trial.case))
        for position, trial in enumerate(asked)
    )
    with tempfile.TemporaryDirectory(prefix="assay-probe-") as folder:
        ledger = create_ledger(
            Path(folder) / "ledger.sqlite", plan=msgspec.json.encode(plan), plan_sha256=plan_sha256(plan), at=environment.clock()
        )
        try:
            ledger.set_state("queued", "validating", at=environment.clock())
            ledger.replace_records(rows)
            ledger.set_state("validating", "running", at=environment.clock())
            evaluate(ledger, plan, environment)
            return list(ledger.finished())
        finally:
            ledger.close()


def _judgments(items: Items, asked: tuple[Trial, ...], finished: list[FinishedRecord], *, repeats: int) -> Judgments:
    grades = {
        (role, trial.item, trial.sample): _judgment(record)
        for trial, record in zip(asked, finished, strict=True)
        for role in trial.roles
    }
    return Judgments(ids=tuple(item.case.id for item in items.items), grades=grades, repeats=repeats)


def _judgment(record: FinishedRecord) -> Grade | str:
    outcome = record.outcome
    return outcome.grade if isinstance(outcome, GradedOutcome) else getattr(outcome, "code", "not_asked")


def _card(
    request: ProbeRequest, plan: Plan, *, items: Items, judged: Judgments, finished: list[FinishedRecord], at: float
) -> JudgeCard:
    (judge,) = plan.judges
    candidate = request.candidate or _candidate(items.run)
    results = run_probes(judged, judge=judge.name, candidate=candidate)
    calls = [attempt for record in finished for attempt in record.attempts if attempt.stage == "judge"]
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
    is_recorded = any(PROVIDERS[kind].has_files for kind in kinds)
    return "" if is_recorded else f"{run.candidate.provider}/{run.candidate.model}"


def _prompts(items: Items, plan: Plan) -> dict[str, str]:
    """Return the templates that the judge was prompted with, and their hashes."""
    settings, hashes = settings_of(plan), templates()
    ways = (graded_by(trial.case, settings) for trial in trials(items.items, repeats=1))
    used = {text for way in ways if way is not None for text in (way.template, *way.others)}
    return {template_id: hashes[template_id] for template_id in sorted(used)}
