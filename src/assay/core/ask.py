"""Former name of `assay.core.model_call`, kept for one release because pages of the documentation showed it."""

from typing import Any
from warnings import warn

from assay.core import model_call

_RENAMED = {"Ask": "ModelRequest", "GraderAsk": "GraderRequest", "Lost": "FailedReply"}


def __getattr__(name: str) -> Any:
    """Load a name of the module that replaced this one."""
    if name.startswith("__"):
        raise AttributeError(f"module 'assay.core.ask' has no attribute {name!r}")
    now = _RENAMED.get(name, name)
    found = getattr(model_call, now)
    warn(f"assay.core.ask.{name} is now assay.core.model_call.{now}", DeprecationWarning, stacklevel=2)
    return found
