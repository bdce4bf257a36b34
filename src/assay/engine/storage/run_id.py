"""Run ids: sortable by time, safe as folder names."""

import re
import secrets
import time

from assay.core.errors import UsageProblem
from assay.store.audit import AUDIT_FILE

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_RESERVED = ("latest", AUDIT_FILE)
"""Names with another meaning in a folder of runs."""


def new_run_id() -> str:
    """Return `run_` and a ULID: 48 bits of milliseconds and 80 random bits, in Crockford's base 32."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return "run_" + "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))


def could_be_run_id(text: str) -> bool:
    """Return True for a name that is valid, and distinct, as a folder on every file system."""
    return _SAFE.fullmatch(text) is not None and text.lower() not in _RESERVED


def check_run_id(run_id: str) -> str:
    """Return the id; raises UsageProblem when it could not name a folder."""
    if _SAFE.fullmatch(run_id) is None:
        raise UsageProblem(
            f"{run_id!r} cannot be a run id", hint="use up to 128 letters, digits, dots, dashes and underscores, no dot first"
        )
    if run_id.lower() in _RESERVED:
        raise UsageProblem(f"{run_id!r} cannot be a run id", hint="that name is taken in every folder of runs; choose another one")
    return run_id
