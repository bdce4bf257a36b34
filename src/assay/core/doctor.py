"""Checks of the place where assay runs: what was looked at, and what to do where something must be mended."""

from typing import Literal

import msgspec

Standing = Literal["ok", "note", "problem"]
"""`note` is worth knowing and keeps nothing from working; a `problem` must be mended."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    area: str
    """What it belongs to: `environment`, `extras`, `keys`, `runs`, `network`, `providers`, `terminal`."""
    name: str
    standing: Standing = "ok"
    says: str = ""
    """What was found; never a key, nor a part of one."""
    hint: str = ""
    """What to do next; empty where there is nothing to do."""
