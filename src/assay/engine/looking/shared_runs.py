"""Runs of a shared ledger, as one of several servers over it sees them: whoever made them, and whoever drives them."""

import threading
import time
from pathlib import Path

import msgspec

from assay.core.dataset_title import dataset_file
from assay.core.errors import AssayError
from assay.core.moment import iso
from assay.core.plan import read_plan
from assay.core.run_result import RunListing
from assay.core.run_state import TERMINAL
from assay.engine.places.folders import RunFolders
from assay.engine.places.homes import STORE, are_elsewhere
from assay.engine.places.run_failure import RunFailure, noted_failure
from assay.engine.places.run_id import could_be_run_id
from assay.engine.runs import final_counts
from assay.store.ledger import FAILURE, StandingRow
from assay.store.ledgers import adopt, shared_catalogue, shared_ledgers

LOOK_SECONDS = 1.0
"""Between two looks at the runs that are watched."""
WATCHED_SECONDS = 10.0
"""Whoever has not asked for so long does not watch a run any more."""


class SharedRuns:
    """The catalogue of one shared ledger; from any thread."""

    def __init__(self, address: str, runs_dir: Path) -> None:
        self.address = address
        self._runs_dir = runs_dir
        # Makes the tables, where they are not there yet.
        shared_ledgers(address).close()
        self._catalogue = shared_catalogue(address)
        self._plans: dict[str, RunListing] = {}
        self._lock = threading.Lock()
        self._watched: dict[str, float] = {}
        self._looked_at = -LOOK_SECONDS
        self._marks: dict[str, str] = {}

    def adopt(self, run_id: str) -> bool:
        """Let the folder of runs know a run of the ledger; False when there is none of that id."""
        if not could_be_run_id(run_id) or not self._catalogue.has(run_id):
            return False
        folders = RunFolders(self._runs_dir, run_id)
        if not folders.exists:
            adopt(folders.active, self.address)
        return True

    def check(self) -> None:
        """Raises StoreUnavailable when the ledger does not answer."""
        self._catalogue.has("")

    def standing(self, run_id: str) -> StandingRow | None:
        """Where a run of the ledger stands at this moment."""
        return next(iter(self._catalogue.standings([run_id])), None)

    def listings(self) -> dict[str, RunListing]:
        """All runs of the ledger by id; what a plan says is read once."""
        rows = self._catalogue.standings()
        with self._lock:
            new = [row.run_id for row in rows if row.run_id not in self._plans]
            for run_id, plan in self._catalogue.plans(new).items() if new else ():
                self._plans[run_id] = _planned(run_id, plan)
            return {row.run_id: _listing(row, self._plans[row.run_id]) for row in rows if row.run_id in self._plans}

    def mark(self, run_id: str) -> str:
        """Names where a run stands, as of a second ago at most: one look serves all runs that are watched."""
        with self._lock:
            now = time.monotonic()
            is_new = run_id not in self._watched
            self._watched[run_id] = now
            if is_new or now - self._looked_at >= LOOK_SECONDS:
                self._watched = {watched: at for watched, at in self._watched.items() if now - at < WATCHED_SECONDS}
                self._marks = {row.run_id: _mark(row) for row in self._catalogue.standings(self._watched)}
                self._looked_at = now
            return self._marks.get(run_id, "")

    def close(self) -> None:
        """Let go of the database."""
        self._catalogue.close()


def _planned(run_id: str, plan: bytes) -> RunListing:
    """What a plan says of its run; one that cannot be read must not hide the others, nor be hidden itself."""
    try:
        read = read_plan(plan)
    except (AssayError, msgspec.DecodeError) as problem:
        return RunListing(run_id=run_id, state="damaged", note=f"its plan cannot be read: {problem}")
    return RunListing(
        run_id=run_id,
        state="queued",
        dataset=read.datasets[0].dataset_id,
        dataset_version=read.datasets[0].dataset_version,
        dataset_file=dataset_file(msgspec.structs.asdict(read.datasets[0])),
        candidate=read.candidate.name,
        judges=tuple(judge.name for judge in read.judges),
        project=read.project,
    )


def _listing(row: StandingRow, planned: RunListing) -> RunListing:
    if planned.state == "damaged":
        return planned
    is_over = row.state in TERMINAL
    failure = noted_failure(row.notes) if not is_over else None
    total = final_counts(row.notes).total_records if is_over else row.records
    return msgspec.structs.replace(
        planned,
        state=row.state if failure is None else "failed",
        is_resumable=failure is not None,
        created_at=iso(row.created_at),
        total_records=total,
        done_records=total if is_over else row.done,
        note=are_elsewhere(row.run_id, row.notes).message if is_over and STORE not in row.notes else _why_stopped(row, failure),
    )


def _why_stopped(row: StandingRow, failure: RunFailure | None) -> str:
    if row.state in TERMINAL:
        return ""
    return row.problem if failure is None else failure.message


def _mark(row: StandingRow) -> str:
    return f"{row.state} {row.records} {row.done} {row.is_driven} {row.problem} {row.notes.get(FAILURE, '')}"
