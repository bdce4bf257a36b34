"""Uploads into runs that wait for their turn: an accepted one survives a crash, a refused one leaves nothing."""

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from assay.core.errors import RunNotFound
from assay.core.field_uses import added
from assay.core.input_document import SEVERAL
from assay.core.placement import Placement
from assay.core.plan import Plan, plan_sha256, read_plan
from assay.core.report import Counts, Outcome, Report, issue_members
from assay.engine.places.folders import ACTIVE, UPLOAD, RunFolders, folders_of
from assay.engine.places.homes import STORE
from assay.engine.places.run_id import could_be_run_id
from assay.engine.planning.plans import plan_runs
from assay.engine.planning.request import PlanProblems, RunRequest
from assay.engine.planning.run_file import DatasetEntry
from assay.engine.planning.selection import prepared_records
from assay.engine.running.run import check_shareable, open_or_create
from assay.store.failures import disk_errors, sync_folder
from assay.store.ledgers import point_to
from assay.store.lock import RunLock
from assay.store.submissions import SubmissionRow, Submitted

if TYPE_CHECKING:
    from assay.store.postgres import PostgresSubmissions

SERVER_DIR = ".server"
"""Folder of what a server keeps beside its runs."""
TEMPORARY = "temporary"
"""Folder in it of what is gone when its server starts again."""
UPLOADER = "server"
"""File beside an upload with the name of the server that takes it."""
_NEW = "new-"
ERRORS = "record_errors.jsonl"
ERROR_MEMBERS = ("index", "record_id", "code", "message", "path", "severity")
"""The members of a record error in an answer of the service, and no other."""
MOST_ERRORS = 1_000
"""Errors that an answer lists; the rest is counted, and all of them can be asked for."""

Line = dict[str, Any]


class UploadVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What validation and planning say of an upload, in plain values that may come from another process."""

    outcome: Outcome
    contract: str = ""
    counts: Counts = Counts()
    dataset_errors: tuple[Line, ...] = ()
    """The first of them."""
    dataset_errors_total: int = 0
    record_errors: tuple[Line, ...] = ()
    """The first of them."""
    record_errors_total: int = 0
    warnings: tuple[Line, ...] = ()
    warnings_total: int = 0
    fields: dict[str, dict[str, int]] = {}
    """Where fields go that the contract leaves open, or that no model is sent."""
    problems: tuple[str, ...] = ()
    """What is wrong with the settings."""
    evaluations: int = 0
    """Answers that the run would ask for."""
    plan: bytes = b""
    """The plan as JSON; empty for an upload that cannot be run."""


def verdict_on(report: Report) -> UploadVerdict:
    """The verdict of a report alone."""
    shown = report.to_dict()
    errors = shown["record_errors"]
    return UploadVerdict(
        outcome=report.outcome,
        contract=report.contract or "",
        counts=report.counts,
        dataset_errors=tuple(shown["dataset_errors"][:MOST_ERRORS]),
        dataset_errors_total=report.dataset_error_count,
        record_errors=tuple(map(fixed_error, errors[:MOST_ERRORS])),
        record_errors_total=report.count("error") - report.dataset_error_count,
        warnings=tuple(shown["warnings"][:MOST_ERRORS]),
        warnings_total=report.count("warning"),
        fields={audience: dict(counts) for audience, counts in report.fields.items()},
    )


def one_report(reports: Sequence[Report]) -> Report:
    """The reports on the datasets of an upload as one: itself, unless the upload holds several datasets."""
    if len(reports) == 1:
        return reports[0]
    outcomes = {report.outcome for report in reports}
    counts = (msgspec.structs.astuple(report.counts) for report in reports)
    return Report(
        path=reports[0].path.partition("#")[0],
        contract=SEVERAL,
        outcome=next((outcome for outcome in get_args(Outcome)[::-1] if outcome in outcomes), "accepted"),
        counts=Counts(*map(sum, zip(*counts, strict=True))),
        issues=[issue for report in reports for issue in report.issues],
        fields=added(report.fields for report in reports),
        unlisted=sum((Counter(report.unlisted) for report in reports), Counter()),
        dataset_error_count=sum(report.dataset_error_count for report in reports),
        open_issues=lambda: chain.from_iterable(report.all_issues for report in reports),
    )


def fixed_error(error: Line) -> Line:
    """An error of a record as the contract fixes it."""
    return {name: error[name] for name in ERROR_MEMBERS}


class Presence:
    """A place of one server's own for what a crash may leave; the kernel tells the others when that server is gone."""

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
        """Let others remove what is left."""
        self._lock.release()


