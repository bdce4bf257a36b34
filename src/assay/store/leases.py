"""Limits that the workers of a run share: requests of workers, and the leases they get."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from assay.core.provider_limit import FoundLimit

LIFE = 5.0
"""Seconds for which a lease is valid. A worker renews it long before; the shares of a dead worker are free afterwards."""
_MAX_CLOCK_SETBACK = 3
"""Lease durations by which the database's clock may go back before the new time is accepted; time stands still for less."""
ALL = "all"
"""Name of the slots for all calls of a run; those of a stage have its name."""


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run, from its plan."""

    seats: dict[str, int]
    """Maximum calls in flight, all workers together."""
    rates: dict[str, float]
    """Maximum units per minute, all workers together."""
    life: float = LIFE


class SharedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker has found out about the limit of a provider."""

    limit: FoundLimit | None = None
    """This worker's part of it."""
    paused_for: float = 0.0
    """Seconds in which the provider wants no call."""


# One request covers many calls: with one for each call, the database would be the limit.
class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request of one worker: the shares of slots and rates that it holds and wants."""

    worker: str
    number: int
    """Counts the worker's requests, so that a repeated one, whose answer was lost, charges nothing twice."""
    held: dict[str, float] = {}
    """Slots and units per minute that may be in use until the answer arrives."""
    wanted: dict[str, float] = {}
    """Slots and units per minute that there is work for, those in use included."""
    used: dict[str, float] = {}
    """By rate, units used since the last request."""
    refused: dict[str, bytes] = {}
    """By provider, why this worker makes no further call."""
    found: dict[str, SharedFinding] = {}
    """By provider, what this worker has found out about its limit."""
    spent: float = 0.0
    """US dollars that this worker has spent since the last request."""


class LeaseGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Rights of a worker until its next request, or until its lease expires."""

    at: float
    """The database's time."""
    seats: dict[str, int]
    rates: dict[str, float]
    """Units per minute that this worker may use."""
    is_short: bool
    """The worker has less than its share, because other workers still use it, or nothing at all."""
    debts: dict[str, float]
    """By rate, seconds until the units that all workers have used are paid off."""
    refused: dict[str, bytes]
    """By provider, why another worker makes no further call."""
    found: dict[str, tuple[SharedFinding, ...]]
    """By provider, what other workers have found out about its limit."""
    spent: float = 0.0
    """US dollars that all workers have reported as spent."""


class WorkerLease(msgspec.Struct, frozen=True):
    """State of one worker in the pool."""

    expires: float
    number: int
    held: dict[str, float]
    wanted: dict[str, float]
    refused: dict[str, bytes]
    found: dict[str, SharedFinding] = {}
    at: float = 0.0
    """Time of its last request."""


