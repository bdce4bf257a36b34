"""Checks before a run: what the installation and its environment have, and what one request to each model showed."""

from typing import Literal

import msgspec

from assay.core.model_call import Adjustment

CheckStanding = Literal["ok", "note", "problem"]
"""`note` is information and breaks nothing; a `problem` must be fixed."""


class DoctorCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check."""

    area: str
    """Area of the check: `environment`, `extras`, `keys`, `runs`, `network`, `providers`, `terminal`."""
    name: str
    standing: CheckStanding = "ok"
    # The report is often pasted into an issue tracker, which is why no part of a key may be in it.
    says: str = ""
    """Finding; never a key, nor a part of one."""
    hint: str = ""
    """Advice; empty if nothing is to be done."""


ProbeSubject = Literal["reachable", "key", "model", "parameters", "schema", "reply", "tokens", "price", "retirement"]
ProbeRole = Literal["candidate", "judge"]


class ProbeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check of a model."""

    subject: ProbeSubject
    standing: CheckStanding = "ok"
    says: str = ""
    """Finding; never a key, nor a part of one."""
    hint: str = ""
    """Advice; empty if nothing is to be done."""


class ShownExchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it was sent and what was read from its reply, without keys, for endpoints that a run file describes."""

    request: str
    reply: str
    read: dict[str, str] = {}
    """Values by the names that the run file gives them, such as `answer` and `usage`."""
    usage_problem: str = ""
    """Why no count of tokens was found, where the run file has paths of some."""


class ModelProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe of one model showed."""

    name: str
    """What reports call the model."""
    provider: str
    model: str
    role: ProbeRole
    checks: tuple[ProbeCheck, ...]
    adjustments: tuple[Adjustment, ...] = ()
    """What the provider refused, and how it is sent instead."""
    exchange: ShownExchange | None = None

    @property
    def is_well(self) -> bool:
        """True when nothing needs fixing before a run."""
        return not any(check.standing == "problem" for check in self.checks)
