"""Uploads that somebody looks at before a run is made of them: kept for a while, and gone again."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from assay import api
from assay.core.errors import RunNotFound
from assay.surfaces.server.queries import ContractChoice
from assay.surfaces.server.spool import Spooled

KEPT_SECONDS = 3600.0
MOST_OF_ONE = 4
"""Drafts that one owner may have; an older one makes room."""
MOST = 16
MOST_RESULTS = 20
"""What is kept of one draft beside its report, which is found out first: the newest estimates."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An upload of which no run was made yet."""

    upload: api.Upload
    owner: str
    file_name: str
    """As the owner calls it."""
    name: str
    """As the dataset is called where its contract gives it no id."""
    contract: ContractChoice
    spooled: Spooled
    at: float
    allow_size: bool = False
    """A golden dataset may have any number of cases."""

    @property
    def id(self) -> str:
        """Names the draft, and the run that may come of it."""
        return self.upload.run_id


class Drafts:
    """The drafts of one server; a restart forgets them, and their files are removed then."""

    def __init__(self, submissions: api.Submissions, clock: Callable[[], float]) -> None:
        self._submissions = submissions
        self._clock = clock
        self._kept: dict[str, Draft] = {}
        self._results: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def keep(self, draft: Draft) -> None:
        """One draft more; those that are old or too many go."""
        with self._lock:
            self._kept[draft.id] = draft
            gone = self._superfluous(draft.owner)
        for old in gone:
            self.drop(old)

    def _superfluous(self, owner: str) -> list[Draft]:
        drafts = sorted(self._kept.values(), key=lambda draft: draft.at, reverse=True)
        old = [draft for draft in drafts if draft.at < self._clock() - KEPT_SECONDS]
        own = [draft for draft in drafts if draft.owner == owner]
        return [*old, *own[MOST_OF_ONE:], *drafts[MOST:]]

    def of(self, draft_id: str, owner: str) -> Draft:
        """The owner's draft; raises RunNotFound."""
        draft = self._kept.get(draft_id)
        if draft is None or draft.owner != owner or draft.at < self._clock() - KEPT_SECONDS:
            raise RunNotFound("there is no such upload any more", hint="an upload is kept for an hour; choose the file again")
        return draft

    def drop(self, draft: Draft) -> None:
        """Forget a draft; its file goes, unless a run came of it."""
        with self._lock:
            self._kept.pop(draft.id, None)
            self._results = {key: value for key, value in self._results.items() if key[0] != draft.id}
        self._submissions.discard(draft.upload)

    def result(self, draft: Draft, what: str) -> Any:
        """What was found out about a draft; None where nobody did yet."""
        return self._results.get((draft.id, what))

    def keep_result(self, draft: Draft, what: str, result: Any) -> None:
        """What was found out about a draft, for as long as it is kept."""
        with self._lock:
            if draft.id in self._kept:
                self._results[draft.id, what] = result
            for key in [key for key in self._results if key[0] == draft.id][1:-MOST_RESULTS]:
                del self._results[key]
