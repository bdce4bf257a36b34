"""assay: validate evaluation datasets, run them, and keep the evidence."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.core.version import __version__ as __version__

if TYPE_CHECKING:
    from assay.api import AsyncClient, Client, RunRequest, ValidationConfig, convert, stream
    from assay.core.ask import Ask, ModelFailure, Reply, Usage
    from assay.core.case import Case, Message
    from assay.core.errors import AssayError, ServerProblem, SourceUnreadable, UsageProblem
    from assay.core.issue import Issue
    from assay.core.judgement import Judgement
    from assay.core.outcome import GradingFailure
    from assay.core.report import Report
    from assay.core.run_result import RunResult
    from assay.surfaces.python.reports import validate
    from assay.surfaces.python.runs import Run, open_run, run, run_async

_HOMES = {
    "validate": "assay.surfaces.python.reports",
    "stream": "assay.api",
    "convert": "assay.api",
    "ValidationConfig": "assay.api",
    "Run": "assay.surfaces.python.runs",
    "run": "assay.surfaces.python.runs",
    "run_async": "assay.surfaces.python.runs",
    "open_run": "assay.surfaces.python.runs",
    "RunRequest": "assay.api",
    "Client": "assay.api",
    "AsyncClient": "assay.api",
    "RunResult": "assay.core.run_result",
    "Ask": "assay.core.ask",
    "Case": "assay.core.case",
    "GradingFailure": "assay.core.outcome",
    "Judgement": "assay.core.judgement",
    "Message": "assay.core.case",
    "ModelFailure": "assay.core.ask",
    "Reply": "assay.core.ask",
    "Issue": "assay.core.issue",
    "Report": "assay.core.report",
    "AssayError": "assay.core.errors",
    "ServerProblem": "assay.core.errors",
    "SourceUnreadable": "assay.core.errors",
    "Usage": "assay.core.ask",
    "UsageProblem": "assay.core.errors",
}

__all__ = [
    "Ask",
    "AssayError",
    "AsyncClient",
    "Case",
    "Client",
    "GradingFailure",
    "Issue",
    "Judgement",
    "Message",
    "ModelFailure",
    "Reply",
    "Report",
    "Run",
    "RunRequest",
    "RunResult",
    "ServerProblem",
    "SourceUnreadable",
    "Usage",
    "UsageProblem",
    "ValidationConfig",
    "convert",
    "open_run",
    "run",
    "run_async",
    "stream",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import assay` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
