"""The states of one run: its records are written before it is worked on, and its end is decided before anything is published."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module

import msgspec

from assay.core.case import sample_of
from assay.core.errors import RunSealed
from assay.core.outcome import Cancelled
from assay.core.plan import read_plan
from assay.core.run_state import TERMINAL, RunCounts, State, count_records, final_state, may_follow
from assay.engine.garbage import rare_collection
from assay.engine.places.folders import RunFolders
from assay.engine.places.homes import SEALED_IN, STORE, fetch_ended, is_at, note_store
from assay.engine.places.run_failure import leave_failure
from assay.engine.planning.selection import prepared_records
from assay.engine.running.case import PROVIDER_REFUSED
from assay.engine.running.surroundings import Surroundings
from assay.engine.running.unevaluated import Evaluations, failed_evaluations
from assay.engine.sealing.finalize import finalize
from assay.engine.sealing.shown import own_secrets, redactor_of
from assay.store.folder import RunFolder, open_run_folder
from assay.store.ledger import READ, Fenced, Ledger, RecordRow, RunRow
from assay.store.ledgers import pointed_to

COUNTS = "counts"
"""Under this name the ledger says how many records of each status a run has ended with."""


def standing(ledger: Ledger) -> tuple[RunRow, dict[str, int]]:
    """A run and its records by status at this moment; of one that has ended, as its ledger remembers them."""
    row = ledger.run()
    ended_with = row.notes.get(COUNTS)
    if row.state in TERMINAL and ended_with is not None:
        return row, msgspec.json.decode(ended_with, type=dict[str, int])
    return row, ledger.counts()


class RunStates:
    """The way of one run through its states, from whichever it is in; what is done already is not done again."""

    def __init__(self, ledger: Ledger, folders: RunFolders, surroundings: Surroundings) -> None:
        self._ledger = ledger
        self._folders = folders
        self._surroundings = surroundings
        self.plan = read_plan(ledger.run().plan)

    def prepare(self) -> None:
        """Write the records of a run that is new, so that it can be worked on."""
        leave_failure(self._ledger, self._folders.active, clock=self._surroundings.clock)
        # Somebody on another machine may do the same at the same moment: whoever is second finds it done.
        self._ledger.set_state("queued", "validating", at=self._now())
        if self.state != "validating":
            return
        if READ not in self._ledger.run().notes:
            with rare_collection(), suppress(Fenced):
                self._ledger.replace_records(self._records())
        self._ledger.set_state("validating", "running", at=self._now())

    def seal(self) -> None:
        """Publish the artifacts of a run on which nothing is left to be done, and end it; raises RunSealed where something is.

        A run that somebody else has published is fetched from where it is.
        """
        if self.state not in ("finalizing", *TERMINAL):
            self._decide()
        home = note_store(self._ledger, self._store(), run_id=self.plan.run_id)
        if self.state in TERMINAL or (home and is_at(home, self._ledger.run())):
            self._fetch()
        else:
            self._publish(home)
        self.end()

    def _publish(self, home: str) -> None:
        try:
            secrets = own_secrets(self.plan, self._surroundings.environ)
            finalize(self._ledger, self._folders, secrets=secrets, home=home, check=self._check_ours)
        except RunSealed:
            # Another machine that took this one for dead may have sealed the run meanwhile, and emptied its ledger.
            if self.state not in TERMINAL and not (home and is_at(home, self._ledger.run())):
                raise
            self._fetch()

    def _check_ours(self) -> None:
        """Whoever stood still for longer than a lease has lost the run, and must not publish it a second time."""
        if not self._ledger.is_ours("finalizing"):
            raise self._taken_over()

    def _fetch(self) -> None:
        fetch_ended(self._ledger.run(), active=self._folders.active, sealed=self._folders.sealed)

    def _store(self) -> str:
        """Where the run was told that it has its home, or else where whoever seals it keeps all runs."""
        return self._ledger.run().notes.get(STORE, "") or self._surroundings.placement.store

    def end(self) -> None:
        """Enter the final state of a run whose artifacts are published; a crash may have come in between."""
        if self.state != "finalizing":
            return
        if pointed_to(self._folders.active):
            self._ledger.set_note(SEALED_IN, sealed_in(self._folders))
        final = _final_of(self._ledger)
        if not self._ledger.set_state("finalizing", final, at=self._now()) and self.state != final:
            raise self._taken_over()

    @property
    def state(self) -> State:
        """The state that the run is in."""
        return self._ledger.run().state

    @property
    def has_work(self) -> bool:
        """Without it no model is opened: a run that is only to be sealed needs no key."""
        return not self._ledger.run().is_cancel_requested and bool(self._ledger.shards())

    def parent(self) -> RunFolder:
        """The finished run that this one repeats."""
        return open_run_folder(self._folders.runs_dir / self.plan.parent_run_id)

    def _records(self) -> Iterator[RecordRow]:
        """The input of the run; a retry takes the records that its parent could not evaluate, but a ranking is made of all."""
        if self.plan.comparison is not None:
            # Loaded here: most runs compare nothing.
            compared: Iterator[RecordRow] = import_module("assay.engine.planning.pairs").compared_records(self.plan)
            return compared
        records = prepared_records(self.plan, self._surroundings.inputs)
        return _among(records, failed_evaluations(self.parent())) if self.plan.parent_run_id else records

    def _now(self) -> float:
        return time_of_next(self._ledger, self._surroundings.clock())

    def _decide(self) -> None:
        """Fix the final state and its time before anything is published, so that a repetition publishes the same."""
        row = self._ledger.run()
        if not may_follow(row.state, "finalizing"):
            raise self._taken_over()
        is_cancelled = row.is_cancel_requested
        if is_cancelled:
            self._ledger.close_open(Cancelled(message="the run was cancelled"))
        elif self._ledger.shards():
            raise self._taken_over()
        by_status = self._ledger.counts()
        # A shared ledger lets go of the records of a run that has ended, and is still asked how many there were.
        self._ledger.set_note(COUNTS, msgspec.json.encode(by_status).decode())
        counts = count_records(by_status)
        blocked = _refusal(self._ledger, counts)
        is_blocked = bool(blocked) and not counts.evaluated_records
        self._ledger.set_note("final_state", final_state(counts, is_cancelled=is_cancelled, is_blocked=is_blocked))
        # The time of the decision ends the run and begins its publication: what follows must not seem to come before it.
        at = self._now()
        self._ledger.set_note("completed_at", repr(at))
        if blocked:
            redactor = redactor_of(self.plan, self._surroundings.environ)
            self._ledger.set_note("blocked", redactor.text(blocked))
        if not self._ledger.set_state(row.state, "finalizing", at=at):
            raise self._taken_over()

    def _taken_over(self) -> RunSealed:
        return RunSealed(f"run '{self.plan.run_id}' was taken over by another process", hint="look at it with: assay runs")


def time_of_next(ledger: Ledger, now: float) -> float:
    """When the next state is entered: never before the last one was, whatever became of the clock."""
    return max(now, ledger.run().states[-1][1])


def sealed_in(folders: RunFolders) -> str:
    """Machine and folder of the artifacts, for people on another machine."""
    return f"{socket.gethostname()}:{folders.sealed.absolute()}".encode("utf-8", "replace").decode()


def _refusal(ledger: Ledger, counts: RunCounts) -> str:
    """Why a provider took no more calls; the outcomes say it, so that a crash in between changes nothing."""
    if not counts.cancelled_records:
        return ""
    outcomes = (record.outcome for record in ledger.finished())
    refused = (outcome.message for outcome in outcomes if isinstance(outcome, Cancelled) and outcome.code == PROVIDER_REFUSED)
    return next(refused, "")


def _among(records: Iterable[RecordRow], failed: Evaluations) -> Iterator[RecordRow]:
    kept = (record for record in records if record.case is not None and failed.has(record.sha256, sample_of(record.case)))
    return (msgspec.structs.replace(record, position=position) for position, record in enumerate(kept))


def _final_of(ledger: Ledger) -> State:
    state: State = msgspec.convert(ledger.run().notes["final_state"], State)
    return state
