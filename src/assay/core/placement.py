"""Where runs are kept and worked on; no part of their plans, since it changes no result."""

import msgspec


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where new runs are kept and worked on: on this machine, unless it says otherwise."""

    ledger: str = ""
    """Address of a PostgreSQL that keeps the ledgers of runs; each has a file of its own without one."""


HERE = Placement()
