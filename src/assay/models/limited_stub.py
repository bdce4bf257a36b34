"""Limits of stub providers, as real ones have them, with the headers in which they state them."""

import math
from collections import deque
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Literal, Protocol

import msgspec

Unit = Literal["requests", "tokens"]
HeaderStyle = Literal[
    "none", "retry-after", "retry-after-date", "retry-after-ms", "openai", "azure", "anthropic", "ietf", "ietf-old", "epoch"
]
"""How a stub states its limit: with what a vendor sends, with Retry-After alone, or not at all."""


class LimitState(msgspec.Struct, frozen=True, kw_only=True):
    """What a limit says about one request."""

    is_accepted: bool
    limit: float
    remaining: float
    reset: float
    """Seconds until the whole limit is available again."""
    wait: float = 0.0
    """Seconds until a rejected request would be accepted."""


class StubLimit(Protocol):
    """A limit of a stub provider."""

    unit: Unit

    def take(self, now: float, units: float, in_flight: int) -> LimitState:
        """Accept or reject a request that arrives at a time; `in_flight` counts those that are being answered."""
        ...


class TokenBucket:
    """A rate with a store of `burst` units that it fills."""

    def __init__(self, rate: float, burst: float | None = None, *, unit: Unit = "requests") -> None:
        self.rate = rate
        self.burst = max(rate, 1.0) if burst is None else burst
        self.unit: Unit = unit
        self._level = self.burst
        self._at: float | None = None

    def take(self, now: float, units: float, in_flight: int) -> LimitState:  # noqa: ARG002  # as in the protocol
        """Accept a request while the store has enough for it."""
        self._level = min(self.burst, self._level + (now - (now if self._at is None else self._at)) * self.rate)
        self._at = now
        is_accepted = self._level >= units - 1e-9
        if is_accepted:
            self._level -= units
        wait = 0.0 if is_accepted else (units - self._level) / self.rate
        reset = (self.burst - self._level) / self.rate
        return LimitState(is_accepted=is_accepted, limit=self.burst, remaining=self._level, reset=reset, wait=wait)


class FixedWindow:
    """So many units in each window of so many seconds; windows begin at multiples of their length, shifted by a phase."""

    def __init__(self, limit: float, seconds: float, *, phase: float = 0.0, unit: Unit = "requests") -> None:
        self.limit = limit
        self.seconds = seconds
        self.unit: Unit = unit
        self._phase = phase
        self._window: int | None = None
        self._used = 0.0

    def take(self, now: float, units: float, in_flight: int) -> LimitState:  # noqa: ARG002
        """Accept a request while its window has room."""
        window = math.floor((now + self._phase) / self.seconds)
        if window != self._window:
            self._window, self._used = window, 0.0
        is_accepted = self._used + units <= self.limit
        if is_accepted:
            self._used += units
        reset = (window + 1) * self.seconds - self._phase - now
        remaining = max(0.0, self.limit - self._used)
        wait = 0.0 if is_accepted else reset
        return LimitState(is_accepted=is_accepted, limit=self.limit, remaining=remaining, reset=reset, wait=wait)


class SlidingWindow:
    """So many units in any span of so many seconds."""

    def __init__(self, limit: float, seconds: float, *, unit: Unit = "requests") -> None:
        self.limit = limit
        self.seconds = seconds
        self.unit: Unit = unit
        self._log: deque[tuple[float, float]] = deque()
        self._used = 0.0

    def take(self, now: float, units: float, in_flight: int) -> LimitState:  # noqa: ARG002
        """Accept a request while the last seconds have room."""
        while self._log and self._log[0][0] <= now - self.seconds:
            self._used -= self._log.popleft()[1]
        is_accepted = self._used + units <= self.limit
        if is_accepted:
            self._log.append((now, units))
            self._used += units
        free, wait = self.limit - self._used, 0.0
        for at, used in self._log if not is_accepted else ():
            free, wait = free + used, at + self.seconds - now
            if free >= units:
                break
        reset = self._log[-1][0] + self.seconds - now if self._log else 0.0
        remaining = max(0.0, self.limit - self._used)
        return LimitState(is_accepted=is_accepted, limit=self.limit, remaining=remaining, reset=reset, wait=wait)


class CallsInFlight:
    """So many requests that are being answered at the same time."""

    unit: Unit = "requests"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def take(self, now: float, units: float, in_flight: int) -> LimitState:  # noqa: ARG002
        """Accept a request while fewer are being answered."""
        is_accepted = in_flight < self.limit
        remaining = max(0, self.limit - in_flight - is_accepted)
        return LimitState(is_accepted=is_accepted, limit=self.limit, remaining=remaining, reset=0.0)


def limit_headers(style: HeaderStyle, state: LimitState, unit: Unit, *, now: float, seconds: float | None = None) -> dict[str, str]:
    """Return the headers that state a limit; `now` in seconds since 1970, `seconds` the length of its window."""
    wait = {} if state.is_accepted or style in ("none", "epoch") else {"retry-after": str(max(1, math.ceil(state.wait)))}
    limit, remaining = str(int(state.limit)), str(int(state.remaining))
    match style:
        case "retry-after-date":
            return {} if not wait else {"retry-after": _http_date(now + state.wait)}
        case "retry-after-ms":
            return {} if not wait else {"retry-after-ms": str(math.ceil(1000 * state.wait)), **wait}
        case "openai":
            names = {"limit": limit, "remaining": remaining, "reset": _duration(state.reset)}
            return {f"x-ratelimit-{name}-{unit}": value for name, value in names.items()} | wait
        case "azure":
            names = {"limit": limit, "remaining": remaining, "reset": str(math.ceil(state.reset))}
            return {f"x-ratelimit-{name}-{unit}": value for name, value in names.items()} | wait
        case "anthropic":
            at = datetime.fromtimestamp(math.ceil(now + state.reset), UTC).isoformat().replace("+00:00", "Z")
            return {
                f"anthropic-ratelimit-{unit}-{name}": value
                for name, value in (("limit", limit), ("remaining", remaining), ("reset", at))
            } | wait
        case "ietf":
            policy = f'"default";q={limit}' + (f";w={seconds:g}" if seconds else "")
            return {"ratelimit-policy": policy, "ratelimit": f'"default";r={remaining};t={math.ceil(state.reset)}'} | wait
        case "ietf-old":
            values = {"limit": limit, "remaining": remaining, "reset": str(math.ceil(state.reset))}
            return {f"ratelimit-{name}": value for name, value in values.items()} | wait
        case "epoch":
            reset = str(math.ceil(1000 * (now + state.reset)))
            return {"x-ratelimit-limit": limit, "x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset}
    return wait


def _http_date(at: float) -> str:
    return format_datetime(datetime.fromtimestamp(math.ceil(at), UTC), usegmt=True)


def _duration(seconds: float) -> str:
    """Return a time as OpenAI states it: `20ms`, `1.5s` or `6m0s`."""
    if seconds < 1:
        return f"{math.ceil(1000 * seconds)}ms"
    return f"{seconds:.3g}s" if seconds < 60 else f"{int(seconds // 60)}m{math.ceil(seconds % 60)}s"