class Pool(msgspec.Struct, frozen=True):
    """State shared by the workers of a run; all times are the database's."""

    at: float = 0.0
    dues: dict[str, float] = {}
    """By rate, the time until which it is used up."""
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
    # Time never goes back for small corrections of the clock, or a lease could be used twice.
    at = max(now, pool.at)
    if started > at + _MAX_CLOCK_SETBACK * limits.life:
        # Written by a clock that was set back since; it means nothing now.
        started = 0.0
    # A worker whose lease has expired makes no further call, so its shares can be given away.
    shares = {name: share for name, share in pool.shares.items() if at < max(share.expires, started + limits.life)}
    known = shares.pop(request.worker, None)
    # A request is repeated when its answer was lost; what it reports was counted the first time.
    is_new = known is None or request.number > known.number
    dues = dict(pool.dues)
    for rate, units in request.used.items() if is_new else ():
        dues[rate] = max(dues.get(rate, 0.0), at) + units * 60.0 / limits.rates[rate]
    spent = pool.spent + (request.spent if is_new else 0.0)
    fair: dict[str, float] = {
        **{name: _fair_slots(name, cap, request, shares) for name, cap in limits.seats.items()},
        **{name: _fair_rate(name, cap, request, shares) for name, cap in limits.rates.items()},
    }
    caps: dict[str, float] = {**limits.seats, **limits.rates}
    # What a shrinking worker uses is free only once it reports it free, so the cap is what others leave.
    given = {name: max(0.0, min(fair[name], cap - _held(name, shares.values()))) for name, cap in caps.items()}
    grant = LeaseGrant(
        at=at,
        seats={name: int(given[name]) for name in limits.seats},
        rates={name: given[name] for name in limits.rates},
        # Tells the worker to ask again soon: others give their shares back with their next request.
        is_short=any(given[name] < 0.99 * max(fair[name], min(1.0, request.wanted.get(name, 0.0))) for name in caps),
        debts={rate: max(0.0, dues.get(rate, 0.0) - at) for rate in limits.rates},
        refused={provider: why for share in shares.values() for provider, why in share.refused.items()},
        found=_findings(shares.values(), at),
        spent=spent,
    )
    # What is still in use counts although it is above the new share; those calls cannot be taken back.
    held = {name: max(given[name], request.held.get(name, 0.0)) if name in limits.seats else given[name] for name in caps}
    shares[request.worker] = WorkerLease(at + limits.life, request.number, held, request.wanted, request.refused, request.found, at)
    return Pool(at, dues, shares, spent), grant


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
    shares = {
        name: msgspec.structs.replace(share, expires=share.expires - setback, at=share.at - setback)
        for name, share in pool.shares.items()
    }
    return Pool(now, dues, shares, pool.spent)


def _held(name: str, shares: Iterable[WorkerLease]) -> float:
    return sum(share.held.get(name, 0.0) for share in shares)


def _unsatisfied(
    name: str, cap: float, request: LeaseRequest, shares: Mapping[str, WorkerLease]
) -> tuple[list[str], float, dict[str, float]]:
    """Return the workers that want more than an equal part of a limit, what is left for them, and what each worker wants."""
    wants = {worker: share.wanted.get(name, 0.0) for worker, share in shares.items()}
    wants[request.worker] = request.wanted.get(name, 0.0)
    # Workers that want little are served first, and what they leave is divided among the others.
    left, unsatisfied = cap, sorted(wants, key=lambda worker: (wants[worker], worker))
    while unsatisfied and wants[unsatisfied[0]] * len(unsatisfied) <= left:
        left -= wants[unsatisfied.pop(0)]
    return unsatisfied, left, wants


def _fair_slots(name: str, cap: int, request: LeaseRequest, shares: Mapping[str, WorkerLease]) -> int:
    """Compute a worker's fair share of the slots: what it wants, or an equal part of what satisfied workers leave."""
    unsatisfied, left, wants = _unsatisfied(name, cap, request, shares)
    if request.worker not in unsatisfied:
        return int(wants[request.worker])
    level, remainder = divmod(int(left), len(unsatisfied))
    # The remainder goes to the first by name, so that all workers come to the same division without talking to each other.
    return level + (unsatisfied.index(request.worker) < remainder)


def _fair_rate(name: str, cap: float, request: LeaseRequest, shares: Mapping[str, WorkerLease]) -> float:
    """Compute a worker's fair share of a rate."""
    unsatisfied, left, wants = _unsatisfied(name, cap, request, shares)
    return left / len(unsatisfied) if request.worker in unsatisfied else wants[request.worker]


def _findings(shares: Iterable[WorkerLease], at: float) -> dict[str, tuple[SharedFinding, ...]]:
    """Return what other workers have found out, by provider, with the rest of each pause."""
    found: dict[str, tuple[SharedFinding, ...]] = {}
    for share in shares:
        for provider, finding in share.found.items():
            left = max(0.0, finding.paused_for - (at - share.at))
            found[provider] = (*found.get(provider, ()), msgspec.structs.replace(finding, paused_for=left))
    return found
