"""The world of one history: its time, its chance, everything that happened in it, and the moment at which a process dies."""

import hashlib
import random
from collections.abc import Callable
from typing import Any

import msgspec

EPOCH = 1_700_000_000.0
"""What the clock on the wall says when a history begins."""


MOMENT = 1e-4
"""Seconds in which nobody is blamed for the order of things."""


class Killed(SystemExit):
    """The process is dead from here on; nothing of what it still does is seen by anybody."""


class Clock:
    """Virtual time: it passes only when nothing is left to be done now."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the history began."""
        self.offset = 0.0
        """By how much somebody has set the clock on the wall."""

    def time(self) -> float:
        """Seconds that only grow."""
        return self.now

    def wall(self) -> float:
        """Seconds since 1970, as far as the clock on the wall is right."""
        return EPOCH + self.offset + self.now


class Call(msgspec.Struct, kw_only=True):
    """One request as the provider saw it."""

    number: int
    life: int
    host: str
    model: str
    """Empty for a connection that never came about."""
    key: str
    """The same for requests with the same words to the same model."""
    at: float
    kind: str
    """What became of it."""
    ended: float | None = None
    """When the other side heard of the end, or gave up."""
    cost: float = 0.0
    retry_after: float | None = None
    asked: str = ""
    """The words of the request."""
    said: str = ""
    """The text of its answer."""


class World:
    """What outlives a process: time, chance, the provider's memory and the trace."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(f"world {seed}")
        self.jitter = random.Random(f"jitter {seed}")
        """What the engine itself takes from chance."""
        self.clock = Clock()
        self.calls: list[Call] = []
        self.appends: list[float] = []
        """When results became durable."""
        self.cancelled_at: float | None = None
        self.life = 0
        self.is_dead = False
        self.noted_at = 0.0
        """When something has last happened."""
        self.on_death: Callable[[], None] = lambda: None
        self._points = 0
        self._deadly: int | None = None
        self._trace = hashlib.sha256()
        self.events: list[str] | None = None
        """The trace in words, where somebody wants to read it."""

    def begin(self, *, deadly: int | None) -> None:
        """A new process, which dies at its so-and-so-many-th point."""
        self.life += 1
        self.is_dead = False
        self._points, self._deadly = 0, deadly
        self.note("life", self.life)

    def note(self, what: str, *details: Any) -> None:
        """Something has happened."""
        if self.is_dead:
            return
        self.noted_at = self.clock.now
        line = f"{self.clock.now:.6f} {what} {' '.join(map(str, details))}"
        self._trace.update(line.encode() + b"\n")
        if self.events is not None:
            self.events.append(line)

    def point(self, what: str) -> None:
        """A moment at which the process may die; raises Killed."""
        if self.is_dead:
            return
        self._points += 1
        if self._points == self._deadly:
            self.die(what)

    def die(self, what: str) -> None:
        """Let the process die here; raises Killed."""
        self.note("killed", what)
        self.on_death()
        self.is_dead = True
        raise Killed

    def digest(self) -> str:
        """The hash of everything that has happened."""
        return self._trace.hexdigest()
