"""Requests in, runs out: start, resume, cancel, look at, verify."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_args

import msgspec

from assay.core.errors import AssayError, UsageProblem
from assay.core.placement import HERE, Placement
from assay.core.plan import ProfileId
from assay.core.plugin import Plugin
from assay.core.run_result import RunListing, RunResult
from assay.engine.looking.opened import Run
from assay.engine.places.fetched import fetch_published
from assay.engine.places.folders import RunFolders, find_named_run, find_run, folders_of, run_ids
from assay.engine.places.homes import publish_sealed
from assay.engine.places.run_id import new_run_id
from assay.engine.planning.inputs import DatasetInput
from assay.engine.planning.plans import ListedRecords, PlannedRuns
from assay.engine.planning.plans import list_records as list_request
from assay.engine.planning.plans import plan_runs as plan_request
from assay.engine.planning.providers import model_problem
from assay.engine.planning.request import PlanProblems, RunRequest
from assay.engine.planning.run_file import is_run_file
from assay.engine.rescore import Rescoring
from assay.engine.rescore import rescore as rescore_run
from assay.engine.running.observing import CallSeen, Observer, RecordSeen, ScoreSeen
from assay.engine.running.surroundings import Surroundings
from assay.engine.runs import cancel as cancel_run
from assay.engine.runs import list_runs as listed_runs
from assay.engine.runs import result_of, retry_plan
from assay.engine.runs import resume as resume_run
from assay.engine.runs import start as start_run
from assay.engine.sealing.recompute import differences
from assay.engine.tally import Snapshot
from assay.models import unreachable_hosts
from assay.store.folder import RunFolder, Tombstone, open_run_folder
from assay.store.index_folder import forget_index
from assay.store.objects import ObjectPlace, is_object_address
from assay.store.retention import purge_run, purgeable
from assay.store.verify import removed_artifacts, verify_place, verify_run

__all__ = [
    "CallSeen",
    "ListedRecords",
    "Observer",
    "Placement",
    "PlanProblems",
    "PlannedRuns",
    "Purged",
    "RecordSeen",
    "Run",
    "RunRequest",
    "ScoreSeen",
    "Snapshot",
    "cancel",
    "check",
    "fetch",
    "is_run_file",
    "list_records",
    "list_runs",
    "model_problem",
    "open_run",
    "plan_runs",
    "publish",
    "purge",
    "removed",
    "replay",
    "rescore",
    "resume",
    "retry",
    "run",
    "run_async",
    "verify",
]

RUNS_DIR = "runs"

Watch = Callable[[Snapshot], None]
OnBusy = Callable[[int | None], None]


class Hooks(TypedDict, total=False):
    """What a caller may be told of a run that goes on, and how it may stop it."""

    watch: Watch | None
    on_busy: OnBusy | None
    observe: Observer | None
    takes_signals: bool
    is_stopping: Callable[[], bool] | None
    """For a caller that has signals of its own: asked a few times a second, and True drains the run."""
    is_detached: bool
    """Batches of a provider are handed in and not waited for."""
    placement: Placement
    """Where a new run is kept and worked on."""
    is_patient: bool
    """While another process works on the run, the call waits for it."""


class Purged(msgspec.Struct, frozen=True):
    """What a purge removed from a run, or would remove."""

    run_id: str
    artifacts: tuple[str, ...] = ()
    problem: str = ""
    """Why nothing could be removed from this run."""
    cache_dir: str = ""
    """Where replies that the run got may still be: a cache belongs to no run, and is not purged. Empty without one."""


def plan_runs(request: RunRequest, *, environ: Mapping[str, str] | None = None) -> PlannedRuns:
    """The runs that a request describes; raises PlanProblems with everything that is wrong, before any call."""
    return plan_request(request, environ=os.environ if environ is None else environ, now=time.time(), new_run_id=new_run_id)


def run(
    source: RunRequest | PlannedRuns | str | Path,
    *,
    watch: Watch | None = None,
    observe: Observer | None = None,
    takes_signals: bool = False,
    is_stopping: Callable[[], bool] | None = None,
    is_detached: bool = False,
    **options: Any,
) -> tuple[RunResult, ...]:
    """Run a request, its plans, a run file or a dataset, one run for each candidate; an unfinished run of the same id goes on.

    `options` are the members of RunRequest; `model` and `judge` may be used for one model each. A model, a judge and the `grader`
    may be plain functions. A caller that has signals of its own may drain the run instead: `is_stopping` is asked a few times a
    second. `observe` is told of each record, `on_busy` that another process works on the run. Detached, batches of a provider are
    handed in and not waited for: `resume` collects them. The members of Placement say where the run is kept and worked on.
    """
    hooks = Hooks(watch=watch, observe=observe, takes_signals=takes_signals, is_stopping=is_stopping, is_detached=is_detached)
    hooks["on_busy"] = options.pop("on_busy", None)
    hooks["placement"] = _placement(options)
    planned = source if isinstance(source, PlannedRuns) else plan_runs(_request(source, options))
    around = surroundings(planned.inputs, planned.plugins, **hooks)
    results: list[RunResult] = []
    for plan in planned.plans:
        results.append(start_run(plan, Path(planned.runs_dir), around))
        if not results[-1].is_finished and not is_detached:
            break
    return tuple(results)


def _placement(options: dict[str, Any]) -> Placement:
    """Where the run is kept and worked on, taken out of the options."""
    given = {name: options.pop(name) for name in Placement.__struct_fields__ if name in options}
    placement: Placement = options.pop("placement", HERE)
    return msgspec.structs.replace(placement, **given)


def _request(source: RunRequest | str | Path, options: dict[str, Any]) -> RunRequest:
    if isinstance(source, RunRequest):
        return source
    for name, member in (("model", "models"), ("judge", "judges")):
        if name in options:
            options[member] = (options.pop(name),)
    if options.get("run_id") == "":
        raise UsageProblem("the run id is empty", hint="leave it out for a new id")
    unknown = sorted(set(options) - set(RunRequest.__struct_fields__))
    if unknown:
        raise UsageProblem(f"unknown option '{unknown[0]}'", hint=f"options: {', '.join(RunRequest.__struct_fields__)}")
    named = {"run_file": str(source)} if is_run_file(source) else {"datasets": (str(source),)}
    return RunRequest(**{**options, **named})


def list_records(source: RunRequest | str | Path, **options: Any) -> ListedRecords:
    """The records that `run` would take, and its gates; no model is looked at. Raises PlanProblems."""
    return list_request(_request(source, options), environ=os.environ)


async def run_async(source: RunRequest | str | Path, **options: Any) -> tuple[RunResult, ...]:
    """As `run`, for callers that have an event loop of their own: the run works in a thread beside it."""
    return await asyncio.to_thread(run, source, **options)


def resume(run_name: str, *, runs_dir: str | Path = RUNS_DIR, **hooks: Unpack[Hooks]) -> RunResult:
    """Go on with an unfinished run under the settings that it was started with."""
    return resume_run(find_run(Path(runs_dir), run_name), surroundings(**hooks))


def cancel(run_name: str, *, runs_dir: str | Path = RUNS_DIR, placement: Placement = HERE) -> RunResult:
    """Stop a run that may be under way elsewhere; what is finished stays, and everything is sealed. Raises RunSealed."""
    return cancel_run(find_run(Path(runs_dir), run_name), surroundings(placement=placement))


def retry(run_name: str, *, runs_dir: str | Path = RUNS_DIR, run_id: str | None = None, **hooks: Unpack[Hooks]) -> RunResult:
    """A new run, linked to the old one, over the records that the old one could not evaluate."""
    parent = find_run(Path(runs_dir), run_name)
    plan = retry_plan(parent, new_run_id() if run_id is None else run_id)
    return start_run(plan, parent.runs_dir, surroundings(**hooks))


def rescore(
    run_name: str,
    *,
    profile: ProfileId,
    compat: bool = False,
    min_score: float | None = None,
    runs_dir: str | Path = RUNS_DIR,
    run_id: str | None = None,
) -> RunResult:
    """A new run, linked to the old one, with the score that a profile gives its records; no model is called."""
    if profile not in get_args(ProfileId):
        raise UsageProblem(f"unknown profile '{profile}'", hint=f"profiles: {', '.join(get_args(ProfileId))}")
    parent = find_run(Path(runs_dir), run_name)
    target = folders_of(parent.runs_dir, new_run_id() if run_id is None else run_id)
    rescore_run(parent, target, wanted=Rescoring(profile=profile, compat=compat, min_score=min_score), at=time.time())
    return result_of(target)


def list_runs(runs_dir: str | Path = RUNS_DIR) -> Iterator[RunListing]:
    """All runs of a folder, the newest first."""
    return listed_runs(Path(runs_dir))


def open_run(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> Run:
    """A run to look at, by its id, the beginning of one, `latest`, or the path of its folder; raises RunNotFound."""
    return Run(find_run(Path(runs_dir), run_name))


def verify(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> list[str]:
    """One line for each artifact of a finished run that is not as it was published; empty when all is well.

    The run may also lie in an object store: s3://bucket/prefix/run.
    """
    if is_object_address(run_name):
        return verify_place(ObjectPlace(run_name))
    return verify_run(_sealed(run_name, runs_dir).sealed)


def publish(run_name: str, address: str, *, runs_dir: str | Path = RUNS_DIR) -> str:
    """Write a finished run below an address of an object store, each file once and the manifest last; returns where it is.

    Repeating it changes nothing. Raises UsageProblem for a run that is not as it was published, RunSealed where another one is.
    """
    return publish_sealed(_sealed(run_name, runs_dir).sealed, address)


def fetch(address: str, *, runs_dir: str | Path = RUNS_DIR) -> Run:
    """Bring a finished run here from an object store, s3://bucket/prefix/run, checked against its manifest.

    Raises RunNotFound, RunDamaged for a run that was changed, RunSealed where another one of that id is, StoreUnavailable.
    """
    return Run(fetch_published(address, Path(runs_dir)))


def removed(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> tuple[Tombstone, ...]:
    """What retention has removed from a finished run: name, hash, time and reason of each artifact."""
    return removed_artifacts(_sealed(run_name, runs_dir).sealed)


def replay(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> list[str]:
    """Recompute every metric from the artifacts alone; one line for each that differs."""
    return differences(sealed_folder(run_name, runs_dir))


def sealed_folder(run_name: str, runs_dir: str | Path) -> RunFolder:
    """The folder of a finished run; raises UsageProblem for one that has not ended."""
    return open_run_folder(_sealed(run_name, runs_dir).sealed)


def _sealed(run_name: str, runs_dir: str | Path) -> RunFolders:
    folders = find_run(Path(runs_dir), run_name)
    if not folders.is_sealed:
        raise UsageProblem(f"run '{folders.run_id}' has not ended", hint=f"go on with it: assay resume {folders.run_id}")
    return folders


def purge(runs_dir: str | Path = RUNS_DIR, *, run_name: str | None = None, reason: str = "", is_dry: bool = False) -> list[Purged]:
    """Remove artifacts whose time of retention is over; those of one run earlier, when its whole id and a reason are given.

    A run that cannot be read keeps none of the others from being purged; its entry says why nothing of it could be removed.
    """
    now = time.time()
    if run_name is None:
        folders = (RunFolders(Path(runs_dir), run_id) for run_id in run_ids(Path(runs_dir)))
        swept = (_swept(folder.sealed, now=now, is_dry=is_dry) for folder in folders if folder.is_sealed)
        return [entry for entry in swept if entry.artifacts or entry.problem]
    if reason:
        find_named_run(Path(runs_dir), run_name)
    folder = _sealed(run_name, runs_dir).sealed
    if is_dry:
        found = Purged(folder.name, tuple(purgeable(folder, now=now, force=bool(reason))))
    else:
        found = _purged(folder, now=now, force=bool(reason), reason=reason)
    plan = open_run_folder(folder).manifest.get("plan") or {}
    return [msgspec.structs.replace(found, cache_dir=plan.get("cache_dir", ""))]


def _swept(folder: Path, *, now: float, is_dry: bool) -> Purged:
    try:
        expired = purgeable(folder, now=now)
        return Purged(folder.name, tuple(expired)) if is_dry or not expired else _purged(folder, now=now)
    except AssayError as problem:
        return Purged(folder.name, problem=problem.message)


def _purged(folder: Path, *, now: float, force: bool = False, reason: str = "") -> Purged:
    tombstones = purge_run(folder, now=now, force=force, reason=reason)
    forget_index(folder)
    return Purged(folder.name, tuple(tombstone.name for tombstone in tombstones))


def check(run_file: str | Path, *, environ: Mapping[str, str] | None = None) -> list[str]:
    """Everything that would keep a run file from running, unreachable providers included; empty when it may run."""
    try:
        planned = plan_runs(RunRequest(run_file=str(run_file)), environ=environ)
    except PlanProblems as problems:
        return list(problems.problems)
    used = os.environ if environ is None else environ
    found = [problem for plan in planned.plans for problem in asyncio.run(unreachable_hosts(plan, environ=used))]
    return list(dict.fromkeys(found))


def surroundings(
    inputs: Sequence[DatasetInput] | None = None, plugins: Sequence[Plugin] = (), **hooks: Unpack[Hooks]
) -> Surroundings:
    """What a run takes from outside, for the callers of this process."""
    return Surroundings(environ=os.environ, inputs=inputs, plugins=plugins, **hooks)
