"""Runs: plan, start, resume, cancel, retry."""

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import UsageProblem
from assay.core.plugin import Plugin
from assay.core.run_result import RunResult
from assay.core.runs import LOCAL_BACKEND, RUNS_DIR, RunBackend
from assay.core.secrets import RedactRule
from assay.core.settings import run_settings
from assay.datasets.dataset_paths import check_path
from assay.datasets.parsing.checks import nearest
from assay.datasets.parsing.config import read_columns
from assay.datasets.parsing.formats import guess_contract
from assay.datasets.parsing.source import open_source
from assay.engine.execution.record_events import Observer
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.planning.dataset_inputs import DatasetInput
from assay.engine.planning.plans import ListedRecords, PlannedRuns
from assay.engine.planning.plans import list_records as list_request
from assay.engine.planning.plans import plan_runs as plan_request
from assay.engine.planning.request import PlanProblems, RunRequest, is_run_file
from assay.engine.records.run_counters import Snapshot
from assay.engine.runs import cancel as cancel_run
from assay.engine.runs import resume as resume_run
from assay.engine.runs import retry_plan, temporal_engine
from assay.engine.runs import start as start_run
from assay.engine.storage.run_paths import find_run, new_run_id
from assay.models import unreachable_hosts

__all__ = [
    "cancel",
    "check",
    "list_records",
    "plan_run_file",
    "plan_runs",
    "resume",
    "retry",
    "run",
    "run_async",
    "work",
]


Watch = Callable[[Snapshot], None]
OnBusy = Callable[[int | None], None]


class RunHooks(TypedDict, total=False):
    """Callbacks for the caller of a run, and ways to stop it."""

    watch: Watch | None
    on_busy: OnBusy | None
    observe: Observer | None
    takes_signals: bool
    is_stopping: Callable[[], bool] | None
    """For a caller that has signals of its own: asked a few times a second, and True drains the run."""
    is_detached: bool
    """Batches of a provider are handed in and not waited for."""
    placement: RunBackend
    """Backend on which a new run is stored and evaluated."""
    is_patient: bool
    """While another process works on the run, the call waits for it."""
    is_retried: bool
    """After a storage failure the caller continues the run by itself, so that it has not failed."""


def plan_runs(request: RunRequest, *, environ: Mapping[str, str] | None = None) -> PlannedRuns:
    """Return the runs that a request describes; raises PlanProblems with everything that is wrong, before any call."""
    return plan_request(request, environ=os.environ if environ is None else environ, now=time.time(), new_run_id=new_run_id)


def run(
    source: object,
    *,
    watch: Watch | None = None,
    observe: Observer | None = None,
    takes_signals: bool = False,
    is_stopping: Callable[[], bool] | None = None,
    is_detached: bool = False,
    **options: Any,
) -> tuple[RunResult, ...]:
    """Run a request, its plans, a run file or a dataset, one run for each candidate; an unfinished run of the same id is resumed.

    `options` are the members of RunRequest; `model` and `judge` may be used for one model each. A model, a judge and the `grader`
    may be plain functions. A caller that has signals of its own may drain the run instead: `is_stopping` is asked a few times a
    second. `observe` gets each record; `on_busy` is called when another process works on the run. Detached, batches of a provider
    are submitted and not waited for: `resume` collects them. The members of RunBackend say where the run is stored and evaluated.
    """
    _check_hooks(watch=watch, observe=observe, is_stopping=is_stopping, on_busy=options.get("on_busy"))
    hooks = RunHooks(watch=watch, observe=observe, takes_signals=takes_signals, is_stopping=is_stopping, is_detached=is_detached)
    # Popped, as they are not settings of a run.
    hooks["on_busy"] = options.pop("on_busy", None)
    hooks["placement"] = _placement(options)
    planned = source if isinstance(source, PlannedRuns) else plan_runs(run_request(source, options))
    around = run_environment(planned.inputs, planned.plugins, **hooks)
    results: list[RunResult] = []
    for plan in planned.plans:
        # One after the other: limits of calls are those of one run.
        results.append(start_run(plan, Path(planned.runs_dir), around))
        if not (results[-1].is_finished or results[-1].is_resumable or is_detached):
            # The run was interrupted by a signal or by `is_stopping`, which is meant for all candidates.
            break
    return tuple(results)


