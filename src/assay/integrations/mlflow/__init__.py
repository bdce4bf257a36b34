"""Finished runs in MLflow, and graders of one in the other; nothing of mlflow is imported before it is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.integrations.mlflow.exporter import Destination, PushResult, push
    from assay.integrations.mlflow.graders import assay_scorer, mlflow_scorer

# The module of push is not called push: importing it would put the module in the place of the function.
_HOMES = {
    "Destination": "exporter",
    "PushResult": "exporter",
    "assay_scorer": "graders",
    "mlflow_scorer": "graders",
    "push": "exporter",
}

__all__ = ["Destination", "PushResult", "assay_scorer", "mlflow_scorer", "push"]


# mlflow takes seconds to import, and is an extra.
def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'assay.integrations.mlflow' has no attribute {name!r}")
    return getattr(import_module(f"assay.integrations.mlflow.{_HOMES[name]}"), name)
