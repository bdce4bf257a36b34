"""Checks of the installation and its environment: what was found, and how to fix it."""

from typing import Literal

import msgspec

Standing = Literal["ok", "note", "problem"]
"""`note` is information and breaks nothing; a `problem` must be fixed."""


class DoctorCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check."""

    area: str
    """Area of the check: `environment`, `extras`, `keys`, `runs`, `network`, `providers`, `terminal`."""
    name: str
    standing: Standing = "ok"
    # The report is often pasted into an issue tracker, which is why no part of a key may be in it.
    says: str = ""
    """Finding; never a key, nor a part of one."""
    hint: str = ""
    """Advice; empty if nothing is to be done."""