def new_upload(runs_dir: Path, run_id: str, *, place: Path) -> Path:
    """A private folder for the upload of a run that is yet to be planned, by the server with this place."""
    active = folders_of(runs_dir, run_id).active
    with disk_errors(active):
        active.parent.mkdir(mode=0o700, exist_ok=True)
        made = place / f"upload-{run_id}"
        for folder in (made, made / UPLOAD):
            folder.mkdir(mode=0o700)
        (made / UPLOADER).write_text(place.name, encoding="ascii")
        # In one step: a folder without an upload could be anybody's.
        made.rename(active)
    return active / UPLOAD


def temporary(runs_dir: Path) -> Path:
    """Where everything goes that a crash may leave, each server's in a place of its own."""
    return runs_dir / SERVER_DIR / TEMPORARY


def clear_temporary(runs_dir: Path) -> None:
    """Remove what a crash left; only for the one server of a folder."""
    with disk_errors(temporary(runs_dir)):
        if temporary(runs_dir).is_dir():
            shutil.rmtree(temporary(runs_dir))
        temporary(runs_dir).mkdir(mode=0o700)


def discard_upload(runs_dir: Path, run_id: str, *, place: Path) -> None:
    """Remove an upload of which no run came."""
    folders = folders_of(runs_dir, run_id)
    if not folders.exists:
        _remove(folders, place)


def _remove(folders: RunFolders, place: Path) -> None:
    """Out of the way in one step, and then piece by piece."""
    gone = place / f"discarded-{folders.run_id}"
    with suppress(FileNotFoundError):
        folders.active.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def prepare(request: RunRequest, *, environ: Mapping[str, str], now: float) -> UploadVerdict:
    """Validate and plan the one run of a request over an upload, without making it; record errors are kept beside the upload."""
    try:
        planned = plan_runs(request, environ=environ, now=now, new_run_id=lambda: request.run_id)
    except PlanProblems as found:
        if found.refused:
            return verdict_on(found.refused[0])
        return UploadVerdict(outcome="rejected", problems=found.problems)
    if len(planned.plans) > 1:
        # A submission is one run.
        names = ", ".join(plan.candidate.name for plan in planned.plans)
        return UploadVerdict(outcome="rejected", problems=(f"the server has several candidates: {names}; name one with model",))
    report, plan = one_report([dataset.report for dataset in planned.inputs]), _called(planned.plans[0], request)
    if report.record_errors:
        # Beside the upload, whose name its sender chooses.
        _keep_errors(folders_of(Path(planned.runs_dir), plan.run_id).active / ERRORS, report)
    evaluations = report.counts.accepted_records * plan.repeat
    return msgspec.structs.replace(verdict_on(report), plan=msgspec.json.encode(plan), evaluations=evaluations)


def _called(plan: Plan, request: RunRequest) -> Plan:
    """The plan, with a dataset that its sender did not name called by its own id: that of the file here says nothing."""
    if any(isinstance(dataset, DatasetEntry) and dataset.name for dataset in request.datasets):
        return plan
    if len(plan.datasets) > 1:
        # A document with several datasets says what each is called.
        return plan
    datasets = tuple(msgspec.structs.replace(dataset, name=dataset.dataset_id) for dataset in plan.datasets)
    return msgspec.structs.replace(plan, datasets=datasets)


