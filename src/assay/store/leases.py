"""Limits that the workers of a run share: what each has and wants, and what it may do until it asks again."""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Protocol

import msgspec

LIFE = 5.0
"""Seconds that what a worker was given is its own; it asks again long before, and what a dead one had is free after them."""
BURST = 0.5
"""Seconds of a rate that nobody has used and that may be caught up on at once."""
LATE = 0.5
"""Seconds after its moment in which a call may still be made; with the burst, a rate is exceeded by one second's worth at most."""
AHEAD = 0.5
"""Seconds that calls are given out ahead of their moment: so much of a rate is lost with a worker at most."""
ALL = "all"
"""The seats of all calls of a run; those of a stage have its name."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run, as its plan has them."""

    seats: dict[str, int]
    """Calls in flight at most, of all workers together."""
    rates: dict[str, float]
    """Units per minute at most, of all workers together."""
    gates: dict[str, tuple[str, ...]]
    """By gate, the rates that each call through it uses one unit of."""
    metered: dict[str, tuple[str, ...]] = {}
    """By gate, the rates whose units are known afterwards: its calls wait until they are paid off."""
    life: float = LIFE


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker has and wants."""

    worker: str
    number: int
    """Counts the worker's questions, so that one whose answer was lost charges nothing twice."""
    held: dict[str, int] = {}
    """Seats that may be in use until the answer is here."""
    wanted: dict[str, int] = {}
    """Seats that there is work for, those in use included."""
    calls: dict[str, int] = {}
    """By gate, calls that wait for their moment."""
    used: dict[str, float] = {}
    """By rate, units used since the last question that are charged after the fact."""
    refused: dict[str, bytes] = {}
    """By provider, why this worker makes no further call."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker may do until it asks again, or its lease is over."""

    at: float
    """The database's time; everything else is in seconds from it."""
    seats: dict[str, int]
    is_short: bool
    """The worker has fewer seats than its share, because others still use them, or none at all."""
    moments: dict[str, tuple[float, ...]]
    """By gate, when calls may be made."""
    waits: dict[str, float]
    """By gate, after how long to ask again for the calls that were given no moment."""
    refused: dict[str, bytes]
    """By provider, why another worker makes no further call."""


class Share(msgspec.Struct, frozen=True):
    """What the pool knows of one worker."""

    expires: float
    number: int
    held: dict[str, int]
    wanted: dict[str, int]
    gates: tuple[str, ...]
    """Gates at which it has calls that wait."""
    refused: dict[str, bytes]


class Pool(msgspec.Struct, frozen=True):
    """Everything that workers share; all times are the database's."""

    at: float = 0.0
    dues: dict[str, float] = {}
    """By rate, until when it is used up."""
    shares: dict[str, Share] = {}


class Leases(Protocol):
    """Where the workers of a run share its limits. Not safe for use from two threads at once."""

    def ask(self, need: Need, terms: Terms) -> Grant:
        """What the worker may do now; raises StoreUnavailable when nobody can say."""

    def leave(self, worker: str) -> None:
        """Give everything back."""

    def close(self) -> None:
        """Let go of the database."""


def settle(pool: Pool, need: Need, terms: Terms, *, now: float, started: float) -> tuple[Pool, Grant]:
    """The pool after a worker's question, and the answer.

    `started` is when the database was: while it was away nobody could ask, and so what was held then is held for one more life.
    """
    at = max(now, pool.at)
    shares = {name: share for name, share in pool.shares.items() if at < max(share.expires, started + terms.life)}
    known = shares.pop(need.worker, None)
    is_new = known is None or need.number > known.number
    dues = dict(pool.dues)
    for rate, units in need.used.items() if is_new else ():
        _charge(dues, rate, terms, at=at, units=units)
    parts = {name: _part(name, cap, need, shares) for name, cap in terms.seats.items()}
    seats = {name: max(0, min(parts[name], cap - _held(name, shares.values()))) for name, cap in terms.seats.items()}
    moments: dict[str, tuple[float, ...]] = {}
    waits: dict[str, float] = {}
    for gate, calls in need.calls.items():
        rivals = 1 + sum(gate in share.gates for share in shares.values())
        given, waits[gate] = _moments(gate, calls, terms, dues=dues, at=at, rivals=rivals)
        moments[gate] = tuple(moment - at for moment in given)
    grant = Grant(
        at=at,
        seats=seats,
        is_short=any(seats[name] < max(parts[name], min(1, need.wanted.get(name, 0))) for name in seats),
        moments=moments,
        waits=waits,
        refused={provider: why for share in shares.values() for provider, why in share.refused.items()},
    )
    held = {name: max(count, need.held.get(name, 0)) for name, count in seats.items()}
    gates = tuple(gate for gate, calls in need.calls.items() if calls)
    shares[need.worker] = Share(at + terms.life, need.number, held, need.wanted, gates, need.refused)
    return Pool(at, dues, shares), grant


def without(pool: Pool, worker: str) -> Pool:
    """The pool when a worker has left."""
    return Pool(pool.at, pool.dues, {name: share for name, share in pool.shares.items() if name != worker})


def _held(name: str, shares: Iterable[Share]) -> int:
    return sum(share.held.get(name, 0) for share in shares)


def _part(name: str, cap: int, need: Need, shares: Mapping[str, Share]) -> int:
    """A worker's fair part of the seats: what it wants, or as many as anybody who wants more."""
    wants = {worker: share.wanted.get(name, 0) for worker, share in shares.items()}
    wants[need.worker] = own = need.wanted.get(name, 0)
    left, greedy = cap, sorted(wants, key=lambda worker: (wants[worker], worker))
    while greedy and wants[greedy[0]] <= left // len(greedy):
        left -= wants[greedy.pop(0)]
    if need.worker not in greedy:
        return own
    level, odd = divmod(left, len(greedy))
    return level + (greedy.index(need.worker) < odd)


def _charge(dues: dict[str, float], rate: str, terms: Terms, *, at: float, units: float = 1.0) -> None:
    dues[rate] = max(dues.get(rate, 0.0), at) + units * 60.0 / terms.rates[rate]


def _moments(gate: str, calls: int, terms: Terms, *, dues: dict[str, float], at: float, rivals: int) -> tuple[list[float], float]:
    """Moments for calls through a gate, and how long to wait before asking for more."""
    rates = terms.gates[gate]
    most = min((ceil(terms.rates[rate] / 60.0 * AHEAD / rivals) for rate in rates), default=calls)
    given: list[float] = []
    while True:
        moment = max([at, *(dues.get(rate, 0.0) - BURST for rate in (*rates, *terms.metered.get(gate, ())))])
        if moment > at + AHEAD or len(given) == min(calls, most):
            # Half of what is given out ahead is left when the next ones are asked for, and many are asked for together.
            return given, max(moment - AHEAD - at, AHEAD / 2)
        given.append(moment)
        for rate in rates:
            _charge(dues, rate, terms, at=at)