def _placement(options: JsonObject) -> RunBackend:
    """Take the members of the backend out of the options."""
    given = {name: options.pop(name) for name in RunBackend.__struct_fields__ if name in options}
    placement: RunBackend = options.pop("placement", LOCAL_BACKEND)
    return msgspec.structs.replace(placement, **given)


def run_request(source: object, options: JsonObject) -> RunRequest:
    """Build the request for a run file or a dataset and options in Python; raises UsageProblem for an unknown one."""
    if isinstance(source, RunRequest):
        return source
    # None is an option that was not given, as in a call that passes its own defaults on.
    options = {name: _plain_option(name, value) for name, value in options.items() if value is not None}
    # Short names for the usual case of one model.
    for name, member in (("model", "models"), ("judge", "judges")):
        if name in options:
            options.setdefault(member, options.pop(name))
        if member in options and not isinstance(options[member], list | tuple):
            options[member] = (options[member],)
    if options.get("run_id") == "":
        # RunRequest reads an empty id as none, so that a new run would start where one was to be resumed.
        raise UsageProblem("the run id is empty", hint="leave it out for a new id")
    if "redact" in options:
        options["redact"] = _redact_rules(options["redact"])
    if "columns" in options:
        options |= _column_options(options.pop("columns"))
    unknown = sorted(set(options) - set(RunRequest.__struct_fields__))
    if unknown:
        known = (*RunRequest.__struct_fields__, "model", "judge", "columns")
        raise UsageProblem(
            f"unknown option '{unknown[0]}'", hint=nearest(unknown[0], known) or f"options: {', '.join(sorted(known))}"
        )
    return RunRequest(**{**options, **_source_options(source)})


def _redact_rules(rules: object) -> tuple[RedactRule, ...]:
    try:
        return msgspec.convert(msgspec.to_builtins(rules), tuple[RedactRule, ...])
    except (msgspec.ValidationError, TypeError) as problem:
        raise UsageProblem(
            f"redact: {problem}", hint='give rules, such as [{"name": "case_number", "pattern": "AZ-[0-9]+"}]'
        ) from problem


_PLAIN = (str, bool, int, float, bytes, list, tuple, dict, msgspec.Struct)
_CODE = frozenset(("models", "model", "judges", "judge", "grader", "policy", "policies", "contract"))
"""Options that may be functions, or objects that can be called."""


def _plain_option(name: str, value: Any) -> object:
    """Return an option with texts in the place of paths; raises UsageProblem for an object that no option can be."""
    if isinstance(value, list | tuple):
        return (
            [_plain_option(name, member) for member in value]
            if isinstance(value, list)
            else tuple(_plain_option(name, one) for one in value)
        )
    if isinstance(value, Path):
        return str(value)
    # A number of numpy is no number to a strict check of types.
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if name not in RunRequest.__struct_fields__ or name in _CODE or isinstance(value, _PLAIN):
        return value
    raise UsageProblem(f"{name} cannot be a value of type {type(value).__name__}", hint="give a text, a number, or a list of them")


def _check_hooks(**hooks: object) -> None:
    """Raise UsageProblem for a callback that cannot be called."""
    for name, hook in hooks.items():
        if hook is not None and not callable(hook):
            raise UsageProblem(
                f"{name} must be a function, not a value of type {type(hook).__name__}", hint="give a function, or leave it out"
            )


def _source_options(source: object) -> dict[str, object]:
    """Return the member of a request for a run file, a dataset, or data in memory."""
    if source is None:
        return {}
    if not isinstance(source, str | Path):
        return {"data": source}
    if isinstance(source, str):
        check_path(source)
    return {"run_file": str(source)} if is_run_file(source) else {"datasets": (str(source),)}


