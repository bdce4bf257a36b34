"""Runs that clients submit and a server executes: functions for servers only."""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from assay.api.runs import run
from assay.api.validation import find_sources, validate
from assay.core.canonical import JsonObject
from assay.core.contract import BUILT_IN, CONTRACTS
from assay.core.errors import AssayError, RunNotFound, StoreRefused, StoreUnavailable
from assay.core.provider import PROVIDERS
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.core.settings import DatasetEntry, ModelEntry, ProviderEntry
from assay.engine.comparison.gate import audit_entry
from assay.engine.execution.submission import (
    MOST_ERRORS,
    SERVER_DIR,
    Presence,
    UploadVerdict,
    accept,
    accept_shared,
    clear_temporary,
    discard_upload,
    exact_run,
    fixed_error,
    known_run,
    new_upload,
    no_such_run,
    one_report,
    prepare,
    queued_errors,
    sweep_gone,
    sweep_uploads,
    verdict_on,
)
from assay.engine.planning.providers import is_file_model
from assay.engine.planning.request import RunRequest, finding_lines, load_run_file
from assay.engine.readers.run_list import RunListCache, SharedRuns, project_of, result_of
from assay.engine.readers.run_reader import RunReader
from assay.engine.storage.run_failure import failure_from
from assay.engine.storage.run_failure import leave_failure as leave
from assay.engine.storage.run_failure import record_failure as enter
from assay.engine.storage.run_paths import RunPaths, check_store, new_run_id
from assay.models import load_provider
from assay.store.audit import AuditLog
from assay.store.ledgers import shared_submissions
from assay.store.lock import RunLock
from assay.store.redact import rule_problems as redact_rule_problems
from assay.store.submissions import SubmissionBook, SubmissionRow, WaitingRun

__all__ = [
    "MOST_ERRORS",
    "DatasetEntry",
    "NamedModels",
    "RunListCache",
    "SharedRuns",
    "SubmissionRow",
    "Submissions",
    "UploadTarget",
    "UploadVerdict",
    "accept_records",
    "check_upload",
    "file_models",
    "has_failed",
    "is_driven",
    "leave_failure",
    "named_run",
    "no_such_run",
    "prepare_run",
    "record_errors",
    "record_failure",
    "redact_rule_problems",
    "run_file_models",
    "run_file_problems",
    "run_project",
    "warm_up",
]

log = logging.getLogger("assay.server")


class UploadTarget(msgspec.Struct, frozen=True):
    """Target of the upload for a run that is not planned yet."""

    run_id: str
    folder: Path


