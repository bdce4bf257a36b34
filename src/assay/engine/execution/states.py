"""States of one run: records are written before evaluation starts; the final state is fixed before artifacts are published."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module

import msgspec

from assay.core.case import sample_of
from assay.core.errors import RunSealed
from assay.core.outcome import CancelledOutcome
from assay.core.plan import read_plan
from assay.core.runs import TERMINAL, RunCounts, State, count_records, final_state, may_follow
from assay.datasets.parsing.hashing import KeyIndex
from assay.engine.execution.case import PROVIDER_REFUSED
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.finalization.finalize import finalize
from assay.engine.planning.selection import prepared_records
from assay.engine.records.redaction import own_secrets, redactor_of
from assay.engine.records.run_counters import rare_collection
from assay.engine.storage.run_failure import leave_failure
from assay.engine.storage.run_paths import SEALED_IN, STORE, RunPaths, fetch_ended, is_at, note_store
from assay.store.ledger import READ, ClaimLost, Ledger, RecordRow, RunRow
from assay.store.ledgers import pointed_to
from assay.store.published_run import PublishedRun, open_run_folder

UNEVALUATED_STATUSES = frozenset({"timeout", "evaluation_error", "cancelled", "skipped"})
"""Statuses of valid records that have no grade."""


class _EvaluationLine(msgspec.Struct):
    """Members of a prediction that identify its evaluation and how it ended."""

    record_sha256: str
    status: str
    sample: int = 0


class EvaluationKeys:
    """Set of evaluations, keyed by record hash and sample; uses about 30 bytes each."""

    def __init__(self) -> None:
        self._keys = KeyIndex()

    def add(self, record_sha256: str, sample: int) -> None:
        """Add an evaluation."""
        self._keys.add(f"{record_sha256}:{sample}")

    def has(self, record_sha256: str, sample: int) -> bool:
        """Return True when the evaluation is in the set."""
        return self._keys.find(f"{record_sha256}:{sample}") is not None


def has_failed_evaluations(run: PublishedRun) -> bool:
    """Return True when the run has records that a retry would evaluate."""
    return next(_failed(run), None) is not None


def failed_evaluations(run: PublishedRun) -> EvaluationKeys:
    """Return the evaluations that a retry of the run would repeat."""
    evaluations = EvaluationKeys()
    for record_sha256, sample in _failed(run):
        evaluations.add(record_sha256, sample)
    return evaluations


def _failed(run: PublishedRun) -> Iterator[tuple[str, int]]:
    lines = run.typed_lines("predictions.jsonl", _EvaluationLine)
    return ((line.record_sha256, line.sample) for line in lines if line.status in UNEVALUATED_STATUSES)


COUNTS = "counts"
"""Note in the ledger with the number of records by status at the end of the run."""


def run_status(ledger: Ledger) -> tuple[RunRow, dict[str, int]]:
    """Return a run's row and its records by status; for a finished run the counts come from the ledger's note."""
    row = ledger.run()
    ended_with = row.notes.get(COUNTS)
    if row.state in TERMINAL and ended_with is not None:
        return row, msgspec.json.decode(ended_with, type=dict[str, int])
    return row, ledger.counts()


class RunStates:
    """State machine of one run, resumable from any state; completed steps are not repeated."""

    def __init__(self, ledger: Ledger, folders: RunPaths, environment: RunEnvironment) -> None:
        self._ledger = ledger
        self._folders = folders
        self._environment = environment
        self.plan = read_plan(ledger.run().plan)

    def prepare(self) -> None:
        """Write the records of a new run into its ledger."""
        leave_failure(self._ledger, self._folders.active, clock=self._environment.clock)
        # Another machine may do the same concurrently: `set_state` succeeds for one of them only, and both continue.
        self._ledger.set_state("queued", "validating", at=self._now())
        if self.state != "validating":
            return
        if READ not in self._ledger.run().notes:
            with rare_collection(), suppress(ClaimLost):
                self._ledger.replace_records(self._records())
        self._ledger.set_state("validating", "running", at=self._now())

    def seal(self) -> None:
        """Publish the artifacts of an evaluated run and end it; raises RunSealed when another process has taken the run over.

        A run that another machine has published already is fetched from its store.
        """
        if self.state not in ("finalizing", *TERMINAL):
            self._fix_final_state()
        store_address = note_store(self._ledger, self._store(), run_id=self.plan.run_id)
        if self.state in TERMINAL or (store_address and is_at(store_address, self._ledger.run())):
            self._fetch()
        else:
            self._publish(store_address)
        self.end()

    def _publish(self, store_address: str) -> None:
        try:
            secrets = own_secrets(self.plan, self._environment.environ)
            finalize(self._ledger, self._folders, secrets=secrets, home=store_address, check=self._check_ours)
        except RunSealed:
            # Another machine may have sealed the run and emptied its ledger after this one missed its lease.
            if self.state not in TERMINAL and not (store_address and is_at(store_address, self._ledger.run())):
                raise
            self._fetch()

    def _check_ours(self) -> None:
        """Raise RunSealed when this process was suspended for longer than its lease: it must not publish the run a second time."""
        if not self._ledger.is_ours("finalizing"):
            raise self._taken_over_error()

    def _fetch(self) -> None:
        fetch_ended(self._ledger.run(), active=self._folders.active, sealed=self._folders.sealed)

    def _store(self) -> str:
        """Return the address of the store that the run is published to: the one it was started with, or this process's."""
        return self._ledger.run().notes.get(STORE, "") or self._environment.placement.store

    def end(self) -> None:
        """Enter the final state of a published run; a no-op unless a crash has separated the two steps."""
        if self.state != "finalizing":
            return
        if pointed_to(self._folders.active):
            self._ledger.set_note(SEALED_IN, sealed_in(self._folders))
        final = _final_state(self._ledger)
        if not self._ledger.set_state("finalizing", final, at=self._now()) and self.state != final:
            raise self._taken_over_error()

    @property
    def state(self) -> State:
        """Run's current state."""
        return self._ledger.run().state

    @property
    def has_work(self) -> bool:
        """True when records are open. Without them no model is opened, so that sealing needs no API key."""
        return not self._ledger.run().is_cancel_requested and bool(self._ledger.shards())

    def parent(self) -> PublishedRun:
        """Return the finished run that this one repeats."""
        return open_run_folder(self._folders.runs_dir / self.plan.parent_run_id)

    def _records(self) -> Iterator[RecordRow]:
        """Return the run's input: all records, or for a retry those that its parent could not evaluate. Rankings use all."""
        if self.plan.comparison is not None:
            # Loaded here: most runs compare nothing.
            compared: Iterator[RecordRow] = import_module("assay.engine.planning.pairs").compared_records(self.plan)
            return compared
        records = prepared_records(self.plan, self._environment.inputs)
        return _select_failed(records, failed_evaluations(self.parent())) if self.plan.parent_run_id else records

    def _now(self) -> float:
        return time_of_next(self._ledger, self._environment.clock())

    def _fix_final_state(self) -> None:
        """Fix the final state and its time before publishing, so that a repeated publication writes the same bytes."""
        row = self._ledger.run()
        if not may_follow(row.state, "finalizing"):
            raise self._taken_over_error()
        is_cancelled = row.is_cancel_requested
        if is_cancelled:
            self._ledger.close_open(CancelledOutcome(message="the run was cancelled"))
        elif self._ledger.shards():
            raise self._taken_over_error()
        by_status = self._ledger.counts()
        # A shared ledger deletes the records of a finished run, but must still report how many there were.
        self._ledger.set_note(COUNTS, msgspec.json.encode(by_status).decode())
        counts = count_records(by_status)
        rejection = _rejection_message(self._ledger, counts)
        is_blocked = bool(rejection) and not counts.evaluated_records
        self._ledger.set_note("final_state", final_state(counts, is_cancelled=is_cancelled, is_blocked=is_blocked))
        # One time for both: it ends the run and starts its publication, which must not appear to precede the end.
        at = self._now()
        self._ledger.set_note("completed_at", repr(at))
        if rejection:
            redactor = redactor_of(self.plan, self._environment.environ)
            self._ledger.set_note("blocked", redactor.text(rejection))
        if not self._ledger.set_state(row.state, "finalizing", at=at):
            raise self._taken_over_error()

    def _taken_over_error(self) -> RunSealed:
        return RunSealed(f"run '{self.plan.run_id}' was taken over by another process", hint="list runs with: assay runs")


