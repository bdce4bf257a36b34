"""assay: validate evaluation datasets, run them, and keep the evidence."""

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

from assay.core.version import __version__ as __version__

if TYPE_CHECKING:
    from assay.api import AsyncClient, Client, RunRequest, ValidationConfig, convert, stream
    from assay.core.case import Case, Message
    from assay.core.errors import AssayError, ServerProblem, SourceUnreadable, UsageProblem
    from assay.core.issue import Issue
    from assay.core.model_call import ModelFailure, ModelRequest, Reply, Usage
    from assay.core.outcome import GradingFailure, Judgement
    from assay.core.report import ValidationReport
    from assay.core.run_result import RunResult
    from assay.surfaces.python_api.reports import validate
    from assay.surfaces.python_api.runs import Run, Runs, open_group, open_run, run, run_async

_HOMES = {
    "validate": "assay.surfaces.python_api.reports",
    "stream": "assay.api",
    "convert": "assay.api",
    "ValidationConfig": "assay.api",
    "Run": "assay.surfaces.python_api.runs",
    "run": "assay.surfaces.python_api.runs",
    "run_async": "assay.surfaces.python_api.runs",
    "open_group": "assay.surfaces.python_api.runs",
    "open_run": "assay.surfaces.python_api.runs",
    "Runs": "assay.surfaces.python_api.runs",
    "RunRequest": "assay.api",
    "Client": "assay.api",
    "AsyncClient": "assay.api",
    "RunResult": "assay.core.run_result",
    "ModelRequest": "assay.core.model_call",
    "Case": "assay.core.case",
    "GradingFailure": "assay.core.outcome",
    "Judgement": "assay.core.outcome",
    "Message": "assay.core.case",
    "ModelFailure": "assay.core.model_call",
    "Reply": "assay.core.model_call",
    "Issue": "assay.core.issue",
    "ValidationReport": "assay.core.report",
    "AssayError": "assay.core.errors",
    "ServerProblem": "assay.core.errors",
    "SourceUnreadable": "assay.core.errors",
    "Usage": "assay.core.model_call",
    "UsageProblem": "assay.core.errors",
}

__all__ = [
    "AssayError",
    "AsyncClient",
    "Case",
    "Client",
    "GradingFailure",
    "Issue",
    "Judgement",
    "Message",
    "ModelFailure",
    "ModelRequest",
    "Reply",
    "Run",
    "RunRequest",
    "RunResult",
    "Runs",
    "ServerProblem",
    "SourceUnreadable",
    "Usage",
    "UsageProblem",
    "ValidationConfig",
    "ValidationReport",
    "convert",
    "open_group",
    "open_run",
    "run",
    "run_async",
    "stream",
    "validate",
]


_RENAMED = {"Ask": "ModelRequest", "Report": "ValidationReport"}
"""Former public names, kept for one release."""


def __dir__() -> list[str]:
    """List the public names, for completion in editors and notebooks."""
    return sorted((*__all__, "__version__"))


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import assay` stays light."""
    if name in _RENAMED:
        warn(f"assay.{name} is now assay.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
