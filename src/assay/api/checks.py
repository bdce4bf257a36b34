"""Checks before a run: the installation, its plugins, and the estimated cost; apart from `runs`, which starts without them."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.api.runs import plan_runs
from assay.core.doctor import DoctorCheck
from assay.core.plan import Plan
from assay.core.runs import RUNS_DIR
from assay.engine.planning.doctor import examine
from assay.engine.planning.estimate import CostEstimate, ModelEstimate
from assay.engine.planning.estimate import estimate_cost as estimate_planned
from assay.engine.planning.plans import PlannedRuns
from assay.engine.planning.plugins import PluginListing, list_plugins
from assay.engine.planning.request import PlanProblems, RunRequest

__all__ = ["CostEstimate", "DoctorCheck", "ModelEstimate", "PluginListing", "estimate_cost", "examine_place", "list_plugins"]


def examine_place(
    runs_dir: str | Path = RUNS_DIR,
    *,
    run_file: str | Path = "",
    is_offline: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Iterator[DoctorCheck]:
    """Check environment, extras, keys, the folder of runs, and the providers that have a key or that a run file uses."""
    used = os.environ if environ is None else environ
    plans: tuple[Plan, ...] = ()
    if run_file:
        try:
            plans = plan_runs(RunRequest(run_file=str(run_file)), environ=used).plans
            yield DoctorCheck(area="run file", name=str(run_file), says="ready to run")
        except PlanProblems as problems:
            hint = f"assay check {run_file} lists the same"
            yield from (
                DoctorCheck(area="run file", name=str(run_file), standing="problem", says=line, hint=hint)
                for line in problems.problems
            )
    providers = {provider.name: provider for plan in plans for provider in plan.providers}
    yield from examine(Path(runs_dir), providers=tuple(providers.values()), environ=used, is_offline=is_offline)


def estimate_cost(planned: PlannedRuns, *, environ: Mapping[str, str] | None = None) -> CostEstimate:
    """Estimate the calls, tokens and dollars of planned runs; an unknown price is None, never a guess."""
    return estimate_planned(planned, environ=os.environ if environ is None else environ, now=time.time())
