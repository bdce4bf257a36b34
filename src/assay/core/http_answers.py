"""Answers of the HTTP service: what the server sends and the client reads.

Members with a default are always sent, unless the struct omits defaults: the default is for clients of a service that is older.
Members that a newer service adds are ignored.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from assay.core.canonical import JsonObject
from assay.core.plan import DEFAULT_PROJECT
from assay.core.run_result import RunListing
from assay.core.runs import TERMINAL, RunCounts, State
from assay.core.summary import GateResult


def _says(description: str) -> Meta:
    return Meta(description=description)


# The six members, their names and the constant severity are fixed by batch_v1; more may be added, none may change.
class RecordError(msgspec.Struct, frozen=True, kw_only=True):
    """One error of one record."""

    index: Annotated[int, _says("Zero-based index of the record.")]
    record_id: Annotated[str | None, _says("Its id, where it has one that can be read.")] = None
    code: str
    message: str
    path: Annotated[str, _says("Place of the value, such as `records[1].input.prompt`.")]
    severity: Literal["error"] = "error"


class RecordSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of accepted and rejected records of a dataset."""

    total_records: int
    accepted_records: int
    rejected_records: int


class SubmissionResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dataset was taken, and its run waits for its turn."""

    run_id: str
    status: Literal["accepted", "accepted_with_record_errors"]
    summary: RecordSummary
    record_errors: Annotated[tuple[RecordError, ...], _says("The errors of records that are left out; at most 1,000.")]
    """`Client.errors` gives all of them."""
    request_id: str
    # 50,000 records may each have several errors. The response lists 1,000, and these members tell where the others are.
    record_errors_truncated: Annotated[bool, _says("True when not all errors are listed.")] = False
    record_errors_total: Annotated[int | None, _says("Number of errors, when not all are listed.")] = None
    record_errors_url: Annotated[str | None, _says("Address of all errors, when not all are listed.")] = None


class ValidationResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a validation."""

    contract: str
    outcome: Literal["accepted", "accepted_with_record_errors", "rejected"]
    summary: RecordSummary
    dataset_errors: Annotated[tuple[JsonObject, ...], _says("At most 1,000.")]
    dataset_errors_total: Annotated[int, _says("Total number.")] = 0
    record_errors: Annotated[tuple[RecordError, ...], _says("At most 1,000.")]
    record_errors_total: Annotated[int, _says("Total number.")]
    warnings: Annotated[tuple[JsonObject, ...], _says("At most 1,000.")]
    warnings_total: Annotated[int, _says("Total number.")]
    not_sent: Annotated[dict[str, int], _says("Fields sent to no model, with the number of records that have each.")] = {}
    judge_only: Annotated[dict[str, int], _says("Open fields sent only to judges.")] = {}
    candidate_and_judge: Annotated[dict[str, int], _says("Open fields also sent to the candidate.")] = {}
    request_id: str

    @property
    def is_valid(self) -> bool:
        """True when there are no errors, only warnings."""
        return self.outcome == "accepted"


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Return the current state of a run."""

    run_id: str
    state: State
    is_interrupted: Annotated[bool, _says("No process is working on it, in any state. You can resume it.")] = False
    is_resumable: Annotated[bool, _says("It failed before its end and has no artifacts; see `problem`. You can resume it.")] = False
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None
    states: Annotated[tuple[JsonObject, ...], _says("Every state of the run, with its time.")] = ()
    dataset_id: str
    dataset_version: str = ""
    dataset_file: Annotated[str, _says("The name of the dataset's file.")] = ""
    model: Annotated[str, _says("The candidate.")]
    project: Annotated[str, _says("The API keys of this project may see the run.")] = DEFAULT_PROJECT
    group: Annotated[str, _says("The name that it shares with the runs of its group; empty for a run by itself.")] = ""
    counts: RunCounts
    done_records: int
    eta_seconds: Annotated[float | None, _says("Seconds until all records are done at the current rate; null if unknown.")] = None
    # Passed on as the artifact has it: a client of an older version must see the members that a newer server wrote.
    metrics: Annotated[JsonObject | None, _says("The metrics summary; null before the end.")] = None
    gate: Annotated[GateResult | None, _says("Whether the run met its gates; null before the end.")] = None
    problem: Annotated[str | None, _says("Reason why the run stopped before its end; resume it when that is fixed.")] = None
    links: dict[str, str] = {}
    request_id: str

    @property
    def is_finished(self) -> bool:
        """True when the run has ended and its artifacts are sealed."""
        return self.state in TERMINAL and not self.is_resumable

    @property
    def is_stopped(self) -> bool:
        """True when the run makes no progress: it has ended, or waits for `Client.resume`."""
        return self.state in TERMINAL or self.problem is not None


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a run under way, as the client reads it from the stream of events."""

    id: str
    """Names the state of the run; `Client.events` continues after it."""
    run_id: str
    state: State
    counts: RunCounts
    done_records: int
    eta_seconds: float | None = None
    problem: str | None = None
    is_end: bool = False
    """Nothing comes after this."""


class RunsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the runs, the newest first."""

    runs: tuple[RunListing, ...]
    next_cursor: Annotated[str | None, _says("Cursor of the next page; null at the end.")] = None
    request_id: str = ""


class LinesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a run."""

    items: tuple[JsonObject, ...]
    next_cursor: Annotated[str | None, _says("Cursor of the next page; null at the end.")] = None
    total: Annotated[int | None, _says("Total number, if known.")] = None
    request_id: str = ""


class ErrorsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of lines that are errors of records."""

    items: tuple[RecordError, ...]
    next_cursor: str | None = None


class RecordResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Return one record: its input, its result and every attempt."""

    record: JsonObject
    request_id: str = ""


class ScoreDistribution(msgspec.Struct, frozen=True, kw_only=True):
    """Distribution of the scores of a run."""

    run_id: str
    scale: str | None
    graded_records: int
    passed_records: int
    scores: Annotated[tuple[JsonObject, ...], _says("Every raw score with the number of records that have it.")]
    criteria: Annotated[JsonObject, _says("The same for every criterion.")]
    request_id: str


class ArtifactFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a finished run."""

    name: str
    sha256: str
    bytes: int
    lines: int | None = None
    url: str = ""


class RemovedView(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a file that retention has removed."""

    name: str
    sha256: str
    bytes: int
    lines: int
    purged_at: str
    reason: str


class ArtifactsView(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a finished run."""

    run_id: str = ""
    artifacts: Annotated[tuple[ArtifactFile, ...], _says("Files that can be downloaded.")]
    removed: Annotated[tuple[RemovedView, ...], _says("Files that retention has removed; a request for one returns 410.")] = ()
    request_id: str = ""


class ComparisonView(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of two runs."""

    comparison: JsonObject
    request_id: str = ""


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of the audit log, the oldest first."""

    entries: tuple[JsonObject, ...]
    next_cursor: str | None
    request_id: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """State of the service."""

    status: Literal["ok"]
    version: str
    request_id: str = ""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Description of an error."""

    code: str
    message: str
    details: Annotated[JsonObject, _says("Further details, such as `hint` or `errors`; may be empty.")] = {}


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Envelope of every error."""

    error: ErrorBody
    request_id: str = ""
