"""Traces on their way to MLflow: each is sent once, however often a push is begun."""

import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from assay import api
from tests.engine.graded_runs import graded, passing, question
from tests.integrations.mlflow.pushing import golden_run, marks, pushed, runs_in, traces_of
from tests.integrations.mlflow.serving import MlflowServer

MANY = 150


def test_pushing_twice_sends_no_trace_twice(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path)
    first, second = (pushed(run, server.uri, "again") for _ in range(2))
    assert (first.traces_sent, second.traces_sent, second.traces) == (5, 0, 5)
    assert len(traces_of(client, second)["sum-1"].info.assessments) == len(traces_of(client, first)["sum-1"].info.assessments) == 4


def test_a_push_that_was_killed_goes_on_where_it_was(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    rows = [question(f"q{number}") for number in range(MANY)]
    graded(tmp_path, "large", rows, passing(rows, 0))
    experiment = _killed_while_it_sends(client, server, tmp_path)
    found = pushed(api.open_run("large", runs_dir=tmp_path / "runs"), server.uri, experiment)
    assert (found.is_new, found.traces) == (False, MANY)
    assert [run.info.status for run in runs_in(client, experiment)] == ["FINISHED"]
    assert len(client.get_metric_history(found.mlflow_run_id, "pass_rate")) == 1
    traces = traces_of(client, found)
    assert {len(trace.data.spans) for trace in traces.values()} == {2}
    assert {len(marks(trace, "passed")) for trace in traces.values()} == {1}


def _trace_ids(client: Any, experiment: str) -> list[str]:
    found = client.get_experiment_by_name(experiment)
    traces = client.search_traces(locations=[found.experiment_id], max_results=500, include_spans=False) if found else []
    return [trace.info.trace_id for trace in traces]


def _killed_while_it_sends(client: Any, server: MlflowServer, folder: Path) -> str:
    """The first of some experiments that has a part of the traces: on a busy machine all may be there before anybody looks."""
    for number in count():
        experiment = f"killed-{number}"
        line = [sys.executable, "-m", "assay", "mlflow", "push", "large", "--uri", server.uri, "--experiment", experiment]
        with subprocess.Popen(line, cwd=folder) as process:
            while process.poll() is None and not _trace_ids(client, experiment):
                time.sleep(0.05)
            process.kill()
        if 0 < len(_trace_ids(client, experiment)) < MANY:
            break
    return experiment
