"""Workers: processes that evaluate the records of runs which others start."""

import os
from collections.abc import Callable
from pathlib import Path

from assay.core.run_backend import RunBackend
from assay.engine.execution.engines import temporal_engine
from assay.engine.execution.record_events import Observer
from assay.engine.execution.run_environment import RunEnvironment

__all__ = ["work"]


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
    worker = temporal_engine("worker")
    settings = worker.WorkerSettings(runs_dir=Path(runs_dir).absolute(), shards=shards, is_versioned=is_versioned)
    worker.work(settings, RunEnvironment(environ=os.environ, observe=observe, placement=placement), report=say)
