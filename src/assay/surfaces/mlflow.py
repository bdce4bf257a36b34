"""Former name of `assay.integrations.mlflow`, kept for one release."""

from typing import Any
from warnings import warn

from assay.core.integrations import load_integration


def __getattr__(name: str) -> Any:
    """Load a public name of the integration; raises MissingExtra without it."""
    # `hasattr` checks of pytest, copy and pickle ask for dunder names, which must not warn.
    if name.startswith("__"):
        raise AttributeError(f"module 'assay.surfaces.mlflow' has no attribute {name!r}")
    warn("assay.surfaces.mlflow is now assay.integrations.mlflow", DeprecationWarning, stacklevel=2)
    return getattr(load_integration("mlflow", user="assay.surfaces.mlflow"), name)
