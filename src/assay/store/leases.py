"""Limits that the workers of a run share: what each has and wants, and what it may do until it asks again."""

from collections import Counter
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
_UNKNOWN = 1000.0
"""Units that a call is expected to use of a metered rate, before the first is known."""
_BACK = 3
"""Lives by which the database's clock may go back before that is taken for its new time; it stands still for less."""
_MEMORY = 50
"""Calls of which the mean use is learned."""
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
    """By gate, the rates of which a call uses as many units as is known afterwards."""
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
    used: dict[str, tuple[float, int]] = {}
    """By metered rate, units used since the last question, and by how many calls."""
    pending: dict[str, int] = {}
    """By metered rate, calls of which it is not yet known what they use."""
    refused: dict[str, bytes] = {}
    """By provider, why this worker makes no further call."""
    spent: float = 0.0
    """US dollars that this worker has spent since the last question."""


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
    spent: float = 0.0
    """US dollars that all workers have spent, as far as they have told."""


class Share(msgspec.Struct, frozen=True):
    """What the pool knows of one worker."""

    expires: float
    number: int
    held: dict[str, int]
    wanted: dict[str, int]
    gates: tuple[str, ...]
    """Gates at which it has calls that wait."""
    pending: dict[str, int]
    refused: dict[str, bytes]


class Pool(msgspec.Struct, frozen=True):
    """Everything that workers share; all times are the database's."""

    at: float = 0.0
    dues: dict[str, float] = {}
    """By rate, until when it is used up."""
    means: dict[str, float] = {}
    """By metered rate, the units that a call uses."""
    shares: dict[str, Share] = {}
    spent: float = 0.0
    """US dollars, by workers of now and before."""


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
    pool = _set_back(pool, now, life=terms.life)
    at = max(now, pool.at)
    if started > at + _BACK * terms.life:
        # By a clock that was set back since; it says nothing any more.
        started = 0.0
    shares = {name: share for name, share in pool.shares.items() if at < max(share.expires, started + terms.life)}
    known = shares.pop(need.worker, None)
    is_new = known is None or need.number > known.number
    rates = _Rates(pool, terms, at=at, pending=(need.pending, *(share.pending for share in shares.values())))
    for rate, (units, calls) in need.used.items() if is_new else ():
        rates.learn(rate, units, calls)
    spent = pool.spent + (need.spent if is_new else 0.0)
    parts = {name: _part(name, cap, need, shares) for name, cap in terms.seats.items()}
    seats = {name: max(0, min(parts[name], cap - _held(name, shares.values()))) for name, cap in terms.seats.items()}
    pending = Counter(need.pending)
    moments: dict[str, tuple[float, ...]] = {}
    waits: dict[str, float] = {}
    for gate, calls in need.calls.items():
        rivals = 1 + sum(gate in share.gates for share in shares.values())
        given, waits[gate] = rates.moments(gate, calls, rivals=rivals)
        moments[gate] = tuple(moment - at for moment in given)
        pending.update(dict.fromkeys(terms.metered.get(gate, ()), len(given)))
    grant = Grant(
        at=at,
        seats=seats,
        is_short=any(seats[name] < max(parts[name], min(1, need.wanted.get(name, 0))) for name in seats),
        moments=moments,
        waits=waits,
        refused={provider: why for share in shares.values() for provider, why in share.refused.items()},
        spent=spent,
    )
    held = {name: max(count, need.held.get(name, 0)) for name, count in seats.items()}
    gates = tuple(gate for gate, calls in need.calls.items() if calls)
    shares[need.worker] = Share(at + terms.life, need.number, held, need.wanted, gates, dict(pending), need.refused)
    return Pool(at, rates.dues, rates.means, shares, spent), grant


def without(pool: Pool, worker: str) -> Pool:
    """The pool when a worker has left."""
    shares = {name: share for name, share in pool.shares.items() if name != worker}
    return msgspec.structs.replace(pool, shares=shares)


def _set_back(pool: Pool, now: float, *, life: float) -> Pool:
    """The pool by a clock that is far behind what it was, as after a failover: everything is as long until then as it was."""
    back = pool.at - now
    if back <= _BACK * life:
        return pool
    dues = {rate: due - back for rate, due in pool.dues.items()}
    shares = {name: msgspec.structs.replace(share, expires=share.expires - back) for name, share in pool.shares.items()}
    return Pool(now, dues, pool.means, shares)


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


class _Rates:
    """The rates of a pool while one question is settled."""

    def __init__(self, pool: Pool, terms: Terms, *, at: float, pending: Iterable[Mapping[str, int]]) -> None:
        self.dues, self.means = dict(pool.dues), dict(pool.means)
        self._terms, self._at = terms, at
        self._pending: Counter[str] = Counter()
        for calls in pending:
            self._pending.update(calls)

    def learn(self, rate: str, units: float, calls: int) -> None:
        """Charge what calls have used, and expect the same of others."""
        self._charge(rate, units)
        mean = self.means.get(rate)
        self.means[rate] = units / calls if mean is None else mean + (units / calls - mean) * min(1.0, calls / _MEMORY)

    def moments(self, gate: str, calls: int, *, rivals: int) -> tuple[list[float], float]:
        """Moments for calls through a gate, and how long to wait before asking for more."""
        fixed, metered = self._terms.gates[gate], self._terms.metered.get(gate, ())
        paces = [*(self._terms.rates[rate] for rate in fixed), *(self._terms.rates[rate] / self._mean(rate) for rate in metered)]
        most = min([calls, *(ceil(pace / 60.0 * AHEAD / rivals) for pace in paces)])
        given: list[float] = []
        while True:
            dues = [*(self.dues.get(rate, 0.0) for rate in fixed), *(self._expected(rate) for rate in metered)]
            moment = max([self._at, *(due - BURST for due in dues)])
            if moment > self._at + AHEAD or len(given) == most:
                # Half of what is given out ahead is left when the next ones are asked for, and many are asked for together.
                return given, max(moment - AHEAD - self._at, AHEAD / 2)
            given.append(moment)
            self._pending.update(metered)
            for rate in fixed:
                self._charge(rate, 1.0)

    def _charge(self, rate: str, units: float) -> None:
        self.dues[rate] = max(self.dues.get(rate, 0.0), self._at) + units * 60.0 / self._terms.rates[rate]

    def _expected(self, rate: str) -> float:
        """Until when the rate is used up if the calls that are under way use what others did."""
        units = self._pending[rate] * self._mean(rate)
        return max(self.dues.get(rate, 0.0), self._at) + units * 60.0 / self._terms.rates[rate]

    def _mean(self, rate: str) -> float:
        return max(1.0, self.means.get(rate, _UNKNOWN))
