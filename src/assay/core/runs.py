"""Runs: their states and counts, and where they are stored and executed."""

from collections.abc import Mapping
from typing import Literal

import msgspec

State = Literal[
    "queued", "validating", "running", "retrying", "finalizing", "completed", "completed_with_failures", "failed", "cancelled"
]
TERMINAL: frozenset[State] = frozenset({"completed", "completed_with_failures", "failed", "cancelled"})
UNDER_WAY: frozenset[State] = frozenset({"validating", "running", "retrying", "finalizing"})
"""States in which a process drives a run, unless it was killed."""
# The states of batch_v1. `validating` may lead to `finalizing` directly: a run with nothing to evaluate calls no model.
_NEXT: dict[State, frozenset[State]] = {
    "queued": frozenset({"validating", "failed", "cancelled"}),
    "validating": frozenset({"running", "finalizing", "failed", "cancelled"}),
    "running": frozenset({"retrying", "finalizing", "failed", "cancelled"}),
    "retrying": frozenset({"finalizing", "failed", "cancelled"}),
    "finalizing": TERMINAL,
}


def may_follow(state: State, following: State) -> bool:
    """Return whether a run may go directly from one state to another."""
    return following in _NEXT.get(state, frozenset())


class RunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a run: total = evaluated + failed + skipped, valid = total - invalid."""

    total_records: int = 0
    valid_records: int = 0
    evaluated_records: int = 0
    failed_records: int = 0
    """Invalid, timed out, or without a grade."""
    skipped_records: int = 0
    """Valid but never evaluated, including cancelled ones."""
    invalid_records: int = 0
    cancelled_records: int = 0


def count_records(by_status: Mapping[str, int]) -> RunCounts:
    """Compute the counts from the number of records with each record status."""
    invalid, cancelled = by_status.get("invalid_record", 0), by_status.get("cancelled", 0)
    total = sum(by_status.values())
    return RunCounts(
        total_records=total,
        valid_records=total - invalid,
        evaluated_records=by_status.get("evaluated", 0),
        # An invalid record counts as failed, a cancelled one as skipped; total = evaluated + failed + skipped always holds.
        failed_records=invalid + by_status.get("timeout", 0) + by_status.get("evaluation_error", 0),
        skipped_records=by_status.get("skipped", 0) + cancelled,
        invalid_records=invalid,
        cancelled_records=cancelled,
    )


def final_state(counts: RunCounts, *, is_cancelled: bool = False, is_blocked: bool = False) -> State:
    """Determine the final state, with the precedence failed, cancelled, completed_with_failures, completed.

    A cancel that arrives when nothing is left to do changes nothing.
    """
    # A rejected key or a full disk is the run's failure, the same for 5 and 50,000 records; it can be resumed once that is fixed.
    if is_blocked:
        return "failed"
    if is_cancelled and counts.cancelled_records:
        return "cancelled"
    return "completed_with_failures" if counts.failed_records or counts.cancelled_records else "completed"


RUNS_DIR = "runs"
"""Default folder of the runs."""


class TemporalServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Connection to the Temporal server whose workers execute runs; holds no secrets."""

    address: str
    """`host:port`."""
    namespace: str = "default"
    task_queue: str = "assay"
    tls: bool = False
    """Encrypt the connection; implied by a certificate or a key."""
    server_ca: str = ""
    """File with the CA of the server's certificate; empty for those that the machine trusts."""
    server_name: str = ""
    """Name in the server's certificate, if it is not the host's."""
    client_certificate: str = ""
    """File with our client certificate (mTLS)."""
    client_key: str = ""
    """File with the key of that certificate."""
    api_key_variable: str = ""
    """Environment variable that holds the API key."""


class RunBackend(msgspec.Struct, frozen=True, kw_only=True):
    """Where new runs are stored and executed: on this machine by default."""

    ledger: str = ""
    """Address of a PostgreSQL for the ledgers of runs; without one, each ledger is a file."""
    store: str = ""
    """Address in an object store, such as s3://bucket/runs, where artifacts must be published before a run ends."""
    temporal: TemporalServer | None = None
    """The server whose workers evaluate the records; None evaluates them in this process."""


LOCAL_BACKEND = RunBackend()
