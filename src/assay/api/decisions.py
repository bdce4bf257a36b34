"""Finished runs compared, ranked and decided about: comparisons, rankings, baselines, gates, trends, suites."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

import msgspec

from assay.api.runs import OnBusy, RunHooks, Watch, plan_runs, run, run_environment
from assay.api.stored_runs import RunGroup, sealed_folder, sealed_run
from assay.core.canonical import JsonObject
from assay.core.errors import AssayError, RunNotFound, SourceUnreadable, UsageProblem
from assay.core.run_result import RunResult
from assay.core.runs import LOCAL_BACKEND, RUNS_DIR, RunBackend
from assay.core.summary import METRICS, Summary
from assay.datasets.parsing.checks import nearest
from assay.engine.comparison import comparison_cache
from assay.engine.comparison.alignment import Flip, FlipOffsets, load_flips
from assay.engine.comparison.gate import (
    NO_BASELINE,
    PREVIOUS,
    Baseline,
    GateDecision,
    GateSpec,
    Measure,
    Word,
    baseline_run,
    baselines,
    decide_gate,
    previous_run,
    promote,
    record,
)
from assay.engine.comparison.group_comparison import GroupComparison, compare_pairs, pairs_between, pairs_within
from assay.engine.comparison.run_comparison import ComparisonOptions, RunComparison, StoredComparison
from assay.engine.comparison.run_comparison import compare as compare_folders
from assay.engine.comparison.suite_file import SuiteEntry, load_suite
from assay.engine.comparison.trends import RunTrend, TrendChoice, run_trend
from assay.engine.planning.pairs import PlannedComparison, RankRequest, plan_comparison
from assay.engine.planning.plans import PlannedRuns
from assay.engine.planning.request import PlanProblems, RunRequest
from assay.engine.runs import check_placement, start
from assay.engine.storage.run_paths import check_unchanged, find_runs, new_run_id
from assay.store.audit import read_audit
from assay.store.published_run import PublishedRun

__all__ = [
    "GatedRun",
    "GroupDecision",
    "PlannedSuite",
    "SuiteResult",
    "SuiteRun",
    "audit",
    "compare",
    "compare_runs",
    "decide_suite",
    "gate",
    "gate_group",
    "keep_comparison",
    "kept_comparison",
    "list_baselines",
    "note_audit",
    "plan_rank",
    "plan_suite",
    "rank",
    "read_flips",
    "run_suite",
    "set_baseline",
    "trend",
]


def compare(
    before: str,
    after: str,
    *,
    runs_dir: str | Path = RUNS_DIR,
    cluster: str | None = None,
    slices: tuple[str, ...] | None = None,
    max_flips: int | None = 20,
) -> RunComparison:
    """Compare two finished runs record by record; raises RunNotFound, and UsageProblem when they have nothing in common."""
    choices = ComparisonOptions(cluster=cluster, slices=slices, max_flips=max_flips)
    return compare_folders(sealed_folder(before, runs_dir), sealed_folder(after, runs_dir), choices)


def compare_runs(
    before: RunGroup,
    after: RunGroup | None = None,
    *,
    cluster: str | None = None,
    slices: tuple[str, ...] | None = (),
    max_flips: int | None = 0,
) -> GroupComparison:
    """Compare the runs of a group in pairs, or those of two groups by candidate, with Holm's correction for the number of pairs.

    One run and a group are compared run by run. Raises UsageProblem for unfinished runs, and when no pair has a record in common.
    """
    firsts = [sealed_run(run.folders) for run in before.runs]
    if after is None:
        title, pairs = before.name, pairs_within(firsts)
    else:
        title = f"{before.name} → {after.name}"
        pairs = pairs_between(firsts, [sealed_run(run.folders) for run in after.runs])
    if not pairs:
        raise UsageProblem(f"'{title}' names no two different runs", hint="name another run: assay compare BEFORE AFTER")
    return compare_pairs(title, pairs, ComparisonOptions(cluster=cluster, slices=slices, max_flips=max_flips))


def kept_comparison(
    before: str, after: str, *, runs_dir: str | Path = RUNS_DIR, cluster: str | None = None
) -> StoredComparison | None:
    """Return the stored comparison of two finished runs; None if it was not made yet. Raises RunNotFound."""
    folders = sealed_folder(before, runs_dir), sealed_folder(after, runs_dir)
    # Stored without flips: they hold answers, and the cache must outlive no text.
    return comparison_cache.find_comparison(Path(runs_dir), *folders, choices=ComparisonOptions(cluster=cluster))


def keep_comparison(before: str, after: str, *, runs_dir: str | Path = RUNS_DIR, cluster: str | None = None) -> None:
    """Compare two finished runs, which takes seconds for large ones, and keep what comes out; raises as `compare` does."""
    folders = sealed_folder(before, runs_dir), sealed_folder(after, runs_dir)
    comparison_cache.keep_comparison(Path(runs_dir), *folders, choices=ComparisonOptions(cluster=cluster))


def read_flips(places: Sequence[FlipOffsets], *, before: str, after: str, runs_dir: str | Path = RUNS_DIR) -> tuple[Flip, ...]:
    """Load the flips of a stored comparison with both answers; raises RunNotFound when retention has removed them."""
    return load_flips(places, before=sealed_folder(before, runs_dir), after=sealed_folder(after, runs_dir))


_SEVERITY: tuple[Word, ...] = ("REGRESSION", "WARNING", "IMPROVED", "PASS")
"""Words by severity, the worst first: a suite or a group takes the worst word of its runs."""
DECIDING = (METRICS, "predictions.jsonl")
"""Artifacts that decisions rest on: thresholds on the first, comparisons on the second, too."""


def set_baseline(run_name: str, *, runs_dir: str | Path = RUNS_DIR, name: str = "", reason: str = "") -> Baseline:
    """Make a finished run the one that others are measured against; the audit log keeps who did it and why."""
    run = sealed_folder(run_name, runs_dir)
    # A run that was changed must not become the measure of others.
    check_unchanged(run, *DECIDING)
    return promote(run, Path(runs_dir), name=name, reason=reason)


def list_baselines(runs_dir: str | Path = RUNS_DIR) -> list[Baseline]:
    """List all baselines of a folder, by name."""
    return sorted(baselines(Path(runs_dir)).values(), key=lambda baseline: baseline.name)


def gate(
    run_name: str,
    demand: GateSpec = GateSpec(),
    *,
    runs_dir: str | Path = RUNS_DIR,
    baseline: str = "",
    cluster: str | None = None,
) -> GateDecision:
    """Decide about a finished run and write the decision to the audit log.

    `baseline` names a baseline or a run; by default the baseline of the run's dataset is used where there is one, `none` uses none,
    and `previous` the last complete run over the same dataset. Raises UsageProblem when there is nothing to decide by, and
    for files that were changed since their run was published.
    """
    folder = Path(runs_dir)
    run = sealed_folder(run_name, folder)
    if not run.manifest.counts.evaluated_records:
        raise UsageProblem(f"run '{run.manifest.run_id}' evaluated nothing: there is nothing to decide by")
    against = _reference_run(run, folder, baseline)
    # Only what the decision rests on is verified; reading all artifacts would take longer than the decision.
    check_unchanged(run, *(DECIDING if against else DECIDING[:1]))
    if against is not None:
        check_unchanged(against, *DECIDING)
    check_demand(demand, has_baseline=against is not None)
    comparison = (
        None if against is None else compare_folders(against, run, ComparisonOptions(cluster=cluster, slices=(), max_flips=0))
    )
    if comparison is not None and not comparison.n:
        raise UsageProblem(
            f"nothing can be compared: {comparison.passes.reason or 'no record was graded in both runs'}",
            hint=f"compare them with: assay compare {comparison.before.run_id} {comparison.after.run_id}",
        )
    plan, summary = run.manifest.settings, run.summary()
    _check_named_gates(demand, summary)
    verdict = decide_gate(plan, summary, demand, comparison=comparison)
    # Recorded before it is returned, so that no decision is acted on that the log does not have.
    record(folder, "gate", {"manifest_sha256": run.manifest.own_hash, **verdict.to_dict()})
    return verdict


def _check_named_gates(demand: GateSpec, summary: Summary) -> None:
    """Raise UsageProblem for a threshold of a check or grader that the run does not have."""
    for member, word in (("checks", "check"), ("graders", "grader")):
        known = getattr(summary, member)
        names = known if isinstance(known, dict) else {}
        for name in getattr(demand.gates, member, {}):
            if name not in names:
                listed = f"it has {', '.join(names)}" if names else f"it has no {word}s"
                raise UsageProblem(f"the run has no {word} '{name}'", hint=nearest(name, names) or listed)


def _reference_run(run: PublishedRun, runs_dir: Path, name: str) -> PublishedRun | None:
    if name == NO_BASELINE:
        return None
    if name == PREVIOUS:
        found = previous_run(run, runs_dir)
        if found is None:
            raise RunNotFound(f"no complete run over '{run.manifest.dataset_id}' is older than this one")
        return found
    known = baselines(runs_dir)
    # A name is a baseline first; runs cannot be hidden by one, since baselines cannot have names of runs.
    chosen = known.get(name or run.manifest.dataset_id)
    if chosen is not None:
        # The baseline itself has nothing to be measured against.
        is_itself = chosen.manifest_sha256 == run.manifest.own_hash
        return None if is_itself and not name else baseline_run(runs_dir, chosen)
    if not name:
        return None
    return _named_reference(run, runs_dir, name)


def _named_reference(run: PublishedRun, runs_dir: Path, name: str) -> PublishedRun:
    """Return the run of a name; of a group that of the same candidate."""
    try:
        found = find_runs(runs_dir, name)
    except RunNotFound:
        raise RunNotFound(
            f"there is no baseline and no run '{name}' in '{runs_dir}'", hint="list the baselines with: assay baseline show"
        ) from None
    if len(found) == 1:
        return sealed_run(found[0])
    candidate, datasets = run.manifest.candidate.name, {dataset.dataset_id for dataset in run.manifest.plan.datasets}
    same = [
        other
        for other in map(sealed_run, found)
        if other.manifest.candidate.name == candidate
        and not datasets.isdisjoint(d.dataset_id for d in other.manifest.plan.datasets)
    ]
    if len(same) != 1:
        what = f"no run of '{candidate}'" if not same else f"{len(same)} runs of '{candidate}'"
        raise RunNotFound(f"group '{name}' has {what} to compare '{run.manifest.run_id}' with", hint="name one run as --baseline")
    return same[0]


class GatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a group, and what was decided about it."""

    run_id: str
    candidate: str
    verdict: GateDecision | None
    problem: str = ""
    """Reason why it could not be decided about."""


class GroupDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions about the runs of a group."""

    group: str
    word: Word
    passed: bool
    """Every run met its gate."""
    runs: tuple[GatedRun, ...]

    @property
    def is_decided(self) -> bool:
        """True when every run could be decided about."""
        return all(one.verdict is not None for one in self.runs)

    def to_dict(self) -> JsonObject:
        """Return the decisions as JSON documents have them."""
        runs = [{**msgspec.to_builtins(one), "verdict": one.verdict.to_dict() if one.verdict else None} for one in self.runs]
        return {"group": self.group, "verdict": self.word, "passed": self.passed, "runs": runs}


def gate_group(
    group: RunGroup,
    demand: GateSpec = GateSpec(),
    *,
    baseline: str = "",
    cluster: str | None = None,
) -> GroupDecision:
    """Decide about each run of a group as `gate` does; the audit log keeps every decision.

    A run that cannot be decided about keeps no other one from it. Raises UsageProblem when none can be.
    """
    found: list[GatedRun] = []
    problems: list[AssayError] = []
    for reader in group.runs:
        run_id, runs_dir = reader.folders.run_id, reader.folders.runs_dir
        verdict, problem = None, ""
        try:
            verdict = gate(run_id, demand, runs_dir=runs_dir, baseline=baseline, cluster=cluster)
        except (UsageProblem, RunNotFound) as undecided:
            problems.append(undecided)
            problem = undecided.message
        found.append(GatedRun(run_id=run_id, candidate=reader.result.candidate, verdict=verdict, problem=problem))
    if len(problems) == len(found):
        raise problems[0]
    words: set[Word] = {one.verdict.word for one in found if one.verdict is not None} | ({"WARNING"} if problems else set())
    word: Word = next(word for word in _SEVERITY if word in words)
    passed = all(one.verdict is not None and one.verdict.passed for one in found)
    return GroupDecision(group=group.name, word=word, passed=passed, runs=tuple(found))


def check_demand(demand: GateSpec, *, has_baseline: bool) -> None:
    """Raise UsageProblem for thresholds that make no sense."""
    mode, delta = demand.mode, demand.delta
    # `nan` and `inf` are floats that click accepts.
    if delta is not None and not isfinite(delta):
        raise UsageProblem(f"--delta is {delta}, which is not a number to compare with")
    if mode != "absolute" and not has_baseline:
        raise UsageProblem(
            f"--mode {mode} needs a baseline", hint="name one: --baseline RUN, or promote one: assay baseline set RUN"
        )
    if mode == "non-inferiority" and (delta is None or delta <= 0):
        raise UsageProblem("--mode non-inferiority needs the loss that is acceptable", hint="for example --delta 0.02")
    if mode != "non-inferiority" and delta is not None:
        raise UsageProblem(f"--delta has no meaning for --mode {mode}", hint="use it with --mode non-inferiority")


def trend(
    *,
    runs_dir: str | Path = RUNS_DIR,
    dataset: str = "",
    candidate: str = "",
    last: int | None = None,
    measure: Measure = "pass_rate",
    is_any_version: bool = False,
) -> RunTrend:
    """Return the complete runs of one candidate over one dataset in order of time, and the direction that a test supports."""
    wanted = TrendChoice(dataset=dataset, candidate=candidate, measure=measure, is_any_version=is_any_version)
    return run_trend(Path(runs_dir), wanted, last=last)


def note_audit(runs_dir: Path, action: str, members: Mapping[str, object]) -> None:
    """Append a line to the audit log of a folder of runs: who did what, and when."""
    record(runs_dir, action, members)


def audit(runs_dir: str | Path = RUNS_DIR) -> list[JsonObject]:
    """List every decision about the runs of a folder, the oldest first; raises StoreUnavailable when the log was tampered with."""
    return read_audit(Path(runs_dir))


def plan_rank(request: RankRequest, *, environ: Mapping[str, str] | None = None) -> PlannedComparison:
    """Return the comparisons that a request describes; raises PlanProblems, UsageProblem and RunNotFound before any call."""
    return plan_comparison(request, environ=os.environ if environ is None else environ, new_run_id=new_run_id)


def rank(
    source: RankRequest | PlannedComparison,
    *,
    watch: Watch | None = None,
    on_busy: OnBusy | None = None,
    takes_signals: bool = False,
    placement: RunBackend = LOCAL_BACKEND,
) -> RunResult:
    """Have judges compare the answers of finished runs in both orders, as a run with sealed artifacts; `ranking` of its metrics
    has the order. An unfinished run of the same id is resumed. `placement` says where it is stored, as for `run`.
    """
    planned = source if isinstance(source, PlannedComparison) else plan_rank(source)
    hooks = RunHooks(watch=watch, on_busy=on_busy, takes_signals=takes_signals, placement=placement)
    return start(planned.plan, Path(planned.runs_dir), run_environment(**hooks))


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a suite and what was decided about it; no verdict for a run that did not end."""

    name: str
    run_id: str
    required: bool
    verdict: GateDecision | None
    problem: str = ""
    """Reason why a finished run could not be decided about."""


class SuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a suite."""

    suite: str
    word: Word
    passed: bool
    runs: tuple[SuiteRun, ...]
    is_finished: bool = True
    """False when it was interrupted; the same command with the same id resumes it."""

    def to_dict(self) -> JsonObject:
        """Return the result as JSON documents have it."""
        members: JsonObject = msgspec.to_builtins(self)
        runs = [{**msgspec.to_builtins(one), "verdict": one.verdict.to_dict() if one.verdict else None} for one in self.runs]
        return {
            "suite": self.suite,
            "verdict": self.word,
            "passed": self.passed,
            "is_finished": members["is_finished"],
            "runs": runs,
        }


class PlannedSuite(msgspec.Struct, frozen=True, kw_only=True):
    """A suite whose every run file was planned, before the first call."""

    name: str
    run_id: str
    """Beginning of the ids of its runs."""
    runs_dir: str
    parts: tuple[tuple[SuiteEntry, PlannedRuns], ...]


def plan_suite(
    path: str | Path, *, runs_dir: str | Path = RUNS_DIR, run_id: str = "", placement: RunBackend = LOCAL_BACKEND
) -> PlannedSuite:
    """Read a suite file and plan all its runs; raises PlanProblems with everything that is wrong, before any call.

    `placement` says where they will be stored and evaluated.
    """
    suite = load_suite(path)
    # The same prefix for all runs, so that repeating the command resumes them.
    prefix = run_id or f"{suite.suite}-{new_run_id()}"
    found: list[tuple[SuiteEntry, PlannedRuns]] = []
    problems: list[str] = []
    # All files are read before anything is reported, so that one attempt shows every problem.
    for entry in suite.runs:
        run_file = str(Path(path).parent / entry.run)
        try:
            request = RunRequest(
                run_file=run_file, run_id=f"{prefix}-{entry.title}", group=prefix, runs_dir=str(runs_dir), interface="cli"
            )
            planned = plan_runs(request)
        except PlanProblems as refused:
            problems += refused.problems
        except SourceUnreadable as unreadable:
            problems.append(unreadable.message)
        else:
            found.append((entry, planned))
            problems += _gate_problems(entry, planned, Path(runs_dir))
            problems += _backend_problems(entry, planned, placement)
    # Only seen when all parts are planned.
    problems += _id_collisions(found)
    if problems:
        raise PlanProblems(problems)
    return PlannedSuite(name=suite.suite, run_id=prefix, runs_dir=str(runs_dir), parts=tuple(found))


def _backend_problems(entry: SuiteEntry, planned: PlannedRuns, placement: RunBackend) -> list[str]:
    """Return why runs of a part cannot be stored or evaluated on the chosen backend."""
    try:
        for plan in planned.plans:
            check_placement(plan, placement)
    except UsageProblem as problem:
        return [f"'{entry.title}': {problem.message}"]
    return []


def _gate_problems(entry: SuiteEntry, planned: PlannedRuns, runs_dir: Path) -> list[str]:
    """Return why the gates of a part could not be decided, found before anything is paid for."""
    known = baselines(runs_dir)
    if entry.baseline in (NO_BASELINE, PREVIOUS):
        found, missing = entry.baseline == PREVIOUS, ""
    elif entry.baseline:
        found = entry.baseline in known or _is_run(entry.baseline, runs_dir)
        missing = "" if found else f"there is no baseline and no run '{entry.baseline}'"
    else:
        # Without a named baseline each dataset has its own, or none.
        found, missing = all(plan.datasets[0].dataset_id in known for plan in planned.plans), ""
    if missing:
        return [f"'{entry.title}': {missing}"]
    try:
        check_demand(entry.demand, has_baseline=found)
    except UsageProblem as problem:
        return [f"'{entry.title}': {problem.message}"]
    return []


def _is_run(name: str, runs_dir: Path) -> bool:
    try:
        return all(folders.is_sealed for folders in find_runs(runs_dir, name))
    except AssayError:
        return False


def _id_collisions(parts: Sequence[tuple[SuiteEntry, PlannedRuns]]) -> list[str]:
    """Return ids that two runs of the suite would share."""
    ids = Counter(plan.run_id for _, planned in parts for plan in planned.plans)
    return [f"two runs would be called '{run_id}': give one of them another `name`" for run_id, count in ids.items() if count > 1]


def run_suite(
    path: str | Path, *, runs_dir: str | Path = RUNS_DIR, run_id: str = "", placement: RunBackend = LOCAL_BACKEND
) -> SuiteResult:
    """Run and gate everything that a suite file names; `placement` says where the runs are stored and evaluated, as for `run`."""
    planned = plan_suite(path, runs_dir=runs_dir, run_id=run_id, placement=placement)
    return decide_suite(planned, [run(plans, placement=placement) for _, plans in planned.parts])


def decide_suite(planned: PlannedSuite, results: Sequence[Sequence[RunResult]]) -> SuiteResult:
    """Gate the runs of each part and the suite as a whole; one that was interrupted is not decided."""
    # Fewer results than parts: the suite was interrupted.
    parts = zip(planned.parts, results, strict=False)
    found = [_decide_run(entry, result, planned.runs_dir) for (entry, _), part in parts for result in part]
    expected = sum(len(plans.plans) for _, plans in planned.parts)
    is_finished = len(found) == expected and all(one.verdict is not None or one.problem for one in found)
    decided = _result(planned.name, found, is_finished=is_finished)
    # An unfinished suite is not a decision.
    if is_finished:
        members = {**decided.to_dict(), "run_id": planned.run_id, "runs": [one.run_id for one in found]}
        record(Path(planned.runs_dir), "suite", members)
    return decided


def _decide_run(entry: SuiteEntry, result: RunResult, runs_dir: str | Path) -> SuiteRun:
    verdict, problem = None, ""
    if result.is_finished:
        try:
            verdict = gate(result.run_id, entry.demand, runs_dir=runs_dir, baseline=entry.baseline)
        except UsageProblem as undecided:
            problem = undecided.message
    elif result.is_resumable:
        problem = f"the run has failed: {result.problem}"
    return SuiteRun(name=entry.title, run_id=result.run_id, required=entry.required, verdict=verdict, problem=problem)


def _result(name: str, runs: list[SuiteRun], *, is_finished: bool) -> SuiteResult:
    """Return the worst verdict of the required parts; a failure of another part is a warning."""
    failed = [one for one in runs if one.verdict is not None and not one.verdict.passed]
    words: set[Word] = {one.verdict.word for one in runs if one.verdict is not None and one.verdict.passed}
    words |= {one.verdict.word if one.required else "WARNING" for one in failed if one.verdict is not None}
    words |= {"WARNING" for one in runs if one.problem}
    word: Word = next((word for word in _SEVERITY if word in words), "PASS")
    undecided = [one for one in runs if one.problem]
    # A required run without a verdict cannot have passed.
    passed = is_finished and not any(one.required for one in (*failed, *undecided))
    return SuiteResult(suite=name, word=word, passed=passed, runs=tuple(runs), is_finished=is_finished)
