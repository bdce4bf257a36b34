"""Submissions to a server: an upload becomes a queued run that survives a crash, a refused one leaves nothing behind."""

import logging
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import get_args

import msgspec

from assay.core.canonical import JsonObject
from assay.core.contract import SEVERAL
from assay.core.errors import AssayError, RunNotFound, StoreRefused, StoreUnavailable
from assay.core.open_fields import add_counts
from assay.core.plan import Plan, plan_sha256, read_plan
from assay.core.report import Outcome, RecordCounts, ValidationReport, issue_members
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.core.settings import DatasetEntry, ModelEntry, ProviderEntry
from assay.engine.comparison.gate import audit_entry
from assay.engine.execution.run import check_shareable, open_or_create
from assay.engine.planning.plans import plan_runs
from assay.engine.planning.providers import is_file_model
from assay.engine.planning.request import PlanProblems, RunFileMembers, RunRequest, finding_lines, load_run_file
from assay.engine.planning.selection import prepared_records
from assay.engine.readers.run_list import project_of, result_of
from assay.engine.readers.run_reader import RunReader
from assay.engine.storage.run_failure import failure_from
from assay.engine.storage.run_failure import leave_failure as leave
from assay.engine.storage.run_failure import record_failure as enter
from assay.engine.storage.run_paths import ACTIVE, STORE, UPLOAD, RunPaths, check_store, could_be_run_id, folders_of, new_run_id
from assay.store.audit import AuditLog
from assay.store.failures import disk_errors, sync_folder
from assay.store.ledgers import SharedSubmissions, point_to, shared_submissions
from assay.store.lock import RunLock
from assay.store.submissions import NewSubmission, SubmissionBook, SubmissionRow, WaitingRun

log = logging.getLogger("assay.server")


SERVER_DIR = ".server"
"""Folder for a server's own files next to its runs."""
TEMPORARY = "temporary"
"""Folder below it for temporary files, which are deleted when the server starts."""
UPLOADER = "server"
"""File next to an upload with the name of the server that receives it."""
_NEW = "new-"
ERRORS = "record_errors.jsonl"
ERROR_MEMBERS = ("index", "record_id", "code", "message", "path", "severity")
"""Members of a record error in a response of the service."""
MAX_ERRORS = 1_000
"""Maximum errors listed in a response; the rest is counted, and all can be requested."""


class UploadVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of validating and planning an upload, in plain values that can cross processes."""

    outcome: Outcome
    contract: str = ""
    counts: RecordCounts = RecordCounts()
    dataset_errors: tuple[JsonObject, ...] = ()
    """First of them."""
    dataset_errors_total: int = 0
    record_errors: tuple[JsonObject, ...] = ()
    """First of them."""
    record_errors_total: int = 0
    warnings: tuple[JsonObject, ...] = ()
    warnings_total: int = 0
    fields: dict[str, dict[str, int]] = {}
    """Use of fields that the contract leaves open, or that are sent to no model."""
    problems: tuple[str, ...] = ()
    """Problems of the settings."""
    evaluations: int = 0
    """Number of answers that the run would request."""
    plan: bytes = b""
    """Plan as JSON; empty for an upload that cannot be run."""


def upload_verdict(report: ValidationReport) -> UploadVerdict:
    """Return the verdict of a validation report alone."""
    return UploadVerdict(
        outcome=report.outcome,
        contract=report.contract or "",
        counts=report.counts,
        dataset_errors=tuple(map(issue_members, report.dataset_errors[:MAX_ERRORS])),
        dataset_errors_total=report.dataset_error_count,
        record_errors=tuple(fixed_error(issue_members(issue)) for issue in report.record_errors[:MAX_ERRORS]),
        record_errors_total=report.count("error") - report.dataset_error_count,
        warnings=tuple(map(issue_members, report.warnings[:MAX_ERRORS])),
        warnings_total=report.count("warning"),
        fields={audience: dict(counts) for audience, counts in report.fields.items()},
    )


def one_report(reports: Sequence[ValidationReport]) -> ValidationReport:
    """Combine the reports on an upload's datasets; a single report is returned as it is."""
    if len(reports) == 1:
        return reports[0]
    outcomes = {report.outcome for report in reports}
    counts = (msgspec.structs.astuple(report.counts) for report in reports)
    return ValidationReport(
        path=reports[0].path.partition("#")[0],
        contract=SEVERAL,
        outcome=next((outcome for outcome in get_args(Outcome)[::-1] if outcome in outcomes), "accepted"),
        counts=RecordCounts(*map(sum, zip(*counts, strict=True))),
        issues=[issue for report in reports for issue in report.issues],
        fields=add_counts(report.fields for report in reports),
        unlisted=sum((Counter(report.unlisted) for report in reports), Counter()),
        dataset_error_count=sum(report.dataset_error_count for report in reports),
        open_issues=lambda: chain.from_iterable(report.all_issues for report in reports),
    )


