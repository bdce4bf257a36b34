"""Graceful shutdown: the event loop of one part of a run, and the signals that end it."""

import asyncio
import signal
from typing import Protocol

from assay.core.stop_signals import stop_signals


class InterruptiblePart(Protocol):
    """A part of a run that a signal can interrupt."""

    is_interrupted: bool
    """Set by the first signal."""


class GracefulShutdown:
    """Signal handlers while a run works: the first signal drains the run, the second ends it at once."""

    def __init__(self, part: InterruptiblePart, stop: asyncio.Event) -> None:
        self._part = part
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in stop_signals()}
        for number in self._before:
            self._loop.add_signal_handler(number, self._on_signal)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            self._loop.remove_signal_handler(number)
            # The loop would restore the system's default, which kills the process silently while the run is finalized.
            signal.signal(number, handler)

    def _on_signal(self) -> None:
        if self._part.is_interrupted and self._task is not None:
            self._task.cancel()
        self._part.is_interrupted = True
        self._stop.set()


class StopEvent(asyncio.Event):
    """Event that forbids new calls; setting it sets the events of its parts, such as the shards of a run."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: set[StopEvent] = set()

    def set(self) -> None:
        """Set this event and those of all parts."""
        super().set()
        for part in self._parts:
            part.set()

    def add(self, part: "StopEvent") -> None:
        """Add a part; it is set at once when this event is set already."""
        self._parts.add(part)
        if self.is_set():
            part.set()

    def remove(self, part: "StopEvent") -> None:
        """Remove a part."""
        self._parts.discard(part)
