"""Suites: several run files, run one after the other and gated together."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.api.gates import check_demand, gate
from assay.api.runs import RunRequest, plan_runs, run
from assay.core.canonical import JsonObject
from assay.core.errors import AssayError, SourceUnreadable, UsageProblem
from assay.core.run_backend import LOCAL_BACKEND, RUNS_DIR, RunBackend
from assay.core.run_result import RunResult
from assay.engine.comparison.baselines import NO_BASELINE, PREVIOUS, baselines, record
from assay.engine.comparison.gate import GateDecision, Word
from assay.engine.comparison.suite_file import SuiteEntry, load_suite
from assay.engine.execution.engines import check_placement
from assay.engine.planning.plans import PlannedRuns
from assay.engine.planning.request import PlanProblems
from assay.engine.storage.run_id import new_run_id
from assay.engine.storage.run_paths import find_run

_GRAVITY: tuple[Word, ...] = ("REGRESSION", "WARNING", "IMPROVED", "PASS")
"""Which word a suite has when its runs have several."""

__all__ = ["PlannedSuite", "SuiteResult", "SuiteRun", "decide_suite", "plan_suite", "run_suite"]


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a suite and what was decided about it; no verdict for a run that did not end."""

    name: str
    run_id: str
    required: bool
    verdict: GateDecision | None
    problem: str = ""
    """Why a finished run could not be decided about."""


class SuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a suite comes to."""

    suite: str
    word: Word
    passed: bool
    runs: tuple[SuiteRun, ...]
    is_finished: bool = True
    """False when it was interrupted; the same command with the same id goes on."""

    def to_dict(self) -> JsonObject:
        """The result as JSON documents hold it."""
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

    `placement` says where they will be kept and worked on.
    """
    suite = load_suite(path)
    prefix = run_id or f"{suite.suite}-{new_run_id()}"
    found: list[tuple[SuiteEntry, PlannedRuns]] = []
    problems: list[str] = []
    for entry in suite.runs:
        run_file = str(Path(path).parent / entry.run)
        try:
            request = RunRequest(run_file=run_file, run_id=f"{prefix}-{entry.title}", runs_dir=str(runs_dir), interface="cli")
            planned = plan_runs(request)
        except PlanProblems as refused:
            problems += refused.problems
        except SourceUnreadable as unreadable:
            problems.append(unreadable.message)
        else:
            found.append((entry, planned))
            problems += _undecidable(entry, planned, Path(runs_dir))
            problems += _misplaced(entry, planned, placement)
    problems += _collisions(found)
    if problems:
        raise PlanProblems(problems)
    return PlannedSuite(name=suite.suite, run_id=prefix, runs_dir=str(runs_dir), parts=tuple(found))


def _misplaced(entry: SuiteEntry, planned: PlannedRuns, placement: RunBackend) -> list[str]:
    """Why runs of a part cannot be kept or worked on where they are to be."""
    try:
        for plan in planned.plans:
            check_placement(plan, placement)
    except UsageProblem as problem:
        return [f"'{entry.title}': {problem.message}"]
    return []


def _undecidable(entry: SuiteEntry, planned: PlannedRuns, runs_dir: Path) -> list[str]:
    """Why the gates of a part could not be decided, found before anything is paid for."""
    known = baselines(runs_dir)
    if entry.baseline in (NO_BASELINE, PREVIOUS):
        found, missing = entry.baseline == PREVIOUS, ""
    elif entry.baseline:
        found = entry.baseline in known or _is_run(entry.baseline, runs_dir)
        missing = "" if found else f"there is no baseline and no run '{entry.baseline}'"
    else:
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
        return find_run(runs_dir, name).is_sealed
    except AssayError:
        return False


def _collisions(parts: Sequence[tuple[SuiteEntry, PlannedRuns]]) -> list[str]:
    """Ids that two runs of the suite would share."""
    ids = Counter(plan.run_id for _, planned in parts for plan in planned.plans)
    return [f"two runs would be called '{run_id}': give one of them another `name`" for run_id, count in ids.items() if count > 1]


def run_suite(
    path: str | Path, *, runs_dir: str | Path = RUNS_DIR, run_id: str = "", placement: RunBackend = LOCAL_BACKEND
) -> SuiteResult:
    """Run and gate everything that a suite file names; `placement` says where the runs are kept and worked on, as for `run`."""
    planned = plan_suite(path, runs_dir=runs_dir, run_id=run_id, placement=placement)
    return decide_suite(planned, [run(plans, placement=placement) for _, plans in planned.parts])


def decide_suite(planned: PlannedSuite, results: Sequence[Sequence[RunResult]]) -> SuiteResult:
    """Gate the runs of each part and the suite as a whole; one that was interrupted is not decided."""
    parts = zip(planned.parts, results, strict=False)
    found = [_gated(entry, result, planned.runs_dir) for (entry, _), part in parts for result in part]
    expected = sum(len(plans.plans) for _, plans in planned.parts)
    is_finished = len(found) == expected and all(one.verdict is not None or one.problem for one in found)
    decided = _result(planned.name, found, is_finished=is_finished)
    if is_finished:
        members = {**decided.to_dict(), "run_id": planned.run_id, "runs": [one.run_id for one in found]}
        record(Path(planned.runs_dir), "suite", members)
    return decided


def _gated(entry: SuiteEntry, result: RunResult, runs_dir: str | Path) -> SuiteRun:
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
    """The gravest verdict of what is required; of the rest a failure is a warning."""
    failed = [one for one in runs if one.verdict is not None and not one.verdict.passed]
    words: set[Word] = {one.verdict.word for one in runs if one.verdict is not None and one.verdict.passed}
    words |= {one.verdict.word if one.required else "WARNING" for one in failed if one.verdict is not None}
    words |= {"WARNING" for one in runs if one.problem}
    word: Word = next((word for word in _GRAVITY if word in words), "PASS")
    undecided = [one for one in runs if one.problem]
    passed = is_finished and not any(one.required for one in (*failed, *undecided))
    return SuiteResult(suite=name, word=word, passed=passed, runs=tuple(runs), is_finished=is_finished)
