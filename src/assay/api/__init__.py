"""What every surface calls; each part is imported when one of its names is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api.comparisons import Comparison, compare
    from assay.api.conversion import convert_benchmark, convert_contract
    from assay.api.runs import (
        PlannedRuns,
        PlanProblems,
        Purged,
        Run,
        RunRequest,
        Snapshot,
        cancel,
        check,
        is_run_file,
        list_runs,
        open_run,
        plan_runs,
        purge,
        removed,
        replay,
        rescore,
        resume,
        retry,
        run,
        run_async,
        verify,
    )
    from assay.api.validation import (
        FixReport,
        ValidationConfig,
        find_sources,
        fix,
        load_config,
        stream,
        validate,
        validate_with_hashes,
    )

_HOMES = {
    **dict.fromkeys(("FixReport", "ValidationConfig", "find_sources", "fix", "load_config"), "validation"),
    **dict.fromkeys(("stream", "validate", "validate_with_hashes"), "validation"),
    **dict.fromkeys(("Comparison", "compare"), "comparisons"),
    **dict.fromkeys(("convert_benchmark", "convert_contract"), "conversion"),
}
"""Names that are not in `runs`."""

__all__ = [
    "Comparison",
    "FixReport",
    "PlanProblems",
    "PlannedRuns",
    "Purged",
    "Run",
    "RunRequest",
    "Snapshot",
    "ValidationConfig",
    "cancel",
    "check",
    "compare",
    "convert_benchmark",
    "convert_contract",
    "find_sources",
    "fix",
    "is_run_file",
    "list_runs",
    "load_config",
    "open_run",
    "plan_runs",
    "purge",
    "removed",
    "replay",
    "rescore",
    "resume",
    "retry",
    "run",
    "run_async",
    "stream",
    "validate",
    "validate_with_hashes",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Load a part when it is needed: whoever validates does not pay for an event loop and a database."""
    if name not in __all__:
        raise AttributeError(f"module 'assay.api' has no attribute {name!r}")
    return getattr(import_module(f"assay.api.{_HOMES.get(name, 'runs')}"), name)
