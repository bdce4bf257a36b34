"""An event loop for one part of a run, and the signals that end it."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from assay.core.stop_signals import stop_signals

T = TypeVar("T")


class Interruptible(Protocol):
    """A part of a run that can be told that somebody has stopped it."""

    is_interrupted: bool


def run_loop(main: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run a coroutine to its end in a loop of its own; raises CancelledError when a second signal ended it."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main)


class Signals:
    """The first signal drains the run, the second ends it at once."""

    def __init__(self, part: Interruptible, stop: asyncio.Event) -> None:
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
            # The loop would leave the system's default, which ends the process without a word while the run is finalized.
            signal.signal(number, handler)

    def _on_signal(self) -> None:
        if self._part.is_interrupted and self._task is not None:
            self._task.cancel()
        self._part.is_interrupted = True
        self._stop.set()


class Stop(asyncio.Event):
    """Says that no new call is to be made; when the whole is stopped, its parts are."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: set[Stop] = set()

    def set(self) -> None:
        """Stop this and all its parts."""
        super().set()
        for part in self._parts:
            part.set()

    def add(self, part: "Stop") -> None:
        """Let a part stop when this does, which may be now."""
        self._parts.add(part)
        if self.is_set():
            part.set()

    def remove(self, part: "Stop") -> None:
        """Let a part go its own way."""
        self._parts.discard(part)
