"""Finished runs ranked by their answers, two at a time."""

import os
from collections.abc import Mapping
from pathlib import Path

from assay.api.runs import OnBusy, RunHooks, Watch, run_environment
from assay.core.run_backend import LOCAL_BACKEND, RunBackend
from assay.core.run_result import RunResult
from assay.engine.planning.pairs import PlannedComparison, RankRequest, plan_comparison
from assay.engine.runs import start
from assay.engine.storage.run_id import new_run_id

__all__ = ["PlannedComparison", "RankRequest", "plan_rank", "rank"]


def plan_rank(request: RankRequest, *, environ: Mapping[str, str] | None = None) -> PlannedComparison:
    """The comparisons that a request describes; raises PlanProblems, UsageProblem and RunNotFound before any call."""
    return plan_comparison(request, environ=os.environ if environ is None else environ, new_run_id=new_run_id)


def rank(
    source: RankRequest | PlannedComparison,
    *,
    watch: Watch | None = None,
    on_busy: OnBusy | None = None,
    takes_signals: bool = False,
    placement: RunBackend = LOCAL_BACKEND,
) -> RunResult:
    """Have judges compare the answers of finished runs in both orders, as a run with sealed evidence; `ranking` of its metrics
    has who is ahead. An unfinished run of the same id goes on. `placement` says where it is kept, as for `run`.
    """
    planned = source if isinstance(source, PlannedComparison) else plan_rank(source)
    hooks = RunHooks(watch=watch, on_busy=on_busy, takes_signals=takes_signals, placement=placement)
    return start(planned.plan, Path(planned.runs_dir), run_environment(**hooks))
