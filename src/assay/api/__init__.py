"""What every surface calls; each part is imported when one of its names is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api.calibrations import Calibration, LabelSample, calibrate, label_sample, label_text
    from assay.api.client import AsyncClient, Client, RunStatus
    from assay.api.comparisons import Comparison, Flip, Measured, compare, keep_comparison, kept_comparison, read_flips
    from assay.api.conversion import convert_benchmark, convert_contract
    from assay.api.estimates import CostEstimate, ModelEstimate, estimate_cost
    from assay.api.gates import Baseline, Demand, RunTrend, Verdict, audit, gate, list_baselines, set_baseline, trend
    from assay.api.probes import ProbeRequest, probe
    from assay.api.rankings import PlannedComparison, RankRequest, plan_rank, rank
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
    from assay.api.submissions import (
        DatasetEntry,
        Listings,
        SubmissionRow,
        Submissions,
        Upload,
        UploadVerdict,
        check_upload,
        named_run,
        prepare_run,
        record_errors,
        warm_up,
    )
    from assay.api.suites import PlannedSuite, SuiteResult, decide_suite, plan_suite, run_suite
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
    **dict.fromkeys(("Calibration", "LabelSample", "calibrate", "label_sample", "label_text"), "calibrations"),
    **dict.fromkeys(("AsyncClient", "Client", "RunStatus"), "client"),
    **dict.fromkeys(("Comparison", "Flip", "Measured", "compare"), "comparisons"),
    **dict.fromkeys(("keep_comparison", "kept_comparison", "read_flips"), "comparisons"),
    **dict.fromkeys(("CostEstimate", "ModelEstimate", "estimate_cost"), "estimates"),
    **dict.fromkeys(("Baseline", "Demand", "RunTrend", "Verdict", "audit", "gate"), "gates"),
    **dict.fromkeys(("PlannedSuite", "SuiteResult", "decide_suite", "plan_suite", "run_suite"), "suites"),
    **dict.fromkeys(("ProbeRequest", "probe"), "probes"),
    **dict.fromkeys(("DatasetEntry", "Listings", "SubmissionRow", "Submissions", "Upload", "UploadVerdict"), "submissions"),
    **dict.fromkeys(("check_upload", "named_run", "prepare_run", "record_errors", "warm_up"), "submissions"),
    **dict.fromkeys(("list_baselines", "set_baseline", "trend"), "gates"),
    **dict.fromkeys(("PlannedComparison", "RankRequest", "plan_rank", "rank"), "rankings"),
    **dict.fromkeys(("convert_benchmark", "convert_contract"), "conversion"),
}
"""Names that are not in `runs`."""

__all__ = [
    "AsyncClient",
    "Baseline",
    "Calibration",
    "Client",
    "Comparison",
    "CostEstimate",
    "DatasetEntry",
    "Demand",
    "FixReport",
    "Flip",
    "LabelSample",
    "Listings",
    "Measured",
    "ModelEstimate",
    "PlanProblems",
    "PlannedComparison",
    "PlannedRuns",
    "PlannedSuite",
    "ProbeRequest",
    "Purged",
    "RankRequest",
    "Run",
    "RunRequest",
    "RunStatus",
    "RunTrend",
    "Snapshot",
    "SubmissionRow",
    "Submissions",
    "SuiteResult",
    "Upload",
    "UploadVerdict",
    "ValidationConfig",
    "Verdict",
    "audit",
    "calibrate",
    "cancel",
    "check",
    "check_upload",
    "compare",
    "convert_benchmark",
    "convert_contract",
    "decide_suite",
    "estimate_cost",
    "find_sources",
    "fix",
    "gate",
    "is_run_file",
    "keep_comparison",
    "kept_comparison",
    "label_sample",
    "label_text",
    "list_baselines",
    "list_runs",
    "load_config",
    "named_run",
    "open_run",
    "plan_rank",
    "plan_runs",
    "plan_suite",
    "prepare_run",
    "probe",
    "purge",
    "rank",
    "read_flips",
    "record_errors",
    "removed",
    "replay",
    "rescore",
    "resume",
    "retry",
    "run",
    "run_async",
    "run_suite",
    "set_baseline",
    "stream",
    "trend",
    "validate",
    "validate_with_hashes",
    "verify",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    """Load a part when it is needed: whoever validates does not pay for an event loop and a database."""
    if name not in __all__:
        raise AttributeError(f"module 'assay.api' has no attribute {name!r}")
    return getattr(import_module(f"assay.api.{_HOMES.get(name, 'runs')}"), name)
