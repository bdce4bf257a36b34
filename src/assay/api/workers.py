"""Workers: processes that evaluate the records of runs which others start."""

import os
from collections.abc import Callable
from pathlib import Path

from assay.core.placement import Placement
from assay.engine.running.engines import temporal_engine
from assay.engine.running.observing import Observer
from assay.engine.running.surroundings import Surroundings

__all__ = ["work"]


def work(
    placement: Placement,
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
    worker.work(settings, Surroundings(environ=os.environ, observe=observe, placement=placement), say=say)