def fixed_error(error: Mapping[str, object]) -> dict[str, object]:
    """Return a record error with the members of the API contract."""
    return {name: error[name] for name in ERROR_MEMBERS}


class UploadFolder:
    """Temporary folder of one server, locked while it runs: the kernel releases the lock when the server dies."""

    def __init__(self, runs_dir: Path) -> None:
        name = secrets.token_hex(8)
        self.folder = temporary(runs_dir) / name
        new = self.folder.with_name(f"{_NEW}{name}")
        self._lock = RunLock(new)
        with disk_errors(self.folder):
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            new.mkdir(mode=0o700)
            self._lock.try_acquire()
            # In one step: a place without a lock is that of a server that is gone.
            new.rename(self.folder)

    def leave(self) -> None:
        """Release the lock, so that other servers may delete the folder."""
        self._lock.release()


def new_upload(runs_dir: Path, run_id: str, *, place: Path) -> Path:
    """Create a private folder for an upload whose run is not planned yet; `place` is the server's temporary folder."""
    active = folders_of(runs_dir, run_id).active
    with disk_errors(active):
        active.parent.mkdir(mode=0o700, exist_ok=True)
        # Made in the server's own folder, where a crash leaves it for the next sweep.
        made = place / f"upload-{run_id}"
        for folder in (made, made / UPLOAD):
            folder.mkdir(mode=0o700)
        (made / UPLOADER).write_text(place.name, encoding="ascii")
        # In one step: a folder without an upload could belong to any server.
        made.rename(active)
    return active / UPLOAD


def temporary(runs_dir: Path) -> Path:
    """Return the folder for temporary files, with a subfolder per server."""
    return runs_dir / SERVER_DIR / TEMPORARY


def clear_temporary(runs_dir: Path) -> None:
    """Delete the leftovers of a crash; only for the single server of a folder of runs."""
    with disk_errors(temporary(runs_dir)):
        if temporary(runs_dir).is_dir():
            shutil.rmtree(temporary(runs_dir))
        temporary(runs_dir).mkdir(mode=0o700)


def discard_upload(runs_dir: Path, run_id: str, *, place: Path) -> None:
    """Delete an upload that did not become a run."""
    folders = folders_of(runs_dir, run_id)
    if not folders.exists:
        _remove(folders, place)


def _remove(folders: RunPaths, place: Path) -> None:
    """Delete a working folder: rename it first, so that no process sees it half deleted."""
    gone = place / f"discarded-{folders.run_id}"
    with suppress(FileNotFoundError):
        folders.active.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def prepare_run(request: RunRequest) -> UploadVerdict:
    """Validate and plan the run of an upload without creating it; record errors are stored next to the upload."""
    try:
        planned = plan_runs(request, environ=os.environ, now=time.time(), new_run_id=lambda: request.run_id)
    except PlanProblems as found:
        if found.refused:
            return upload_verdict(found.refused[0])
        return UploadVerdict(outcome="rejected", problems=found.problems)
    if len(planned.plans) > 1:
        # A submission is one run.
        names = ", ".join(plan.candidate.name for plan in planned.plans)
        return UploadVerdict(outcome="rejected", problems=(f"the server has several candidates: {names}; name one with model",))
    report, plan = one_report([dataset.report for dataset in planned.inputs]), _called(planned.plans[0], request)
    if report.record_errors:
        # Next to the upload, whose name its sender chooses.
        _keep_errors(folders_of(Path(planned.runs_dir), plan.run_id).active / ERRORS, report)
    evaluations = report.counts.accepted_records * plan.repeat
    return msgspec.structs.replace(upload_verdict(report), plan=msgspec.json.encode(plan), evaluations=evaluations)


def _called(plan: Plan, request: RunRequest) -> Plan:
    """Name an unnamed dataset in the plan by its id, since the file's name on this server means nothing to its sender."""
    if any(isinstance(dataset, DatasetEntry) and dataset.name for dataset in request.datasets):
        return plan
    if len(plan.datasets) > 1:
        # A document with several datasets names each of them.
        return plan
    datasets = tuple(msgspec.structs.replace(dataset, name=dataset.dataset_id) for dataset in plan.datasets)
    return msgspec.structs.replace(plan, datasets=datasets)


