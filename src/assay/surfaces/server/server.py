"""What the routes of one service share, and how they answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from litestar import Response

from assay import api
from assay.core.errors import LedgerUnavailable, RunNotFound, StoreUnavailable
from assay.core.placement import Placement
from assay.core.run_result import RunListing, RunResult
from assay.core.run_state import TERMINAL
from assay.surfaces.reporters.plain_json import json_text
from assay.surfaces.server.answers import RunView
from assay.surfaces.server.drafts import Drafts
from assay.surfaces.server.feeds import Feeds
from assay.surfaces.server.hidden_folders import without_folders
from assay.surfaces.server.indexing import Indexer
from assay.surfaces.server.keys import Caller, Keys
from assay.surfaces.server.meters import Meters
from assay.surfaces.server.pending import Pending
from assay.surfaces.server.queries import AnyRequest
from assay.surfaces.server.queue import RunQueue
from assay.surfaces.server.rates import Places
from assay.surfaces.server.sessions import Sessions
from assay.surfaces.server.settings import ServerSettings
from assay.surfaces.server.turns import Turns
from assay.surfaces.server.workshop import Workshop

Answer = Response[bytes]
LOOK_SECONDS = 1.0
"""Between two looks at all runs of a ledger."""
T = TypeVar("T")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a service that live as long as it does."""

    runs_dir: Path
    settings: ServerSettings
    placement: Placement
    keys: Keys
    submissions: api.Submissions
    queue: RunQueue
    workshop: Workshop
    turns: Turns
    indexer: Indexer
    meters: Meters
    sessions: Sessions
    listings: api.Listings
    shared: api.SharedRuns | None
    """The runs of a ledger that other servers use too."""
    pending: Pending
    drafts: Drafts
    feeds: Feeds[RunView]
    uploads: Places

    def run(self, run_id: str, caller: Caller) -> api.Run:
        """The caller's run with exactly this id, whichever server it was submitted to; raises RunNotFound."""
        if not caller.sees_all:
            self._check_project(run_id, caller)
        return self._adopted(run_id, api.named_run)

    def _check_project(self, run_id: str, caller: Caller) -> None:
        """Raises RunNotFound for a run of another project, in the same words as for one that does not exist."""
        try:
            project = self._adopted(run_id, api.run_project)
        except LedgerUnavailable:
            # A shared ledger that is away is away for every id, so that this says nothing about one of them.
            raise
        except StoreUnavailable:
            # Only an admin may see a run that does not say whose it is.
            project = None
        if project is None or not caller.sees(project):
            if self.shared is not None:
                # An unknown id is looked up in the ledger: while that is away, a run of this folder must not be told from one.
                self.shared.check()
            raise api.no_such_run(run_id)

    def _adopted(self, run_id: str, read: Callable[[str, Path], T]) -> T:
        """Read a run, also one that only the shared ledger knows so far; raises RunNotFound."""
        try:
            return read(run_id, self.runs_dir)
        except RunNotFound:
            if self.shared is None or not self.shared.adopt(run_id):
                raise
            return read(run_id, self.runs_dir)

    def look(self, run_id: str, caller: Caller, at: Callable[[api.Run], T]) -> T:
        """What a function makes of a run; it looks again at a run that was sealed meanwhile, also elsewhere. Raises RunNotFound."""
        run = self.run(run_id, caller)
        try:
            return at(run)
        except (RunNotFound, StoreUnavailable):
            if run.artifacts():
                raise
            again = self.run(run_id, caller)
            if not again.artifacts():
                raise
            return at(again)

    def problem(self, run_id: str, result: RunResult) -> str:
        """Why nothing more happens to a run before its end; empty when something does."""
        if result.is_finished:
            return result.blocked
        if result.is_resumable:
            return self.told(result.problem)
        if self.queue.has(run_id):
            return ""
        standing = None if self.shared is None else self.shared.standing(run_id)
        if standing is not None and (standing.is_submitted or standing.is_driven or standing.is_with_workers):
            # Whichever server has room goes on with it; what kept this one from it is said until then.
            is_worked_on = standing.is_driven or standing.is_with_workers
            return standing.problem or ("" if is_worked_on else self.told(self.queue.problem(run_id)))
        why = self.queue.problem(run_id) or ("" if api.is_driven(run_id, self.runs_dir) else "nobody works on this run; resume it")
        return self.told(why)

    def is_driven(self, run_id: str) -> bool:
        """True while somebody else works on a run, here or on another machine."""
        standing = None if self.shared is None else self.shared.standing(run_id)
        return api.is_driven(run_id, self.runs_dir) or (standing is not None and standing.is_driven)

    def listed(self, caller: Caller, *, max_age: float = 0.0) -> list[RunListing]:
        """The runs that the caller may see, the newest first, as they may be told of."""
        if self.shared is not None and max_age:
            # Whoever looks again and again shares one question a second.
            max_age = max(max_age, LOOK_SECONDS)
        return [self._told_of(listing) for listing in self.visible(caller, max_age=max_age)]

    def sees_every_run(self, caller: Caller) -> bool:
        """True for an admin, and for the others as long as no key and no run belongs to another project than theirs."""
        if caller.sees_all:
            return True
        listed = (listing.project for listing in self.listings.newest_first())
        projects = {*(entry.project for entry in self.keys.entries()), *filter(None, listed)}
        return projects <= {caller.project}

    def visible(self, caller: Caller, *, max_age: float = 0.0) -> list[RunListing]:
        """The runs that the caller may see, the newest first."""
        return [listing for listing in self.listings.newest_first(max_age=max_age) if caller.sees(listing.project)]

    def _told_of(self, listing: RunListing) -> RunListing:
        is_interrupted = self.is_interrupted(listing)
        return msgspec.structs.replace(listing, note=self._note(listing), is_interrupted=is_interrupted)

    def is_interrupted(self, run: RunListing | RunResult) -> bool:
        """True for a run that nobody works on and that does not wait for its turn here either."""
        return run.is_interrupted and not self.queue.has(run.run_id)

    def _note(self, listing: RunListing) -> str:
        # Of a run that other servers may go on with, the ledger knows better.
        is_over = self.shared is not None or listing.state in TERMINAL
        return self.told(listing.note or ("" if is_over else self.queue.problem(listing.run_id)))

    def mark(self, run_id: str) -> str:
        """Names where a run stands that another server drives, as of a second ago; empty for one that has to be looked at."""
        if self.shared is None or self.queue.snapshot(run_id) is not None:
            return ""
        mark = self.shared.mark(run_id)
        # Work that stops here changes what is said of the run, also where the ledger stays as it is.
        return mark and f"{mark} {self.queue.has(run_id)} {self.queue.problem(run_id)}"

    def told(self, message: str) -> str:
        """A message for clients, who may not know where on this machine the server keeps its runs, uploads and settings."""
        run_file = self.settings.run_file
        return without_folders(message, self.runs_dir, Path(run_file).parent if run_file else None, Path.cwd())

    def sealed_path(self, run_id: str, caller: Caller) -> str:
        """The folder of a finished run; raises RunNotFound."""
        run = self.run(run_id, caller)
        if not run.artifacts():
            result = run.result
            if result.is_finished:
                raise RunNotFound(result.gate.reasons[0], hint="let the servers share one folder of runs, or an object store")
            raise RunNotFound(f"run '{run_id}' has not ended", hint="its state says how far it is")
        return str(run.folders.sealed)


def server_of(request: AnyRequest) -> Server:
    """The service that a request came to."""
    found: Server = request.app.state.server
    return found


def caller_of(request: AnyRequest) -> Caller:
    """Who makes a request."""
    found: Caller = request.scope["state"]["caller"]
    return found


def answered(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """A JSON answer."""
    text = json_text(msgspec.to_builtins(value)).encode()
    return Response(text, status_code=status, headers=headers, media_type="application/json")
