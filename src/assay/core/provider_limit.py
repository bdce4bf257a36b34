"""Limits of providers, as they were found during a run."""

from typing import Literal

import msgspec

LimitKind = Literal["rate", "window", "calls_in_flight"]


class FoundLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that rejections have shown."""

    kind: LimitKind
    limit: float
    """Calls in so many seconds, or in flight."""
    seconds: float = 1.0
    """Length of the window; a rate is in calls per second."""

    @property
    def per_minute(self) -> float | None:
        """Return the calls per minute; None for a limit on calls in flight."""
        return None if self.kind == "calls_in_flight" else 60.0 * self.limit / self.seconds

    def part(self, factor: float) -> "FoundLimit":
        """Return the limit of a worker that has this part of it, at least one call."""
        return msgspec.structs.replace(self, limit=max(1.0, self.limit * factor) if self.kind != "rate" else self.limit * factor)
