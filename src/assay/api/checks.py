"""Checks before a run: the installation, its plugins, the estimated cost, and uploads; `runs` starts without them."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from assay.api.runs import plan_runs, run, run_request
from assay.api.validation import validate
from assay.core.contract import BUILT_IN, CONTRACTS
from assay.core.plan import Plan
from assay.core.provider import PROVIDERS
from assay.core.runs import RUNS_DIR
from assay.core.setup_checks import DoctorCheck, ModelProbe
from assay.datasets.dataset_paths import find_sources
from assay.engine.planning.doctor import examine
from assay.engine.planning.estimate import CostEstimate
from assay.engine.planning.estimate import estimate_cost as estimate_planned
from assay.engine.planning.model_probes import probe_models as probe_planned
from assay.engine.planning.plans import PlannedRuns
from assay.engine.planning.request import PlanProblems, RunRequest
from assay.engine.submissions import UploadVerdict, one_report, upload_verdict
from assay.models import load_provider

__all__ = [
    "check_installation",
    "check_upload",
    "estimate_cost",
    "probe_models",
    "warm_up",
]


def check_installation(
    runs_dir: str | Path = RUNS_DIR,
    *,
    run_file: str | Path = "",
    is_offline: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Iterator[DoctorCheck]:
    """Check environment, extras, keys, the folder of runs, and the providers that have a key or that a run file uses."""
    # Handed in by tests and by callers with their own settings.
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


def probe_models(
    source: RunRequest | PlannedRuns | str | Path, *, environ: Mapping[str, str] | None = None, **options: object
) -> list[ModelProbe]:
    """Send each model of a run one small request with its real parameters, and say what its provider made of it.

    `source` and `options` are those of `run`. Nothing is stored, and models that answer without a network are not called. Raises
    PlanProblems when there is nothing to run.
    """
    used = os.environ if environ is None else environ
    planned = source if isinstance(source, PlannedRuns) else plan_runs(run_request(source, options), environ=used)
    # In a thread of its own, since a notebook has an event loop that is running.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, probe_planned(planned.plans, environ=used)).result()


def estimate_cost(planned: PlannedRuns, *, environ: Mapping[str, str] | None = None) -> CostEstimate:
    """Estimate the calls, tokens and dollars of planned runs; an unknown price is None, never a guess."""
    return estimate_planned(planned, environ=os.environ if environ is None else environ, now=time.time())


def warm_up(place: Path) -> None:
    """Load everything that uploads and runs need, by making a small run: several threads that begin to import at once may hang."""
    # Clients of providers are loaded by name, when a run first needs one.
    for kind, row in PROVIDERS.items():
        if row.vendor:
            load_provider(kind)
    for contract in CONTRACTS:
        validate(b"{}", contract)
    with TemporaryDirectory(dir=place) as folder:
        dataset, run_file = Path(folder, "dataset.json"), Path(folder, "run.yaml")
        record = {"record_id": "1", "input": {"prompt": "Hello"}}
        head = {"dataset_id": "warm-up", "dataset_version": "1", "schema_version": "1.0"}
        dataset.write_bytes(msgspec.json.encode({**head, "records": [record]}))
        run_file.write_text("candidates: [scripted/echo]\njudges: [scripted/judge-5]\n", encoding="utf-8")
        # A whole run, because grading, storing and sealing import modules of their own.
        run(RunRequest(run_file=str(run_file), datasets=(str(dataset),), runs_dir=str(Path(folder, "runs"))))


def check_upload(path: Path, contract: str, *, allow_size: bool = False, null_as_absent: bool = False) -> UploadVerdict:
    """Validate an upload."""
    # Plugins are code, which a caller of the service must not choose.
    known = BUILT_IN if contract == "auto" else contract
    sources = find_sources([str(path)])
    check = partial(validate, allow_size=allow_size, null_as_absent=null_as_absent, interface="http")
    return upload_verdict(one_report([check(source, known) for source in sources]))