def time_of_next(ledger: Ledger, now: float) -> float:
    """Return the time of the next state: never before the last one's, even if the clock was set back."""
    return max(now, ledger.run().states[-1][1])


def sealed_in(folders: RunPaths) -> str:
    """Return host and folder of the artifacts, for messages on other machines."""
    return f"{socket.gethostname()}:{folders.sealed.absolute()}".encode("utf-8", "replace").decode()


def _rejection_message(ledger: Ledger, counts: RunCounts) -> str:
    """Return the message of the provider that rejected all calls; read from the outcomes, which survive a crash."""
    if not counts.cancelled_records:
        return ""
    outcomes = (record.outcome for record in ledger.finished())
    refused = (
        outcome.message for outcome in outcomes if isinstance(outcome, CancelledOutcome) and outcome.code == PROVIDER_REFUSED
    )
    return next(refused, "")


def _select_failed(records: Iterable[RecordRow], failed: EvaluationKeys) -> Iterator[RecordRow]:
    selected = (record for record in records if record.case is not None and failed.has(record.sha256, sample_of(record.case)))
    return (msgspec.structs.replace(record, position=position) for position, record in enumerate(selected))


def _final_state(ledger: Ledger) -> State:
    state: State = msgspec.convert(ledger.run().notes["final_state"], State)
    return state