def _keep_errors(path: Path, report: ValidationReport) -> None:
    # O_NOFOLLOW: a link in the place of the file must not lead the write elsewhere.
    with disk_errors(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        for issue in report.all_issues:
            if issue.severity == "error" and issue.index is not None:
                file.write(msgspec.json.encode(fixed_error(issue_members(issue))) + b"\n")


def accept(plan: bytes, runs_dir: Path, *, at: float) -> None:
    """Make the run of a plan durable in state `queued`, after its upload is on disk."""
    read: Plan = read_plan(plan)
    folders = folders_of(runs_dir, read.run_id)
    # The directory entries too: after a power failure a ledger without its upload would be a run without records.
    sync_folder(folders.active / UPLOAD)
    sync_folder(folders.active)
    open_or_create(read, folders, at=at)


def accept_shared(plan: bytes, runs_dir: Path, *, row: SubmissionRow, book: SharedSubmissions, placement: RunBackend) -> bool:
    """Make the run durable in a shared ledger with all its records, so that any server can resume it.

    False when another server has a run under the same idempotency key. The upload is not needed any more.
    """
    read: Plan = read_plan(plan)
    check_shareable(read)
    folders = folders_of(runs_dir, read.run_id)
    notes = {STORE: placement.store} if placement.store else {}
    if not book.enter(row, NewSubmission(plan, plan_sha256(read), lambda: prepared_records(read), notes)):
        return False
    point_to(folders.active, placement.ledger)
    shutil.rmtree(folders.active / UPLOAD, ignore_errors=True)
    (folders.active / ERRORS).unlink(missing_ok=True)
    return True


def queued_errors(folders: RunPaths) -> list[dict[str, object]]:
    """Return the record errors of an upload whose run has not read its input yet."""
    path = folders.active / ERRORS
    try:
        return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        return []


def sweep_uploads(runs_dir: Path, *, place: Path, is_alone: bool = True) -> list[str]:
    """Return the submitted runs that have not ended, the oldest first; uploads of servers that are gone are removed.

    An upload without a server's name is removed only by the sole server of the folder: others may be about to take it.
    """
    unfinished: list[tuple[float, str]] = []
    for active in sorted(runs_dir.glob(f"{ACTIVE}/*")):
        folders = RunPaths(runs_dir, active.name)
        is_upload = (active / UPLOAD).is_dir()
        if folders.is_sealed:
            _clear_sealed(folders, place)
        elif is_upload and folders.has_ledger:
            unfinished.append((folders.ledger_file.stat().st_mtime, folders.run_id))
        elif is_upload and _is_abandoned(folders, is_alone=is_alone):
            _remove(folders, place)
    return [run_id for _, run_id in sorted(unfinished)]


def _is_abandoned(folders: RunPaths, *, is_alone: bool) -> bool:
    try:
        uploader = (folders.active / UPLOADER).read_text(encoding="ascii")
    except FileNotFoundError:
        return is_alone
    # Not by process id, which another process may have by now.
    return not RunLock(temporary(folders.runs_dir) / uploader).is_held()


def sweep_gone(runs_dir: Path, *, place: Path) -> None:
    """Delete the leftovers of killed servers while others work on the same folder."""
    with disk_errors(temporary(runs_dir)):
        places = [folder for folder in temporary(runs_dir).iterdir() if _is_left(folder)]
        # Usually all servers live, and nothing else is read.
        uploads = list(runs_dir.glob(f"{ACTIVE}/*/{UPLOADER}")) if places else []
        for upload in uploads:
            folders = RunPaths(runs_dir, upload.parent.name)
            if not folders.exists and _is_abandoned(folders, is_alone=False):
                _remove(folders, place)
    # Last: as long as it exists, other servers check its uploads.
    for folder in places:
        shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return True for the folder of a dead server, as opposed to one that is starting."""
    return folder.is_dir() and not folder.name.startswith(_NEW) and not RunLock(folder).is_held()


def _clear_sealed(folders: RunPaths, place: Path) -> None:
    """Delete the originals that a crash after publication left, unless the run's owner is about to do so."""
    lock = RunLock(folders.active)
    if lock.try_acquire():
        _remove(folders, place)
        lock.release()


def exact_run(runs_dir: Path, run_id: str) -> RunPaths:
    """Return the run with exactly this id: no path, no beginning of one, no `latest`; raises RunNotFound.

    One that has ended on another machine is fetched from its store.
    """
    return known_run(runs_dir, run_id).fetch_if_remote()


def known_run(runs_dir: Path, run_id: str) -> RunPaths:
    """Return the run with exactly this id without fetching it; raises RunNotFound."""
    if not could_be_run_id(run_id) or not RunPaths(runs_dir, run_id).exists:
        raise no_such_run(run_id)
    return RunPaths(runs_dir, run_id)


def no_such_run(run_id: str) -> RunNotFound:
    """Return the error for a run that does not exist or is hidden from the caller."""
    return RunNotFound(f"there is no run '{run_id[:128]}'", hint="list the runs")


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


def _declared(members: RunFileMembers) -> dict[str, ProviderEntry]:
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
        self._presence = UploadFolder(runs_dir)
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
        """Store the reason why a run was given up, for all servers; empty allows them to resume it."""
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