def _column_options(columns: Any) -> dict[str, object]:
    """Return the settings that name the columns of a table; raises UsageProblem for an unknown role."""
    found = msgspec.structs.asdict(read_columns(columns))
    settings = {setting.path: setting.member for setting in run_settings().values()}
    return {settings["columns", role]: value for role, value in found.items() if value}


def list_records(source: object, **options: object) -> ListedRecords:
    """Return the records that `run` would evaluate, and its gates, regardless of its models. Raises PlanProblems."""
    return list_request(run_request(source, options), environ=os.environ)


async def run_async(source: object, **options: Any) -> tuple[RunResult, ...]:
    """Run as `run` does, in a thread, for callers with their own event loop."""
    return await asyncio.to_thread(run, source, **options)


def resume(run_name: str, *, runs_dir: str | Path = RUNS_DIR, **hooks: Unpack[RunHooks]) -> RunResult:
    """Resume an unfinished run with the settings that it was started with."""
    return resume_run(find_run(Path(runs_dir), run_name), run_environment(**hooks))


def cancel(run_name: str, *, runs_dir: str | Path = RUNS_DIR, placement: RunBackend = LOCAL_BACKEND) -> RunResult:
    """Stop a run, also one on another machine; what is finished stays, and everything is sealed. Raises RunSealed."""
    return cancel_run(find_run(Path(runs_dir), run_name), run_environment(placement=placement))


def retry(run_name: str, *, runs_dir: str | Path = RUNS_DIR, run_id: str | None = None, **hooks: Unpack[RunHooks]) -> RunResult:
    """Start a new run, linked to the old one, over the records that the old one could not evaluate."""
    parent = find_run(Path(runs_dir), run_name)
    plan = retry_plan(parent, new_run_id() if run_id is None else run_id)
    return start_run(plan, parent.runs_dir, run_environment(**hooks))


def check(run_file: str | Path, *, environ: Mapping[str, str] | None = None) -> list[str]:
    """List everything that would prevent a run file from running, unreachable providers included; empty when it may run."""
    try:
        planned = plan_run_file(run_file, environ=environ)
    except PlanProblems as problems:
        return list(problems.problems)
    used = os.environ if environ is None else environ
    found = [problem for plan in planned.plans for problem in asyncio.run(unreachable_hosts(plan, environ=used))]
    return list(dict.fromkeys(found))


def plan_run_file(run_file: str | Path, *, environ: Mapping[str, str] | None = None) -> PlannedRuns:
    """Return the runs that a run file describes; raises PlanProblems, also for a dataset in its place."""
    if contract := _contract_of(run_file):
        command = f"assay validate {shlex.quote(str(run_file))}"
        raise PlanProblems([f"'{run_file}' is a dataset ({contract}), not a run file; check it with: {command}"])
    return plan_runs(RunRequest(run_file=str(run_file), interface="cli"), environ=environ)


def _contract_of(path: str | Path) -> str:
    """Return the contract of a file that is a dataset in place of a run file; empty for what is, or could become, a run file."""
    return "" if is_run_file(path) else guess_contract(open_source(path)).contract or ""


def run_environment(
    inputs: Sequence[DatasetInput] | None = None, plugins: Sequence[Plugin] = (), **hooks: Unpack[RunHooks]
) -> RunEnvironment:
    """Return the environment of a run for callers in this process."""
    return RunEnvironment(environ=os.environ, inputs=inputs, plugins=plugins, **hooks)


def work(
    placement: RunBackend,
    *,
    runs_dir: str | Path,
    shards: int,
    is_versioned: bool = False,
    observe: Observer | None = None,
    say: Callable[[str], None],
) -> None:
    """Evaluate shards of the runs of a shared ledger, until SIGTERM, SIGHUP or Ctrl-C; raises MissingExtra, UsageProblem."""
    # Loaded by name: Temporal's library is an extra.
    worker = temporal_engine("worker")
    settings = worker.WorkerSettings(runs_dir=Path(runs_dir).absolute(), shards=shards, is_versioned=is_versioned)
    worker.work(settings, RunEnvironment(environ=os.environ, observe=observe, placement=placement), report=say)