def _keep_errors(path: Path, report: Report) -> None:
    with disk_errors(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        for issue in report.all_issues:
            if issue.severity == "error" and issue.index is not None:
                file.write(msgspec.json.encode(fixed_error(issue_members(issue))) + b"\n")


def accept(plan: bytes, runs_dir: Path, *, at: float) -> None:
    """Make the run of a plan durable in state `queued`; its upload is on the disk before it."""
    read: Plan = read_plan(plan)
    folders = folders_of(runs_dir, read.run_id)
    sync_folder(folders.active / UPLOAD)
    sync_folder(folders.active)
    open_or_create(read, folders, at=at)


def accept_shared(plan: bytes, runs_dir: Path, *, row: SubmissionRow, book: "PostgresSubmissions", placement: Placement) -> bool:
    """Make the run durable in a shared ledger with all its records, so that any server can go on with it.

    False when another server has a run under the same idempotency key. The upload is not needed any more.
    """
    read: Plan = read_plan(plan)
    check_shareable(read)
    folders = folders_of(runs_dir, read.run_id)
    notes = {STORE: placement.store} if placement.store else {}
    if not book.enter(row, Submitted(plan, plan_sha256(read), lambda: prepared_records(read), notes)):
        return False
    point_to(folders.active, placement.ledger)
    shutil.rmtree(folders.active / UPLOAD, ignore_errors=True)
    (folders.active / ERRORS).unlink(missing_ok=True)
    return True


def queued_errors(folders: RunFolders) -> list[Line]:
    """The record errors of an upload whose run has not read its input yet."""
    path = folders.active / ERRORS
    try:
        return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        return []


def sweep_uploads(runs_dir: Path, *, place: Path, is_alone: bool = True) -> list[str]:
    """The submitted runs that have not ended, the oldest first; uploads of servers that are gone are removed.

    Of one that names no server only whoever is alone in the folder knows that nobody is about to take it.
    """
    unfinished: list[tuple[float, str]] = []
    for active in sorted(runs_dir.glob(f"{ACTIVE}/*")):
        folders = RunFolders(runs_dir, active.name)
        is_upload = (active / UPLOAD).is_dir()
        if folders.is_sealed:
            _clear_sealed(folders, place)
        elif is_upload and folders.has_ledger:
            unfinished.append((folders.ledger_file.stat().st_mtime, folders.run_id))
        elif is_upload and _is_abandoned(folders, is_alone=is_alone):
            _remove(folders, place)
    return [run_id for _, run_id in sorted(unfinished)]


def _is_abandoned(folders: RunFolders, *, is_alone: bool) -> bool:
    try:
        uploader = (folders.active / UPLOADER).read_text(encoding="ascii")
    except FileNotFoundError:
        return is_alone
    return not RunLock(temporary(folders.runs_dir) / uploader).is_held()


def sweep_gone(runs_dir: Path, *, place: Path) -> None:
    """Remove what servers have left that were killed while others of the same folder went on."""
    with disk_errors(temporary(runs_dir)):
        places = [folder for folder in temporary(runs_dir).iterdir() if _is_left(folder)]
        # Most of the time nobody is gone, and nothing else is looked at.
        uploads = list(runs_dir.glob(f"{ACTIVE}/*/{UPLOADER}")) if places else []
        for upload in uploads:
            folders = RunFolders(runs_dir, upload.parent.name)
            if not folders.exists and _is_abandoned(folders, is_alone=False):
                _remove(folders, place)
    # Last: as long as it is there, somebody looks for its uploads.
    for folder in places:
        shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether a place is that of a server that is gone, and not of one that is about to begin."""
    return folder.is_dir() and not folder.name.startswith(_NEW) and not RunLock(folder).is_held()


def _clear_sealed(folders: RunFolders, place: Path) -> None:
    """A crash after the publication leaves originals, unless somebody is about to remove them."""
    lock = RunLock(folders.active)
    if lock.try_acquire():
        _remove(folders, place)
        lock.release()


def exact_run(runs_dir: Path, run_id: str) -> RunFolders:
    """The run with exactly this id: no path, no beginning of one, no `latest`; raises RunNotFound.

    One that has ended on another machine is fetched from its store.
    """
    return known_run(runs_dir, run_id).bring_home()


def known_run(runs_dir: Path, run_id: str) -> RunFolders:
    """The same, and nothing is fetched; raises RunNotFound."""
    if not could_be_run_id(run_id) or not RunFolders(runs_dir, run_id).exists:
        raise no_such_run(run_id)
    return RunFolders(runs_dir, run_id)


def no_such_run(run_id: str) -> RunNotFound:
    """What callers are told of a run that does not exist, or not for them."""
    return RunNotFound(f"there is no run '{run_id[:128]}'", hint="list the runs")
