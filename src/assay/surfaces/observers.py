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
        """Handle a finished record."""

    def run_started(self, run_id: str) -> None:
        """Handle the start of a run."""

    def run_ended(self, result: RunResult) -> None:
        """Handle the end or the interruption of a run."""


class ObserverGroup:
    """Group of observers that is called as one."""

    def __init__(self, observers: Sequence[RunObserver] = ()) -> None:
        self._observers = observers
        self.wants_texts = any(observer.wants_texts for observer in observers)

    @property
    def observer(self) -> api.Observer | None:
        """Callback for a run; None without observers, so that it costs nothing."""
        return self if self._observers else None

    def __call__(self, seen: api.RecordEvent, /) -> None:
        """Handle a finished record."""
        for observer in self._observers:
            observer(seen)

    def run_started(self, run_id: str) -> None:
        """Handle the start of a run."""
        for observer in self._observers:
            observer.run_started(run_id)

    def run_ended(self, result: RunResult) -> None:
        """Handle the end or the interruption of a run."""
        for observer in self._observers:
            observer.run_ended(result)