class NamedModels(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates and judges of a run file."""

    candidates: tuple[str, ...] = ()
    """Names as shown in reports."""
    judges: tuple[str, ...] = ()
    candidate_ids: tuple[str, ...] = ()
    """Ids as `provider/model`, without files and functions."""
    judge_ids: tuple[str, ...] = ()


def run_file_models(path: str | Path) -> NamedModels:
    """Return the names of the models in a run file, as far as they can be read; raises SourceUnreadable without one."""
    members = load_run_file(path).members
    candidates, judges = (_model_entries(members.get(part, ())) for part in ("candidates", "judges"))
    declared = _declared(members)
    return NamedModels(
        candidates=tuple(entry.name or _model_id(entry) for entry in candidates),
        judges=tuple(entry.name or _model_id(entry) for entry in judges),
        candidate_ids=tuple(model for model in map(_model_id, candidates) if not is_file_model(model, declared)),
        judge_ids=tuple(model for model in map(_model_id, judges) if not is_file_model(model, declared)),
    )


def run_file_problems(path: str | Path) -> tuple[str, ...]:
    """Return every problem of a run file by itself, with its location; raises SourceUnreadable without one."""
    return finding_lines(load_run_file(path))


def _model_entries(given: Iterable[object]) -> list[ModelEntry]:
    """Return the models of a section of a run file: each a text or a mapping; an unreadable one is empty."""
    return [ModelEntry(model=one) if isinstance(one, str) else msgspec.convert(one, ModelEntry) for one in given if one]


def _model_id(entry: ModelEntry) -> str:
    return f"{entry.provider}/{entry.model}" if entry.provider else entry.model


def _declared(members: Mapping[str, Any]) -> dict[str, ProviderEntry]:
    """Return the providers of a run file by name."""
    entries = msgspec.convert([entry for entry in members.get("providers", ()) if entry], list[ProviderEntry])
    return {entry.name: entry for entry in entries}


class Submissions:
    """Submissions to one folder of runs, or to all servers over one ledger.

    Without a shared ledger a folder has one server at a time; raises StoreUnavailable when it has another.
    """

    def __init__(self, runs_dir: Path, placement: RunBackend = LOCAL_BACKEND) -> None:
        ledger = placement.ledger
        if placement.store:
            _look_at_store(placement.store)
        self.runs_dir = runs_dir
        self.folder = runs_dir / SERVER_DIR
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._placement = placement
        self._lock = RunLock(self.folder)
        self._is_alone = self._lock.try_acquire()
        if self._is_alone:
            clear_temporary(runs_dir)
        if not (self._lock.share() if ledger else self._is_alone):
            raise StoreUnavailable(
                f"process {self._lock.holder()} serves the runs in '{runs_dir}'",
                hint="stop it, or choose another folder with --runs-dir",
            )
        self._presence = Presence(runs_dir)
        self.temporary = self._presence.folder
        self._log = AuditLog(runs_dir)
        self._book = shared_submissions(ledger) if ledger else SubmissionBook(self.folder / "submissions.sqlite")

    def unfinished(self) -> list[str]:
        """Return the submitted runs that have not ended, the oldest first; uploads of which no run came are removed."""
        return sweep_uploads(self.runs_dir, place=self.temporary, is_alone=self._is_alone)

    def sweep(self) -> None:
        """Remove what other servers of the folder have left that are gone."""
        sweep_gone(self.runs_dir, place=self.temporary)

    def new_upload(self) -> UploadTarget:
        """Create a private folder for the dataset of a new run."""
        run_id = new_run_id()
        return UploadTarget(run_id, new_upload(self.runs_dir, run_id, place=self.temporary))

    def discard(self, upload: UploadTarget) -> None:
        """Remove an upload, unless a run came of it."""
        discard_upload(self.runs_dir, upload.run_id, place=self.temporary)

    def under(self, owner: str, key: str) -> SubmissionRow | None:
        """Return the submission under an idempotency key, if its run exists."""
        found = self._book.under(owner, key)
        return None if found is None or not (self._placement.ledger or self._exists(found.run_id)) else found

    def of(self, run_id: str) -> SubmissionRow | None:
        """Return the submission of a run."""
        return self._book.of(run_id)

    def _exists(self, run_id: str) -> bool:
        try:
            exact_run(self.runs_dir, run_id)
        except RunNotFound:
            return False
        return True

    def accept(self, verdict: UploadVerdict, row: SubmissionRow) -> None:
        """Make the run durable; a crash at any moment leaves the whole run or nothing, and its key never makes a second one."""
        assert isinstance(self._book, SubmissionBook), "runs of a shared ledger are accepted with all their records"
        # In this order: a key without its run can be given again, a run without its key would be made twice.
        self._book.enter(row)
        accept(verdict.plan, self.runs_dir, at=row.at)

    def waiting(self, limit: int) -> list[WaitingRun]:
        """Return unfinished runs of a shared ledger that no server drives, the oldest first."""
        return [] if isinstance(self._book, SubmissionBook) else self._book.waiting(limit)

    def set_problem(self, run_id: str, problem: str) -> None:
        """Tell the other servers why a run was given up; empty allows them to resume it."""
        if not isinstance(self._book, SubmissionBook):
            self._book.set_problem(run_id, problem)

    def note(self, action: str, *, by: str, **members: object) -> None:
        """Append a line to the audit log: who did what."""
        self._log.append(audit_entry(action, {"by": by, **members}))

    def close(self) -> None:
        """Let another server take over."""
        self._book.close()
        self._presence.leave()
        self._lock.release()


def _look_at_store(store: str) -> None:
    """Refuse a wrong store address before anything is accepted; an unavailable store may be back before the first run ends."""
    try:
        check_store(store)
    except StoreRefused:
        raise
    except StoreUnavailable as problem:
        log.warning("the store is away at this moment, and runs end when it is back: %s", problem.message)


def accept_records(plan: bytes, row: SubmissionRow, *, runs_dir: Path, placement: RunBackend) -> bool:
    """Make a run durable in a shared ledger, with its key and all its records, or nothing of it; the upload goes.

    False when another server has made a run under that key. Done twice it is done once.
    """
    book = shared_submissions(placement.ledger)
    try:
        return accept_shared(plan, runs_dir, row=row, book=book, placement=placement)
    finally:
        book.close()


def warm_up(place: Path) -> None:
    """Load everything that uploads and runs need, by making a small run: several threads that begin to import at once may hang."""
    for kind, row in PROVIDERS.items():
        if row.vendor:
            load_provider(kind)
    for contract in CONTRACTS:
        validate(b"{}", contract)
    with TemporaryDirectory(dir=place) as folder:
        dataset, run_file = Path(folder, "dataset.json"), Path(folder, "run.yaml")
        record = {"record_id": "1", "input": {"prompt": "Hello"}}
        head = {"dataset_id": "warm-up", "dataset_version": "1", "schema_version": "1.0"}
        dataset.write_bytes(msgspec.json.encode({**head, "records": [record]}))
        run_file.write_text("candidates: [scripted/echo]\njudges: [scripted/judge-5]\n", encoding="utf-8")
        run(RunRequest(run_file=str(run_file), datasets=(str(dataset),), runs_dir=str(Path(folder, "runs"))))


def check_upload(path: Path, contract: str, *, allow_size: bool = False, null_as_absent: bool = False) -> UploadVerdict:
    """Validate an upload."""
    known = BUILT_IN if contract == "auto" else contract
    sources = find_sources([str(path)])
    check = partial(validate, allow_size=allow_size, null_as_absent=null_as_absent, interface="http")
    return verdict_on(one_report([check(source, known) for source in sources]))


def prepare_run(request: RunRequest) -> UploadVerdict:
    """Validate and plan the run of an upload, without making it."""
    return prepare(request, environ=os.environ, now=time.time())


def named_run(run_id: str, runs_dir: Path) -> RunReader:
    """Return the run with exactly this id: no path, no beginning of one, no `latest`; raises RunNotFound."""
    return RunReader(exact_run(runs_dir, run_id))


def run_project(run_id: str, runs_dir: Path) -> str:
    """Return the project of the run with exactly this id; raises RunNotFound, RunDamaged, StoreUnavailable."""
    return project_of(known_run(runs_dir, run_id))


def file_models(names: Iterable[str], run_file: str) -> frozenset[str]:
    """Return the names that refer to files of this machine, by the providers of the run file."""
    declared = _declared(load_run_file(run_file).members) if run_file else {}
    return frozenset(name for name in names if is_file_model(name, declared))


def is_driven(run_id: str, runs_dir: Path) -> bool:
    """Return whether this process or another one drives an unfinished run."""
    return RunLock(RunPaths(runs_dir, run_id).active).is_held()


def has_failed(run_id: str, runs_dir: Path) -> bool:
    """Return True for a run that failed before its end and can be resumed."""
    with suppress(AssayError):
        return result_of(RunPaths(runs_dir, run_id)).is_resumable
    return False


def record_failure(run_id: str, runs_dir: Path, problem: Exception, *, at: float) -> bool:
    """Make a run `failed` after a run-level failure; False where nothing can be written at this moment."""
    folders = RunPaths(runs_dir, run_id)
    try:
        return folders.is_sealed or not folders.exists or enter(folders, failure_from(problem, at=at))
    except OSError:
        return False


def leave_failure(run_id: str, runs_dir: Path) -> None:
    """Let a run that has failed wait for its turn again; raises StoreUnavailable."""
    folders = RunPaths(runs_dir, run_id)
    ledger = folders.open_ledger()
    try:
        leave(ledger, folders.active, clock=time.time)
    finally:
        ledger.close()


def record_errors(run: RunReader) -> Iterator[JsonObject]:
    """Yield every error of every record, in the order of the records, in the contract's six members."""
    is_read = False
    for line in run.validations():
        is_read = True
        yield from (fixed_error(msgspec.structs.asdict(issue)) for issue in line.read_issues() if issue.severity == "error")
    if not is_read:
        yield from queued_errors(run.folders)
