"""Observers of runs, such as traces and logs: the protocol that they implement, and a group that is called as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from assay import api
from assay.core.run_result import RunResult

FIELDS = "fields"
"""Attribute of a log record that holds the members of its JSON line."""


class RunObserver(Protocol):
    """An observer that knows of runs too."""

    wants_texts: bool

    def __call__(self, seen: api.RecordEvent, /) -> None:
        """A record has come to its end."""

    def run_started(self, run_id: str) -> None:
        """A run is about to be worked on."""

    def run_ended(self, result: RunResult) -> None:
        """A run has ended, or was interrupted."""


class ObserverGroup:
    """Several of them; a observer itself."""

    def __init__(self, observers: Sequence[RunObserver] = ()) -> None:
        self._observers = observers
        self.wants_texts = any(observer.wants_texts for observer in observers)

    @property
    def observer(self) -> api.Observer | None:
        """What a run is given; None when nobody is to be told, so that it costs nothing."""
        return self if self._observers else None

    def __call__(self, seen: api.RecordEvent, /) -> None:
        """A record has come to its end."""
        for observer in self._observers:
            observer(seen)

    def run_started(self, run_id: str) -> None:
        """A run is about to be worked on."""
        for observer in self._observers:
            observer.run_started(run_id)

    def run_ended(self, result: RunResult) -> None:
        """A run has ended, or was interrupted."""
        for observer in self._observers:
            observer.run_ended(result)
