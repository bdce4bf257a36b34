"""A finished run into MLflow, once, however often it is sent and wherever an earlier push broke off."""

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from assay import api
from assay.core.errors import RunDamaged, UsageProblem
from assay.surfaces.mlflow.figures import MANIFEST_TAG, RUN_TAG, figures_of
from assay.surfaces.mlflow.tracking import EXPERIMENT_VARIABLE, URI_VARIABLE, TrackedRun, Tracking, connected, shown_uri

Watch = Callable[[str, int, int], None]
"""Told what is being sent, how much of it is, and how much there is."""
_STATUS = {"failed": "FAILED", "cancelled": "KILLED"}
"""What MLflow calls the end of a run; everything else is FINISHED."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is pushed to."""

    uri: str
    experiment: str = ""
    """Empty for the dataset's."""


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """What a push came to."""

    run_id: str
    mlflow_run_id: str
    experiment: str
    uri: str
    """Without user name and password."""
    url: str
    """The page of the run; empty where MLflow is no server."""
    is_new: bool
    """No earlier push had begun the run."""
    parameters: int
    metrics: int
    artifacts_sent: int
    notes: tuple[str, ...] = ()
    """What was left out, and why."""


def destination(uri: str | None, experiment: str | None) -> Destination:
    """Where to push, by options and the environment; raises UsageProblem without an address."""
    address = uri or os.environ.get(URI_VARIABLE, "")
    if not address:
        raise UsageProblem("no MLflow server is named", hint=f"--uri http://localhost:5000, or set {URI_VARIABLE}")
    return Destination(uri=address, experiment=experiment or os.environ.get(EXPERIMENT_VARIABLE, ""))


def push(run: api.Run, to: Destination, *, watch: Watch | None = None) -> Pushed:
    """Push a finished run; raises MissingExtra, ServerProblem, and RunDamaged for files that are not as they were published."""
    _check(run)
    with connected(to.uri) as tracking:
        return _Push(run, tracking, watch or _ignore).to(to.experiment or run.manifest["dataset_id"])


def _ignore(what: str, done: int, total: int) -> None:
    """Nobody watches."""


def _check(run: api.Run) -> None:
    result = run.result
    if not result.is_finished:
        raise UsageProblem(
            f"run '{result.run_id}' has not ended: it is {result.state}", hint=f"go on with it: assay resume {result.run_id}"
        )
    problems = api.verify(result.run_id, runs_dir=run.folders.runs_dir)
    if problems:
        raise RunDamaged(f"run '{result.run_id}' is not as it was published: {problems[0]}")


class _Push:
    """One push of one run."""

    def __init__(self, run: api.Run, tracking: Tracking, watch: Watch) -> None:
        self._run = run
        self._tracking = tracking
        self._watch = watch
        self._manifest = run.manifest
        self._notes: list[str] = []

    def to(self, experiment: str) -> Pushed:
        figures = figures_of(self._run)
        if figures.slices_left_out:
            self._notes.append(
                f"{figures.slices_left_out:,} values of slices have no metrics of their own; metrics_by_slice.json has them"
            )
        experiment_id = self._tracking.experiment_id(experiment)
        found = self._tracking.find_run(experiment_id, {name: figures.tags[name] for name in (RUN_TAG, MANIFEST_TAG)})
        target = found or self._create(experiment_id, figures.tags)
        self._tracking.log_figures(target.run_id, figures.parameters, figures.metrics, at_ms=self._moment("completed_at"))
        files = self._run.artifacts()
        sent = self._tracking.upload(target.run_id, files)
        status = _STATUS.get(self._manifest["status"], "FINISHED")
        self._tracking.end_run(target.run_id, status, end_ms=self._moment("completed_at"))
        return Pushed(
            run_id=self._manifest["run_id"],
            mlflow_run_id=target.run_id,
            experiment=experiment,
            uri=shown_uri(self._tracking.uri),
            url=self._tracking.page_of(target),
            is_new=found is None,
            parameters=len(figures.parameters),
            metrics=len(figures.metrics),
            artifacts_sent=sent,
            notes=tuple(self._notes),
        )

    def _create(self, experiment_id: str, tags: dict[str, str]) -> TrackedRun:
        shown = {"mlflow.runType": "genai_evaluate", "mlflow.source.name": "assay", "mlflow.source.type": "LOCAL"}
        return self._tracking.create_run(
            experiment_id, self._manifest["run_id"], start_ms=self._moment("created_at"), tags={**tags, **shown}
        )

    def _moment(self, name: str) -> int:
        return milliseconds(self._manifest[name])


def milliseconds(moment: Any) -> int:
    """A time of an artifact as MLflow counts it."""
    return round(datetime.fromisoformat(moment).timestamp() * 1_000)
