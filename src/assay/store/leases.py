"""Limits that the workers of a run share: requests of workers, and the leases they get."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Protocol

import msgspec

LIFE = 5.0
"""Seconds for which a lease is valid. A worker renews it long before; the slots of a dead worker are free afterwards."""
BURST = 0.5
"""Seconds of unused rate that may be caught up on at once."""
LATE = 0.5
"""Seconds after its scheduled time in which a call may still start; with the burst, at most one second's worth over the rate."""
AHEAD = 0.5
"""Seconds that calls are scheduled ahead: at most so much of a rate is lost with a dead worker."""
_DEFAULT_USE = 1000.0
"""Units that a call is expected to use of a metered rate, before the first use is known."""
_MAX_CLOCK_SETBACK = 3
"""Lease durations by which the database's clock may go back before the new time is accepted; time stands still for less."""
_MEAN_WINDOW = 50
"""Calls over which the mean use is averaged."""
ALL = "all"
"""Name of the slots for all calls of a run; those of a stage have its name."""


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run, from its plan."""

    seats: dict[str, int]
    """Maximum calls in flight, all workers together."""
    rates: dict[str, float]
    """Maximum units per minute, all workers together."""
    gates: dict[str, tuple[str, ...]]
    """By call limiter, the rates of which each call uses one unit."""
    metered: dict[str, tuple[str, ...]] = {}
    """By call limiter, the rates whose use is known only after the call."""
    life: float = LIFE


# One request covers many calls: with one for each call, the database would be the limit.
class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request of one worker: the slots and rates that it holds and wants."""

    worker: str
    number: int
    """Counts the worker's requests, so that a repeated one, whose answer was lost, charges nothing twice."""
    held: dict[str, int] = {}
    """Slots that may be in use until the answer arrives."""
    wanted: dict[str, int] = {}
    """Slots that there is work for, those in use included."""
    calls: dict[str, int] = {}
    """By call limiter, calls that wait to be scheduled."""
    used: dict[str, tuple[float, int]] = {}
    """By metered rate, units used since the last request, and by how many calls."""
    pending: dict[str, int] = {}
    """By metered rate, calls whose use is not yet known."""
    refused: dict[str, bytes] = {}
    """By provider, why this worker makes no further call."""
    spent: float = 0.0
    """US dollars that this worker has spent since the last request."""


class LeaseGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Rights of a worker until its next request, or until its lease expires."""

    at: float
    """The database's time; all other times are in seconds from it."""
    seats: dict[str, int]
    is_short: bool
    """The worker has fewer slots than its share, because other workers still use them, or none at all."""
    moments: dict[str, tuple[float, ...]]
    """By call limiter, when calls may start."""
    waits: dict[str, float]
    """By call limiter, seconds to wait before asking again for the unscheduled calls."""
    refused: dict[str, bytes]
    """By provider, why another worker makes no further call."""
    spent: float = 0.0
    """US dollars that all workers have reported as spent."""


class WorkerLease(msgspec.Struct, frozen=True):
    """State of one worker in the pool."""

    expires: float
    number: int
    held: dict[str, int]
    wanted: dict[str, int]
    gates: tuple[str, ...]
    """Call limiters at which calls of the worker wait."""
    pending: dict[str, int]
    refused: dict[str, bytes]


class Pool(msgspec.Struct, frozen=True):
    """State shared by the workers of a run; all times are the database's."""

    at: float = 0.0
    dues: dict[str, float] = {}
    """By rate, the time until which it is used up."""
    means: dict[str, float] = {}
    """By metered rate, the mean units per call."""
    shares: dict[str, WorkerLease] = {}
    spent: float = 0.0
    """US dollars spent by present and former workers."""


class LeaseStore(Protocol):
    """Store of the limits that the workers of a run share. Not safe for use from two threads at once."""

    def ask(self, request: LeaseRequest, limits: RunLimits) -> LeaseGrant:
        """Renew the worker's lease; raises StoreUnavailable when the store cannot be reached."""

    def leave(self, worker: str) -> None:
        """Give up the worker's lease."""

    def close(self) -> None:
        """Close the database."""


def grant_lease(pool: Pool, request: LeaseRequest, limits: RunLimits, *, now: float, started: float) -> tuple[Pool, LeaseGrant]:
    """Renew a worker's lease and return the new pool with the grant.

    `started` is when the database started: while it was down no worker could renew, so leases of that time last once more.
    """
    pool = _accept_clock_setback(pool, now, life=limits.life)
    # Time never goes back for small corrections of the clock, or a rate could be used twice.
    at = max(now, pool.at)
    if started > at + _MAX_CLOCK_SETBACK * limits.life:
        # Written by a clock that was set back since; it means nothing now.
        started = 0.0
    # A worker whose lease has expired makes no further call, so its slots can be given away.
    shares = {name: share for name, share in pool.shares.items() if at < max(share.expires, started + limits.life)}
    known = shares.pop(request.worker, None)
    # A request is repeated when its answer was lost; what it reports was counted the first time.
    is_new = known is None or request.number > known.number
    rates = _Rates(pool, limits, at=at, pending=(request.pending, *(share.pending for share in shares.values())))
    for rate, (units, calls) in request.used.items() if is_new else ():
        rates.learn(rate, units, calls)
    spent = pool.spent + (request.spent if is_new else 0.0)
    fair = {name: _fair_share(name, cap, request, shares) for name, cap in limits.seats.items()}
    # Slots of a shrinking worker are free only once it reports them free, so the cap is what others leave.
    seats = {name: max(0, min(fair[name], cap - _held_slots(name, shares.values()))) for name, cap in limits.seats.items()}
    pending = Counter(request.pending)
    moments: dict[str, tuple[float, ...]] = {}
    waits: dict[str, float] = {}
    for limiter, calls in request.calls.items():
        rivals = 1 + sum(limiter in share.gates for share in shares.values())
        scheduled, waits[limiter] = rates.moments(limiter, calls, rivals=rivals)
        moments[limiter] = tuple(moment - at for moment in scheduled)
        pending.update(dict.fromkeys(limits.metered.get(limiter, ()), len(scheduled)))
    grant = LeaseGrant(
        at=at,
        seats=seats,
        # Tells the worker to ask again soon: others give their slots back with their next request.
        is_short=any(seats[name] < max(fair[name], min(1, request.wanted.get(name, 0))) for name in seats),
        moments=moments,
        waits=waits,
        refused={provider: why for share in shares.values() for provider, why in share.refused.items()},
        spent=spent,
    )
    # What is still in use counts although it is above the new share; those calls cannot be taken back.
    held = {name: max(count, request.held.get(name, 0)) for name, count in seats.items()}
    gates = tuple(limiter for limiter, calls in request.calls.items() if calls)
    shares[request.worker] = WorkerLease(
        at + limits.life, request.number, held, request.wanted, gates, dict(pending), request.refused
    )
    return Pool(at, rates.dues, rates.means, shares, spent), grant


