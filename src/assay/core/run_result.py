"""Result of a run, the same for every surface."""

from typing import Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.runs import TERMINAL, RunCounts, State
from assay.core.summary import GateResult, RunKind, Summary, kind_of_metrics, read_summary


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of a run, finished or not."""

    run_id: str
    state: State
    run_dir: str
    """Folder of the artifacts; for an unfinished run, of its working state."""
    counts: RunCounts
    metrics: JsonObject
    """The metrics summary; empty for an unfinished run, or when retention has removed it."""
    gate: GateResult
    candidate: str = ""
    blocked: str = ""
    """Reason why a provider accepted no more calls."""
    store: str = ""
    """Address of the artifacts in an object store; known to the process that finalizes the run."""
    is_elsewhere: bool = False
    """Workers of a Temporal server execute it, not the process that shows it."""
    problem: str = ""
    """The last problem of such a worker; for a run that failed before its end, the reason."""
    # The fields from here on describe a run that this process does not drive itself; for a local run they keep their defaults.
    is_away: bool = False
    """It has ended on another machine, and its artifacts are only there."""
    waiting: str = ""
    """What an unfinished run waits for at a provider, as of the last poll."""
    driver: int | None = None
    """Process on this machine that drives an unfinished run."""
    is_interrupted: bool = False
    """It was started on this machine, and no process drives it; its state is unchanged."""

    is_resumable: bool = False
    """It has failed before its end: `problem` has the reason, nothing is sealed, and it can be resumed."""

    @property
    def summary(self) -> Summary | None:
        """Return the metrics as a struct, whichever version wrote them; None without metrics."""
        return read_summary(self.metrics) if self.metrics else None

    @property
    def kind(self) -> RunKind:
        """Return what the metrics are about; a run without metrics counts as grading."""
        return kind_of_metrics(self.metrics)

    @property
    def is_finished(self) -> bool:
        """Tell whether the run has ended and its artifacts are sealed."""
        return self.state in TERMINAL and not self.is_resumable

    @property
    def standing(self) -> str:
        """Return the state, or `interrupted` for a run without a driver."""
        return "interrupted" if self.is_interrupted else self.state

    def to_dict(self) -> dict[str, object]:
        """Convert to plain values, in the form of `assay run --json`."""
        # The members of `--json` are documented: an optional one is left out rather than null, as it was before it existed.
        return {
            "run_id": self.run_id,
            "state": self.state,
            "run_dir": self.run_dir,
            "counts": msgspec.to_builtins(self.counts),
            "metrics": self.metrics,
            "gate": msgspec.to_builtins(self.gate),
            **({"store": self.store} if self.store else {}),
            **({"problem": self.problem} if self.is_resumable else {}),
        }


class RunListing(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list of runs."""

    run_id: str
    # A list must show a run that cannot be read. Leaving it out would look as if it had been deleted.
    state: State | Literal["damaged", "unreachable"]
    """`damaged` when the run cannot be read, `unreachable` when its shared ledger does not answer or no longer has it; the note has
    the reason, and all other members are empty."""
    created_at: str = ""
    dataset: str = ""
    """Id of its first dataset."""
    dataset_version: str = ""
    dataset_file: str = ""
    """Name of that dataset's file."""
    dataset_count: int = 0
    """Number of datasets."""
    candidate: str = ""
    judges: tuple[str, ...] = ()
    total_records: int = 0
    done_records: int = 0
    scored_records: int = 0
    """Number of records that pass rate and score are means of."""
    pass_rate: float | None = None
    pass_rate_interval: tuple[float, float] | None = None
    score: float | None = None
    """The headline of the run's profile; without one, the mean score."""
    scored_by: str = ""
    """Kind of the score: `mean`, or the name of the profile, such as `prbench (compat)`; empty without a score."""
    scale: str = ""
    """Scale of the score."""
    score_interval: tuple[float, float] | None = None
    cost_usd: float | None = None
    """Cost of the records with a known price."""
    unpriced_records: int = 0
    passed: bool | None = None
    """None without gates, before the end, and for a cancelled run: gates are about all records."""
    has_no_result: bool = False
    """It has ended without a result: it was cancelled, or no record could be graded."""
    is_interrupted: bool = False
    """It was started on this machine, and no process drives it; its state is unchanged."""
    is_resumable: bool = False
    """It has failed before its end: the note has the reason, nothing is sealed, and it can be resumed."""
    note: str = ""
    """Remarks about the run besides its metrics."""
    project: str = ""
    """The API keys of this project may see it; empty when it cannot be read."""
    group: str = ""
    """Name that it shares with the runs that were started together with it; empty for a run by itself."""

    @property
    def standing(self) -> str:
        """Return the state, or `interrupted` for a run without a driver."""
        return "interrupted" if self.is_interrupted else self.state

    @property
    def is_finished(self) -> bool:
        """Tell whether the run has ended and its artifacts are sealed."""
        return self.state in TERMINAL and not self.is_resumable
