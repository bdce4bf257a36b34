"""Former name of a part of `assay.metrics.paired`, kept for one release because a page of the documentation showed it."""

from typing import Any
from warnings import warn

from assay.metrics import paired


def __getattr__(name: str) -> Any:
    """Load a name of the module that replaced this one."""
    if name.startswith("__"):
        raise AttributeError(f"module 'assay.metrics.power' has no attribute {name!r}")
    found = getattr(paired, name)
    warn(f"assay.metrics.power.{name} is now assay.metrics.paired.{name}", DeprecationWarning, stacklevel=2)
    return found