def without(pool: Pool, worker: str) -> Pool:
    """Return the pool without a worker."""
    shares = {name: share for name, share in pool.shares.items() if name != worker}
    return msgspec.structs.replace(pool, shares=shares)


def _accept_clock_setback(pool: Pool, now: float, *, life: float) -> Pool:
    """Move all times of the pool back when the clock went far back, as after a failover, so that every duration stays the same."""
    setback = pool.at - now
    if setback <= _MAX_CLOCK_SETBACK * life:
        return pool
    dues = {rate: due - setback for rate, due in pool.dues.items()}
    shares = {name: msgspec.structs.replace(share, expires=share.expires - setback) for name, share in pool.shares.items()}
    return Pool(now, dues, pool.means, shares)


def _held_slots(name: str, shares: Iterable[WorkerLease]) -> int:
    return sum(share.held.get(name, 0) for share in shares)


def _fair_share(name: str, cap: int, request: LeaseRequest, shares: Mapping[str, WorkerLease]) -> int:
    """Compute a worker's fair share of the slots: what it wants, or an equal part of what satisfied workers leave."""
    wants = {worker: share.wanted.get(name, 0) for worker, share in shares.items()}
    wants[request.worker] = own = request.wanted.get(name, 0)
    # Workers that want little are served first, and what they leave is divided among the others.
    left, unsatisfied = cap, sorted(wants, key=lambda worker: (wants[worker], worker))
    while unsatisfied and wants[unsatisfied[0]] <= left // len(unsatisfied):
        left -= wants[unsatisfied.pop(0)]
    if request.worker not in unsatisfied:
        return own
    level, remainder = divmod(left, len(unsatisfied))
    # The remainder goes to the first by name, so that all workers come to the same division without talking to each other.
    return level + (unsatisfied.index(request.worker) < remainder)


class _Rates:
    """The rates of a pool while one request is handled."""

    def __init__(self, pool: Pool, limits: RunLimits, *, at: float, pending: Iterable[Mapping[str, int]]) -> None:
        self.dues, self.means = dict(pool.dues), dict(pool.means)
        self._limits, self._at = limits, at
        self._pending: Counter[str] = Counter()
        for calls in pending:
            self._pending.update(calls)

    def learn(self, rate: str, units: float, calls: int) -> None:
        """Charge the units that calls have used, and update the expected use of further calls."""
        self._charge(rate, units)
        mean = self.means.get(rate)
        # A moving mean: the length of answers may change in the course of a dataset.
        self.means[rate] = units / calls if mean is None else mean + (units / calls - mean) * min(1.0, calls / _MEAN_WINDOW)

    def moments(self, limiter: str, calls: int, *, rivals: int) -> tuple[list[float], float]:
        """Schedule calls of a limiter; returns their times, and how long to wait before asking for more."""
        fixed, metered = self._limits.gates[limiter], self._limits.metered.get(limiter, ())
        calls_per_minute = [
            *(self._limits.rates[rate] for rate in fixed),
            *(self._limits.rates[rate] / self._mean(rate) for rate in metered),
        ]
        max_calls = min([calls, *(ceil(per_minute / 60.0 * AHEAD / rivals) for per_minute in calls_per_minute)])
        scheduled: list[float] = []
        while True:
            dues = [*(self.dues.get(rate, 0.0) for rate in fixed), *(self._expected(rate) for rate in metered)]
            # Some unused rate may be caught up on; without it every short pause would lower the throughput for good.
            moment = max([self._at, *(due - BURST for due in dues)])
            if moment > self._at + AHEAD or len(scheduled) == max_calls:
                # Half of what was scheduled ahead is left when the worker asks again, so that few requests cover many calls.
                return scheduled, max(moment - AHEAD - self._at, AHEAD / 2)
            scheduled.append(moment)
            self._pending.update(metered)
            for rate in fixed:
                self._charge(rate, 1.0)

    def _charge(self, rate: str, units: float) -> None:
        self.dues[rate] = max(self.dues.get(rate, 0.0), self._at) + units * 60.0 / self._limits.rates[rate]

    def _expected(self, rate: str) -> float:
        """Estimate until when the rate is used up if calls in flight use the mean."""
        units = self._pending[rate] * self._mean(rate)
        return max(self.dues.get(rate, 0.0), self._at) + units * 60.0 / self._limits.rates[rate]

    def _mean(self, rate: str) -> float:
        return max(1.0, self.means.get(rate, _DEFAULT_USE))
