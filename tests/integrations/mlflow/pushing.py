"""Runs to push, and what a test asks of MLflow about them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from assay import api
from assay.integrations.mlflow.exporter import Destination, PushResult, push
from assay.testing import example_dataset


def command(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """`assay` with these words, in a folder."""
    line = [sys.executable, "-m", "assay", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, check=False)


def golden_file(folder: Path) -> Path:
    """Five golden cases."""
    dataset = folder / "sums.json"
    dataset.write_bytes(example_dataset("golden_v1"))
    return dataset


def golden_run(folder: Path, run_id: str = "golden", **options: Any) -> api.RunReader:
    """A run over five golden cases that all pass, unless the options say otherwise."""
    settings = {"model": "scripted/say-4", "judges": ("scripted/judge-5",), **options}
    api.run(golden_file(folder), run_id=run_id, runs_dir=str(folder / "runs"), **settings)
    return api.open_run(run_id, runs_dir=folder / "runs")


def pushed(run: api.RunReader, uri: str, experiment: str, **options: Any) -> PushResult:
    """The run in MLflow."""
    return push(run, Destination(uri=uri, experiment=experiment, **options))


def runs_in(client: Any, experiment: str) -> list[Any]:
    """Every run of an experiment."""
    found: list[Any] = list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))
    return found


def traces_of(client: Any, found: PushResult) -> dict[str, Any]:
    """The traces of a pushed run by the ids of their records."""
    experiment_id = client.get_run(found.mlflow_run_id).info.experiment_id
    traces = client.search_traces(locations=[experiment_id], run_id=found.mlflow_run_id, max_results=500)
    return {trace.info.tags["assay.record_id"]: trace for trace in traces}


def marks(trace: Any, name: str) -> list[Any]:
    """The assessments of that name."""
    return [mark for mark in trace.info.assessments if mark.name == name]
