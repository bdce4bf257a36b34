"""What a service answers, as a client reads it; members that a newer service adds are let pass."""

from typing import Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.plan import DEFAULT_PROJECT
from assay.core.run_result import RunListing
from assay.core.run_state import TERMINAL, RunCounts, State
from assay.core.summary import GateResult


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """A service that answers."""

    status: str
    version: str


class RecordError(msgspec.Struct, frozen=True, kw_only=True):
    """One error of one record."""

    index: int
    """Zero-based index of the record."""
    code: str
    message: str
    path: str
    record_id: str | None = None


class RecordSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many records of a dataset were taken."""

    total_records: int
    accepted_records: int
    rejected_records: int


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the service has taken, and will not lose."""

    run_id: str
    status: Literal["accepted", "accepted_with_record_errors"]
    summary: RecordSummary
    record_errors: tuple[RecordError, ...]
    """Of the records that are left out, at most 1,000; `Client.errors` gives all of them."""
    request_id: str
    record_errors_total: int | None = None
    """Number of errors, when not all are listed."""


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """What validation says of a dataset."""

    contract: str
    outcome: Literal["accepted", "accepted_with_record_errors", "rejected"]
    summary: RecordSummary
    dataset_errors: tuple[JsonObject, ...]
    record_errors: tuple[RecordError, ...]
    """At most 1,000."""
    record_errors_total: int
    warnings: tuple[JsonObject, ...]
    warnings_total: int
    request_id: str
    dataset_errors_total: int | None = None
    """How many there are; at most 1,000 of them are listed."""
    not_sent: dict[str, int] = {}
    """Fields that no model would be sent, and how many records have each; empty from servers that do not say it."""
    judge_only: dict[str, int] = {}
    candidate_and_judge: dict[str, int] = {}

    @property
    def is_valid(self) -> bool:
        """True when nothing is wrong but what is worth a warning."""
        return self.outcome == "accepted"


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands."""

    run_id: str
    state: State
    created_at: str
    dataset_id: str
    model: str
    """The candidate."""
    counts: RunCounts
    done_records: int
    request_id: str
    project: str = DEFAULT_PROJECT
    """The API keys of this project may see the run."""
    is_interrupted: bool = False
    """It was started, and no process drives it, whatever its state; `Client.resume` resumes it."""
    is_resumable: bool = False
    """It has failed before its end, without artifacts; `Client.resume` continues it."""
    started_at: str | None = None
    completed_at: str | None = None
    states: tuple[JsonObject, ...] = ()
    """Every state of the run, with its time."""
    eta_seconds: float | None = None
    metrics: JsonObject | None = None
    """The metrics summary; None before the end."""
    gate: GateResult | None = None
    """Whether the run met its gates; None before the end."""
    problem: str | None = None
    """Why work on the run has stopped, or why a provider took no more calls."""

    @property
    def is_finished(self) -> bool:
        """True when the run has ended and its artifacts are sealed."""
        return self.state in TERMINAL and not self.is_resumable

    @property
    def is_stopped(self) -> bool:
        """True when nothing more happens: the run has ended, or waits for `Client.resume`."""
        return self.state in TERMINAL or self.problem is not None


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a run under way."""

    id: str
    """Names the state of the run; `Client.events` goes on after it."""
    run_id: str
    state: State
    counts: RunCounts
    done_records: int
    eta_seconds: float | None = None
    problem: str | None = None
    is_end: bool = False
    """Nothing comes after this."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a finished run."""

    name: str
    sha256: str
    bytes: int
    lines: int | None = None


class RunListPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the runs, the newest first."""

    runs: tuple[RunListing, ...]
    next_cursor: str | None = None


class LinesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a run."""

    items: tuple[JsonObject, ...]
    next_cursor: str | None = None


class ErrorsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some errors of records."""

    items: tuple[RecordError, ...]
    next_cursor: str | None = None


class RecordAnswer(msgspec.Struct, frozen=True):
    """One record."""

    record: JsonObject


class ArtifactsAnswer(msgspec.Struct, frozen=True):
    """The files of a finished run."""

    artifacts: tuple[Artifact, ...]


class ComparisonAnswer(msgspec.Struct, frozen=True):
    """What changed between two runs."""

    comparison: JsonObject


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong."""

    code: str
    message: str
    details: JsonObject | None = None


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of every error."""

    error: ErrorBody
    request_id: str = ""
