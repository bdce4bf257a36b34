"""State that the routes of one service share, and helpers for their answers and pages."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from litestar import Response

from assay import api
from assay.core.canonical import json_text
from assay.core.errors import LedgerUnavailable, RunNotFound, StoreUnavailable
from assay.core.http_answers import RunStatus
from assay.core.run_result import RunListing, RunResult
from assay.core.runs import TERMINAL, RunBackend
from assay.surfaces.pages.page_renderer import PageViewer, ServerLinks, page
from assay.surfaces.server.concurrency import BackgroundTasks, ConcurrencyQuota, KeyedLocks, SharedPolling
from assay.surfaces.server.errors import PAGE_HEADERS, AnyRequest, HttpError, without_folders
from assay.surfaces.server.keys import Caller, KeyStore, SessionStore
from assay.surfaces.server.middleware import ServiceMetrics
from assay.surfaces.server.queries import why_unusable
from assay.surfaces.server.queue import RunQueue
from assay.surfaces.server.settings import ServerSettings
from assay.surfaces.server.uploads import DraftStore
from assay.surfaces.server.worker_pools import RecordIndexer, ValidationPool

BytesResponse = Response[bytes]
LOOK_SECONDS = 1.0
"""Seconds between two scans of all runs in a ledger."""
T = TypeVar("T")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """State of a service, shared by its routes."""

    runs_dir: Path
    settings: ServerSettings
    placement: RunBackend
    keys: KeyStore
    submissions: api.Submissions
    queue: RunQueue
    validation_pool: ValidationPool
    locks: KeyedLocks
    indexer: RecordIndexer
    meters: ServiceMetrics
    sessions: SessionStore
    listings: api.RunListCache
    shared: api.SharedRuns | None
    """Runs of a ledger that other servers share."""
    background: BackgroundTasks
    drafts: DraftStore
    polling: SharedPolling[RunStatus]
    uploads: ConcurrencyQuota

    def run(self, run_id: str, caller: Caller) -> api.RunReader:
        """Find the caller's run with exactly this id, submitted to any server; raises RunNotFound."""
        if not caller.sees_all:
            # An admin needs no look at the project, and sees runs whose ledger cannot be read.
            self._check_project(run_id, caller)
        return self._adopted(run_id, api.named_run)

    def _check_project(self, run_id: str, caller: Caller) -> None:
        """Raise RunNotFound for a run of another project, worded as for one that does not exist."""
        try:
            project = self._adopted(run_id, api.run_project)
        except LedgerUnavailable:
            # A ledger that is down gives this error for every id, so it reveals nothing about one of them.
            raise
        except StoreUnavailable:
            # Only an admin may see a run of unknown project.
            project = None
        if project is None or not caller.sees(project):
            if self.shared is not None:
                # Unknown ids are looked up in the ledger: while it is down, a run of this folder must look like one.
                self.shared.check()
            raise api.no_such_run(run_id)

    def _adopted(self, run_id: str, read: Callable[[str, Path], T]) -> T:
        """Read a run, also one that is only in the shared ledger so far; raises RunNotFound."""
        try:
            return read(run_id, self.runs_dir)
        except RunNotFound:
            if self.shared is None or not self.shared.adopt(run_id):
                raise
            return read(run_id, self.runs_dir)

    def read_run(self, run_id: str, caller: Caller, at: Callable[[api.RunReader], T]) -> T:
        """Apply a function to a run, and again if any server sealed the run meanwhile. Raises RunNotFound."""
        run = self.run(run_id, caller)
        try:
            return at(run)
        except (RunNotFound, StoreUnavailable):
            # A sealed run does not change, so its error is a real one.
            if run.artifacts():
                raise
            again = self.run(run_id, caller)
            # Nothing was sealed meanwhile, so repeating would fail in the same way.
            if not again.artifacts():
                raise
            return at(again)

    def problem(self, run_id: str, result: RunResult) -> str:
        """Return why an unfinished run makes no progress; empty if it does."""
        if result.is_finished:
            # Why a provider took no more calls, which is worth knowing of a run that has ended.
            return result.blocked
        if result.is_resumable:
            return self.redact_paths(result.problem)
        if self.queue.has(run_id):
            return ""
        standing = None if self.shared is None else self.shared.standing(run_id)
        if standing is not None and (standing.is_submitted or standing.is_driven or standing.is_with_workers):
            # Any server with capacity continues it; until then the reason why this one stopped is shown.
            is_worked_on = standing.is_driven or standing.is_with_workers
            return standing.problem or ("" if is_worked_on else self.redact_paths(self.queue.problem(run_id)))
        why = self.queue.problem(run_id) or (
            "" if api.is_driven(run_id, self.runs_dir) else "no process is working on this run; resume it"
            # A process on this machine may drive the run without this server, such as `assay resume`.
        )
        return self.redact_paths(why)

    def is_driven(self, run_id: str) -> bool:
        """Return whether another process drives a run, here or on another machine."""
        standing = None if self.shared is None else self.shared.standing(run_id)
        return api.is_driven(run_id, self.runs_dir) or (standing is not None and standing.is_driven)

    def listed(self, caller: Caller, *, max_age: float = 0.0) -> list[RunListing]:
        """List the runs that the caller may see, the newest first, without private details."""
        if self.shared is not None and max_age:
            # Frequent polls share one query per second.
            max_age = max(max_age, LOOK_SECONDS)
        return [self._without_paths(listing) for listing in self.visible(caller, max_age=max_age)]

    def sees_every_run(self, caller: Caller) -> bool:
        """Return whether the caller sees all runs: an admin, or anyone while no key and no run belongs to another project."""
        if caller.sees_all:
            return True
        listed = (listing.project for listing in self.listings.newest_first())
        # Metrics are about all runs, so they are open only where no other project exists.
        projects = {*(entry.project for entry in self.keys.entries()), *filter(None, listed)}
        return projects <= {caller.project}

    def visible(self, caller: Caller, *, max_age: float = 0.0) -> list[RunListing]:
        """List the runs that the caller may see, the newest first."""
        return [listing for listing in self.listings.newest_first(max_age=max_age) if caller.sees(listing.project)]

    def _without_paths(self, listing: RunListing) -> RunListing:
        is_interrupted = self.is_interrupted(listing)
        return msgspec.structs.replace(listing, note=self._note(listing), is_interrupted=is_interrupted)

    def is_interrupted(self, run: RunListing | RunResult) -> bool:
        """Return whether a run has no driver and does not wait in this queue either."""
        return run.is_interrupted and not self.queue.has(run.run_id)

    def _note(self, listing: RunListing) -> str:
        # For runs that other servers may continue, the ledger is more recent.
        is_over = self.shared is not None or listing.state in TERMINAL
        return self.redact_paths(listing.note or ("" if is_over else self.queue.problem(listing.run_id)))

    def mark(self, run_id: str) -> str:
        """Name the state of a run that another server drives, as of a second ago; empty for one that must be read."""
        if self.shared is None or self.queue.snapshot(run_id) is not None:
            return ""
        mark = self.shared.mark(run_id)
        # Work that stops here changes the run's description even if the ledger is unchanged.
        # The queue of this server is not in the ledger, and decides what the page says.
        return mark and f"{mark} {self.queue.has(run_id)} {self.queue.problem(run_id)}"

    def redact_paths(self, message: str) -> str:
        """Remove the server's folders for runs, uploads and settings from a message for clients."""
        run_file = self.settings.run_file
        # The working folder too, since relative settings are made absolute below it.
        return without_folders(message, self.runs_dir, Path(run_file).parent if run_file else None, Path.cwd())

    def sealed_path(self, run_id: str, caller: Caller) -> str:
        """Return the folder of a finished run; raises RunNotFound."""
        run = self.run(run_id, caller)
        if not run.artifacts():
            result = run.result
            if result.is_finished:
                # The gate of a run that is away says where its artifacts are.
                raise RunNotFound(result.gate.reasons[0], hint="let the servers share one folder of runs, or an object store")
            raise RunNotFound(f"run '{run_id}' is unfinished", hint="see its state for the progress")
        return str(run.folders.sealed)


