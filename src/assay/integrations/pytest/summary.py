"""The runs of a session at the end of pytest's report."""

import os
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError
from assay.presentation.words import cost_text, counted
from assay.surfaces.printable import printable
from assay.surfaces.python_api.runs import Run, open_run


def write_summary(terminal: Any, runs_dir: Path, session: str) -> None:
    """A line on each run, where it is, and how to look at it."""
    terminal.section("assay")
    folder = os.path.relpath(runs_dir)
    active = {path.name for path in runs_dir.glob(f".active/{session}-*")}
    names = sorted({path.name for path in runs_dir.glob(f"{session}-*")} | active)
    for name in names:
        for line in _told(name, runs_dir):
            terminal.write_line(line)
    terminal.write_line(f"show one with: assay show {names[-1]} --runs-dir {printable(folder)}")


def _told(name: str, runs_dir: Path) -> list[str]:
    try:
        run = open_run(name, runs_dir=runs_dir)
        place = printable(os.path.relpath(run.run_dir))
        last = place if run.is_finished else f"resume with: assay resume {name} --runs-dir {printable(os.path.relpath(runs_dir))}"
        return [f"{name} · {run.state.replace('_', ' ')}", f"    {_figures(run)}", f"    {last}"]
    except AssayError as problem:
        return [f"{name} · {printable(problem.message)}"]


def _figures(run: Run) -> str:
    counts, summary = run.counts, run.result.summary
    if summary is None:
        return f"{counts.evaluated_records:,} of {counted(counts.total_records, 'record')} evaluated"
    rate = f"pass rate {run.pass_rate} · {summary.pass_count:,} of {counted(summary.n_scored, 'record')}"
    invalid = f" · {counts.invalid_records:,} of them invalid" if counts.invalid_records else ""
    errors = counts.failed_records + counts.cancelled_records
    return f"{rate} · {counted(errors, 'error')}{invalid} · cost {cost_text(summary.cost_usd)}"
