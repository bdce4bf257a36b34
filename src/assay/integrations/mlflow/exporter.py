"""Push of a finished run: its metrics, artifacts and dataset, and the records that become traces."""

import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Any, Literal

import msgspec

from assay import api
from assay.core.artifact_lines import PredictionLine
from assay.core.errors import RunDamaged, UsageProblem
from assay.integrations.mlflow.datasets import push_dataset
from assay.integrations.mlflow.run_data import MANIFEST_TAG, RUN_TAG, run_data_of
from assay.integrations.mlflow.trace_sender import TraceSender
from assay.integrations.mlflow.traces import MAX_CRITERIA, UNNAMED, TraceContext, short_name, trace_of
from assay.integrations.mlflow.tracking import (
    EXPERIMENT_VARIABLE,
    URI_VARIABLE,
    TrackedRun,
    TrackingConnection,
    check_uri,
    connected,
    shown_uri,
)
from assay.presentation.decisions import decision_note, decisions
from assay.presentation.run_report import RunReport
from assay.presentation.words import NO_GATES, counted
from assay.surfaces.python_api.runs import Run

Choice = int | Literal["all", "failed", "none"]
MAX_TRACES = 5_000
"""Default number of traces of a run: some minutes of MLflow's time."""


class SelectedRecords(msgspec.Struct, frozen=True):
    """Records of a run by their places."""

    count: int
    places: frozenset[int] | None
    """None for all."""
    note: str = ""
    """Number of records without a trace, in words."""

    def has(self, prediction: PredictionLine) -> bool:
        """Return True for a record that becomes a trace."""
        return self.places is None or prediction.index in self.places


def read_choice(text: str) -> Choice:
    """Parse the value of `--traces`; raises UsageProblem."""
    if text in ("all", "failed", "none"):
        return text  # type: ignore[return-value]  # one of the words
    if not text.isascii() or not text.isdigit():
        raise UsageProblem(f"--traces takes a number, 'all', 'failed' or 'none', not '{text}'")
    return int(text)


def chosen_records(run: api.RunReader, choice: Choice) -> SelectedRecords:
    """Return the records of a run that become traces.

    A number of them is drawn by the hashes of the records: what MLflow computes of traces is then not of the worst or of the
    first ones, and of two runs over a dataset the same records are there to be compared.
    """
    if choice == "failed":
        return _failed_records(run)
    lines = [(line.record_sha256, line.index) for line in run.predictions()]
    # A limit of all records means no selection, which needs no set of places.
    limit = len(lines) if choice == "all" else 0 if choice == "none" else choice
    if limit >= len(lines):
        return SelectedRecords(len(lines), None)
    left = f"{len(lines) - limit:,} of {len(lines):,} records have no trace"
    how = (
        f"{left}; {limit:,} were drawn by their hashes, --traces all sends every one"
        if limit
        else f"{left}; --traces all sends them"
    )
    # The smallest hashes: a random sample that is the same for every run over the dataset.
    return SelectedRecords(limit, frozenset(index for _, index in nsmallest(limit, lines)), how)


def _failed_records(run: api.RunReader) -> SelectedRecords:
    lines = [(line.index, line.passed) for line in run.predictions()]
    places = frozenset(index for index, passed in lines if not passed)
    left = len(lines) - len(places)
    note = (
        f"the {left:,} records that passed have no trace, so MLflow's own averages over traces are not those of the run"
        if left
        else ""
    )
    return SelectedRecords(len(places), places, note)


Watch = Callable[[str, int, int], None]
"""Called with what is being sent, the number sent, and the total."""
_RECORD_FILES = ("predictions.jsonl", "input_dataset.json", "attempt_logs.jsonl")
"""Files that traces are made of."""
_STATUS = {"failed": "FAILED", "cancelled": "KILLED"}
"""MLflow's status for the state of a run; every other state is FINISHED."""


_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#+!|~&-]")


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Address and experiment that a run is pushed to, and the records that become traces."""

    uri: str
    experiment: str = ""
    """Empty for the dataset's."""
    traces: Choice = MAX_TRACES
    """Records that become traces: a number of them, or which."""
    labels: str = ""
    """A file with labels of people; those that were given on the pages are pushed anyway."""


class PushResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a push."""

    run_id: str
    mlflow_run_id: str
    experiment: str
    uri: str
    """Without user name and password."""
    url: str
    """Page of the run; empty where MLflow is not a server."""
    is_new: bool
    """No earlier push had created the run."""
    parameters: int
    metrics: int
    artifacts_sent: int
    traces: int
    """Traces of the run in MLflow now."""
    traces_sent: int
    notes: tuple[str, ...] = ()
    """Notes on what was left out, with the reason."""


def destination(uri: str | None, experiment: str | None) -> Destination:
    """Choose where to push, by options and the environment; raises UsageProblem without a valid address."""
    address = uri or os.environ.get(URI_VARIABLE, "")
    if not address:
        raise UsageProblem("no MLflow server is named", hint=f"--uri http://localhost:5000, or set {URI_VARIABLE}")
    check_uri(address)
    return Destination(uri=address, experiment=experiment or os.environ.get(EXPERIMENT_VARIABLE, ""))


def push(run: api.RunReader | Run, to: Destination, *, watch: Watch | None = None) -> PushResult:
    """Push a finished run; raises MissingExtra, ServerProblem, and RunDamaged for files that are not as they were published."""
    reader = run.reader if isinstance(run, Run) else run
    _check(reader)
    with connected(to.uri) as tracking:
        return _Push(reader, tracking, to=to, watch=watch or _ignore).whole()


def _ignore(what: str, done: int, total: int) -> None:
    """Ignore the progress."""


def _check(run: api.RunReader) -> None:
    result = run.result
    if not result.is_finished:
        raise UsageProblem(
            f"run '{result.run_id}' is unfinished: it is {result.state}", hint=f"resume it: assay resume {result.run_id}"
        )
    # A push publishes the artifacts, so they are verified like any publication.
    problems = api.verify(result.run_id, runs_dir=run.folders.runs_dir)
    if problems:
        raise RunDamaged(f"run '{result.run_id}' is not as it was published: {problems[0]}")


class _Push:
    """One push of one run."""

    def __init__(self, run: api.RunReader, tracking: TrackingConnection, *, to: Destination, watch: Watch) -> None:
        self._run = run
        self._tracking = tracking
        self._to = to
        self._watch = watch
        self._manifest = run.run_manifest
        self._notes: list[str] = []

    def whole(self) -> PushResult:
        """Push everything, in an order in which the run in MLflow ends only when all of it is there."""
        experiment = self._to.experiment or self._manifest.dataset_id
        run_data = run_data_of(self._run)
        if run_data.slices_left_out:
            self._notes.append(
                f"{run_data.slices_left_out:,} values of slices have no metrics of their own; metrics_by_slice.json has them"
            )
        experiment_id = self._tracking.experiment_id(experiment)
        # Found by two tags: a run id may have been used again after its folder was removed, and then the manifest
        # differs.
        found = self._tracking.find_run(experiment_id, {name: run_data.tags[name] for name in (RUN_TAG, MANIFEST_TAG)})
        target = found or self._create(experiment_id, run_data.tags)
        # Parameters and metrics before the large parts, so that a push that breaks off leaves a run that can be
        # compared.
        self._tracking.log_figures(target.run_id, run_data.parameters, run_data.metrics, at_ms=self._moment("completed_at"))
        files_sent = self._tracking.upload(target.run_id, self._run.artifacts()) + self._send_eval_run(target)
        sender = TraceSender(self._tracking, target)
        traces_sent = self._send_records(sender, target)
        self._end(target)
        # A push that sent nothing is not an event.
        if found is None or traces_sent or files_sent:
            self._note(target)
        return PushResult(
            run_id=self._manifest.run_id,
            mlflow_run_id=target.run_id,
            experiment=experiment,
            uri=shown_uri(self._tracking.uri),
            url=self._tracking.page_of(target),
            is_new=found is None,
            parameters=len(run_data.parameters),
            metrics=len(run_data.metrics),
            artifacts_sent=files_sent,
            traces=sender.total,
            traces_sent=traces_sent,
            notes=tuple(self._notes),
        )

    def _create(self, experiment_id: str, tags: dict[str, str]) -> TrackedRun:
        shown = {"mlflow.runType": "genai_evaluate", "mlflow.source.name": "assay", "mlflow.source.type": "LOCAL"}
        return self._tracking.create_run(
            experiment_id, self._manifest.run_id, start_ms=self._moment("created_at"), tags={**tags, **shown}
        )

    def _send_eval_run(self, target: TrackedRun) -> int:
        """Send golden_v1's EvalRun with MLflow's id, as the contract requires; eval_results.json was sealed without one."""
        path = self._run.artifacts().get("eval_results.json")
        if path is None:
            return 0
        document = msgspec.json.decode(path.read_bytes())
        eval_run = {**document, "run_id": target.run_id, "assay_run_id": self._manifest.run_id}
        return self._tracking.upload_document(target.run_id, "eval_run.json", eval_run)

    def _send_records(self, sender: TraceSender, target: TrackedRun) -> int:
        """Send the dataset and the traces; returns how many traces were sent."""
        missing = [name for name in _RECORD_FILES if name not in self._run.artifacts()]
        if missing:
            self._notes.append(f"no dataset and no traces: retention has removed {missing[0]}")
            return 0
        push_dataset(self._run, self._tracking, target)
        chosen = chosen_records(self._run, self._to.traces)
        if chosen.note:
            self._notes.append(chosen.note)
        filled = api.filled_labels(self._run, self._to.labels) if self._to.labels else ()
        setting = self._trace_context(target, filled)
        raters = {short_name(label.rater or UNNAMED) for label in filled}
        traces = (trace_of(entry, setting) for entry in self._run.entries() if chosen.has(entry.prediction))
        watch = self._watch
        return sender.send(traces, sent=lambda done: watch("traces", done, chosen.count), raters=raters) if chosen.count else 0

    def _trace_context(self, target: TrackedRun, filled: Sequence[api.KeptLabel]) -> TraceContext:
        # A label in the file replaces one that the same rater gave on the pages.
        # Labels of the file come later in the chain, so they win.
        said = {(label.answer, label.rater): label for label in (*api.kept_labels(self._run), *filled)}
        labels: dict[tuple[str, str, int], list[api.KeptLabel]] = {}
        for label in said.values():
            labels.setdefault(label.answer, []).append(label)
        criteria = {score.criterion for line in self._run.scores() for score in line.evaluator_scores}
        models = (self._manifest.candidate, *self._manifest.judges)
        return TraceContext(
            mlflow_run_id=target.run_id,
            run_id=self._manifest.run_id,
            started_at=self._manifest.started_at or self._manifest.created_at,
            dataset_id=self._manifest.dataset_id,
            providers={model.name: model.provider for model in models},
            # Many criteria would each be a column in MLflow's tables; then they share one name.
            has_own_names=len(criteria) <= MAX_CRITERIA,
            labels=labels,
        )

    def _end(self, target: TrackedRun) -> None:
        # The description needs the notes of all parts, so it is written at the end.
        self._tracking.tag_run(target.run_id, {"mlflow.note.content": self._description()})
        status = _STATUS.get(self._manifest.status, "FINISHED")
        self._tracking.end_run(target.run_id, status, end_ms=self._moment("completed_at"))

    def _note(self, target: TrackedRun) -> None:
        """Write the run's name in MLflow into the audit log."""
        members = {"run_id": self._manifest.run_id, "mlflow_run_id": target.run_id, "uri": shown_uri(self._tracking.uri)}
        api.note_audit(self._run.folders.runs_dir, "mlflow_pushed", members)

    def _description(self) -> str:
        """Write the description on the run's page, in Markdown."""
        result = self._run.result
        counts = result.counts
        view = RunReport(result=result, manifest=self._manifest)
        decided = [f"- {found.word}: {escaped(found.reason)}" for found in decisions(view) if found.word != NO_GATES]
        graded = f"{counts.evaluated_records:,} of {counted(counts.total_records, 'record')} graded"
        words = f"{graded}, {counted(counts.failed_records, 'error')}"
        notes = [f"- {escaped(note)}" for note in (decision_note(view), *self._notes) if note]
        return "\n".join([f"assay run `{result.run_id}`: {words}.", "", *decided, *notes]).strip()

    def _moment(self, name: str) -> int:
        return milliseconds(getattr(self._manifest, name))


def milliseconds(moment: Any) -> int:
    """Return a time of an artifact as MLflow counts it."""
    return round(datetime.fromisoformat(moment).timestamp() * 1_000)


def escaped(text: str) -> str:
    """Escape text of a dataset or a model inside Markdown."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))