def server_of(request: AnyRequest) -> Server:
    """Return the service of a request."""
    found: Server = request.app.state.server
    return found


def caller_of(request: AnyRequest) -> Caller:
    """Return the caller of a request."""
    found: Caller = request.scope["state"]["caller"]
    return found


def json_response(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> BytesResponse:
    """Build a JSON response."""
    text = json_text(msgspec.to_builtins(value)).encode()
    return Response(text, status_code=status, headers=headers, media_type="application/json")


PLACE = ServerLinks()
PageQueryT = TypeVar("PageQueryT", bound=msgspec.Struct)


def viewer_of(request: AnyRequest) -> PageViewer:
    """Describe the viewer of a page."""
    caller = caller_of(request)
    return PageViewer(name=caller.name, may_write=caller.may("write"), is_signed_in=caller.is_signed_in)


def page_response(request: AnyRequest, template: str, view: msgspec.Struct, *, status: int = 200) -> BytesResponse:
    """Render a page as a response."""
    text = page(template, view, place=PLACE, reader=viewer_of(request))
    return Response(text.encode(), status_code=status, headers=PAGE_HEADERS)


def read_choice(request: AnyRequest, kind: type[PageQueryT]) -> PageQueryT:
    """Decode the query of a page; forms send empty fields, which are None. Raises HttpError."""
    filled = [(name, value) for name, value in request.query_params.multi_items() if value.strip()]
    # A field that is empty in a form means "not set".
    given = dict(filled)
    if len(given) < len(filled):
        raise HttpError(400, "invalid address: a parameter is given twice")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as problem:
        reason = why_unusable(kind, given, problem)
        raise HttpError(400, f"invalid address: {reason}") from problem
