"""Calls of a run against a limit in virtual time, and how long they would take if the limit were known."""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable

import msgspec

from assay.engine.execution.learned_limit import CallStart, LearnedLimit
from assay.models.limited_stub import StubLimit

NEVER = 20_000.0
"""Virtual seconds after which a run that has not ended will not."""


class LimitedRun(msgspec.Struct, frozen=True):
    """How a run against a limit ended."""

    seconds: float
    done: int
    rejections: int
    beyond_first_burst: int
    """Rejections of calls that were made after the first one was known."""


class LimitedCase(msgspec.Struct, kw_only=True):
    """A run: its calls, the limit and its latencies."""

    limit: Callable[[], StubLimit]
    changes: tuple[tuple[float, Callable[[], StubLimit]], ...] = ()
    """Limits that replace the first one, after so many seconds."""
    calls: int = 200
    concurrency: int = 32
    latency: Callable[[random.Random], float] = lambda _: 0.1
    rejection: float | None = 0.001
    """Seconds that a rejection takes; None for as long as an answer."""
    stated_wait: Callable[[float], float] = lambda _: 0.0
    """What a rejection states, by the seconds until a call would be accepted."""
    units: Callable[[random.Random], float] = lambda _: 1.0
    jitter: float = 0.002
    """Seconds by which timers may be late."""

    def limit_at(self) -> Callable[[float, float, int], tuple[bool, float]]:
        """Return a function that takes a call and tells whether it is accepted, and else after how many seconds one would be."""
        current, changes = self.limit(), deque(self.changes)

        def take(now: float, units: float, in_flight: int) -> tuple[bool, float]:
            nonlocal current
            while changes and now >= changes[0][0]:
                current = changes.popleft()[1]()
            state = current.take(now, units if current.unit == "tokens" else 1.0, in_flight)
            return state.is_accepted, state.wait

        return take


def play(case: LimitedCase, learned: LearnedLimit, *, seed: int = 0) -> LimitedRun:
    """Make the calls as the scheduler of a run makes them."""
    chance, take = random.Random(seed), case.limit_at()
    sizes = [case.units(chance) for _ in range(case.calls)]
    waiting, events = deque(range(case.calls)), [(0.0, 0, "wake", 0)]
    starts: dict[int, CallStart] = {}
    free, answering, done, number, ended_at, wake_at = case.concurrency, 0, 0, 0, 0.0, math.inf
    rejected: list[float] = []
    known_at = math.inf
    now = 0.0
    while events and done < case.calls and now < NEVER:
        now, _, what, call = heapq.heappop(events)
        if what == "wake" and now >= wake_at:
            wake_at = math.inf
        elif what == "answered":
            free, answering, done, ended_at = free + 1, answering - 1, done + 1, now
            learned.accepted(starts.pop(call), now)
        elif what.startswith("rejected"):
            free, known_at = free + 1, min(known_at, now)
            start = starts.pop(call)
            rejected.append(start.at)
            waiting.appendleft(call)
            learned.rejected(start, now, case.stated_wait(float(what.split()[1])))
        while waiting and free:
            wait = learned.wait(now)
            if wait > 0:
                if now + wait < wake_at - 1e-9:
                    wake_at = now + wait + chance.random() * case.jitter
                    number += 1
                    heapq.heappush(events, (wake_at, number, "wake", 0))
                break
            call = waiting.popleft()
            starts[call], free, number = learned.start(now), free - 1, number + 1
            is_accepted, until = take(now, sizes[call], answering)
            answering += is_accepted
            latency = case.latency(chance)
            if is_accepted:
                heapq.heappush(events, (now + latency, number, "answered", call))
            else:
                heapq.heappush(
                    events, (now + (latency if case.rejection is None else case.rejection), number, f"rejected {until}", call)
                )
    beyond = sum(at > known_at for at in rejected)
    return LimitedRun(ended_at, done, len(rejected), beyond)


def shortest(case: LimitedCase, *, seed: int = 0) -> float:
    """Return the seconds that it takes to make every call in the first moment in which it is accepted."""
    chance, take = random.Random(seed), case.limit_at()
    sizes = [case.units(chance) for _ in range(case.calls)]
    now, ends, last = 0.0, list[float](), 0.0
    for size in sizes:
        while True:
            while ends and ends[0] <= now:
                heapq.heappop(ends)
            if len(ends) >= case.concurrency:
                now = ends[0]
                continue
            is_accepted, wait = take(now, size, len(ends))
            if is_accepted:
                break
            now = now + max(wait, 1e-4) if wait else ends[0] if ends else now + 1e-3
        heapq.heappush(ends, now + case.latency(chance))
        last = max(last, *ends)
    return last
