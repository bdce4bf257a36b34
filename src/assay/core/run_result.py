"""What a run comes to, the same for every surface."""

from typing import Any, Literal

import msgspec

from assay.core.run_state import TERMINAL, RunCounts, State


class GateCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One gate of a run, and whether the run met it."""

    name: str
    """As the run file names it: `pass_rate`, `min_score` or `max_error_rate`."""
    threshold: float
    value: float | None
    """What the run has; None where it is undefined, which meets no gate."""
    met: bool


class GateResult(msgspec.Struct, frozen=True):
    """Whether the run reached what its plan demands; without gates it passes, unless it was cancelled or evaluated nothing."""

    passed: bool
    reasons: tuple[str, ...] = ()
    gates: tuple[GateCheck, ...] = ()
    """Every gate that is set; runs of earlier versions list none."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands: sealed, or still open."""

    run_id: str
    state: State
    run_dir: str
    """Where the artifacts are; for an unfinished run, where its working state is."""
    counts: RunCounts
    metrics: dict[str, Any]
    """The metrics summary; empty for a run that has not ended, or whose summary was removed by retention."""
    gate: GateResult
    candidate: str = ""
    blocked: str = ""
    """Why a provider took no more calls."""
    store: str = ""
    """Where in an object store the artifacts are, too; known to whoever brings the run to its end."""
    is_elsewhere: bool = False
    """Workers of a Temporal server go on with it, and not the process that shows it."""
    problem: str = ""
    """What kept such a worker from going on, as it was said last; of a run that has failed before its end, why."""
    is_away: bool = False
    """It has ended on another machine, and its artifacts are there alone."""
    waiting: str = ""
    """What an unfinished run waits for at a provider, as it was when somebody last looked."""
    driver: int | None = None
    """The process of this machine that works on an unfinished run."""
    is_interrupted: bool = False
    """It was begun on this machine, and nobody works on it; the state stays what it was."""

    is_resumable: bool = False
    """It has failed before its end: `problem` says why, nothing is sealed, and it can be resumed."""

    @property
    def is_finished(self) -> bool:
        """True when the run has ended and its artifacts are sealed."""
        return self.state in TERMINAL and not self.is_resumable

    @property
    def standing(self) -> str:
        """The state, or that the run was interrupted: one that nobody works on any more is not running."""
        return "interrupted" if self.is_interrupted else self.state

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, in the shape of `assay run --json`."""
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
    state: State | Literal["damaged", "unreachable"]
    """`damaged` when the run cannot be read, `unreachable` when its shared ledger cannot be asked or has it no more; the note says
    why, and nothing else is known."""
    created_at: str = ""
    dataset: str = ""
    """The id of its first dataset."""
    dataset_version: str = ""
    dataset_file: str = ""
    """The name of the file of that dataset."""
    candidate: str = ""
    judges: tuple[str, ...] = ()
    total_records: int = 0
    done_records: int = 0
    scored_records: int = 0
    """What pass rate and score are means of."""
    pass_rate: float | None = None
    pass_rate_interval: tuple[float, float] | None = None
    score: float | None = None
    """The headline of the run's profile; without one, the mean score."""
    scored_by: str = ""
    """What the score is: `mean`, or the name of the profile, such as `prbench (compat)`; empty without a score."""
    scale: str = ""
    """Of the score."""
    score_interval: tuple[float, float] | None = None
    cost_usd: float | None = None
    """Of the records with a known price."""
    unpriced_records: int = 0
    passed: bool | None = None
    """None without gates, before the end, and of a run that was cancelled: gates are about all records."""
    has_no_result: bool = False
    """It has ended, and there is nothing to decide by: it was cancelled, or no record could be graded."""
    is_interrupted: bool = False
    """It was begun on this machine, and nobody works on it; the state stays what it was."""
    is_resumable: bool = False
    """It has failed before its end: the note says why, nothing is sealed, and it can be resumed."""
    note: str = ""
    """What there is to say of the run beyond its figures."""
    project: str = ""
    """The API keys of this project may see it; empty where it cannot be read."""

    @property
    def standing(self) -> str:
        """The state, or that the run was interrupted: one that nobody works on any more is not running."""
        return "interrupted" if self.is_interrupted else self.state

    @property
    def is_finished(self) -> bool:
        """True when the run has ended and its artifacts are sealed."""
        return self.state in TERMINAL and not self.is_resumable
