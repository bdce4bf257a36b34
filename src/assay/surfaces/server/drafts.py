"""Uploads that a user previews before a run is made of them: stored for a while, then removed."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from assay import api
from assay.core.errors import RunNotFound
from assay.surfaces.server.queries import ContractChoice
from assay.surfaces.server.spool import SpooledUpload

KEPT_SECONDS = 3600.0
MOST_OF_ONE = 4
"""Maximum drafts of one owner; a further one replaces the oldest."""
MOST = 16
MOST_RESULTS = 20
"""Maximum results stored per draft besides its report, which comes first: the newest estimates."""


class UploadDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An upload without a run."""

    upload: api.UploadTarget
    owner: str
    file_name: str
    """Name of the file at the owner."""
    name: str
    """Name of the dataset if its contract gives it no id."""
    contract: ContractChoice
    spooled: SpooledUpload
    at: float
    allow_size: bool = False
    """Skip the limit of cases in a golden dataset."""

    @property
    def id(self) -> str:
        """Return the id of the draft, and of the run that may be made of it."""
        return self.upload.run_id


class Drafts:
    """The drafts of one server; a restart forgets them, and removes their files."""

    def __init__(self, submissions: api.Submissions, clock: Callable[[], float]) -> None:
        self._submissions = submissions
        self._clock = clock
        self._kept: dict[str, UploadDraft] = {}
        self._results: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def keep(self, draft: UploadDraft) -> None:
        """Add a draft; expired and surplus ones are removed."""
        with self._lock:
            self._kept[draft.id] = draft
            gone = self._superfluous(draft.owner)
        for old in gone:
            self.drop(old)

    def _superfluous(self, owner: str) -> list[UploadDraft]:
        drafts = sorted(self._kept.values(), key=lambda draft: draft.at, reverse=True)
        old = [draft for draft in drafts if draft.at < self._clock() - KEPT_SECONDS]
        own = [draft for draft in drafts if draft.owner == owner]
        return [*old, *own[MOST_OF_ONE:], *drafts[MOST:]]

    def of(self, draft_id: str, owner: str) -> UploadDraft:
        """Find the owner's draft; raises RunNotFound."""
        draft = self._kept.get(draft_id)
        if draft is None or draft.owner != owner or draft.at < self._clock() - KEPT_SECONDS:
            raise RunNotFound("the upload has expired", hint="an upload is stored for an hour; choose the file again")
        return draft

    def drop(self, draft: UploadDraft) -> None:
        """Forget a draft and remove its file, unless a run was made of it."""
        with self._lock:
            self._kept.pop(draft.id, None)
            self._results = {key: value for key, value in self._results.items() if key[0] != draft.id}
        self._submissions.discard(draft.upload)

    def result(self, draft: UploadDraft, what: str) -> Any:
        """Return a stored result about a draft; None without one."""
        return self._results.get((draft.id, what))

    def keep_result(self, draft: UploadDraft, what: str, result: object) -> None:
        """Store a result about a draft, for as long as the draft exists."""
        with self._lock:
            if draft.id in self._kept:
                self._results[draft.id, what] = result
            for key in [key for key in self._results if key[0] == draft.id][1:-MOST_RESULTS]:
                del self._results[key]
