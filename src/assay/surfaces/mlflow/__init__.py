"""Finished runs in MLflow, and graders of one in the other; nothing of mlflow is imported before it is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.surfaces.mlflow.graders import mlflow_scorer
    from assay.surfaces.mlflow.pushing import Destination, Pushed, push
    from assay.surfaces.mlflow.scorers import assay_scorer

_HOMES = {"Destination": "pushing", "Pushed": "pushing", "assay_scorer": "scorers", "mlflow_scorer": "graders", "push": "pushing"}

__all__ = ["Destination", "Pushed", "assay_scorer", "mlflow_scorer", "push"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'assay.surfaces.mlflow' has no attribute {name!r}")
    return getattr(import_module(f"assay.surfaces.mlflow.{_HOMES[name]}"), name)
