"""Functions that surfaces call; each module is imported when one of its names is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api.checks import *
    from assay.api.client import *
    from assay.api.datasets import *
    from assay.api.decisions import *
    from assay.api.judges import *
    from assay.api.runs import *
    from assay.api.stored_runs import *
    from assay.api.submissions import *
    from assay.api.validation import *

_NAMES = {
    "checks": "CostEstimate DoctorCheck ModelEstimate PluginListing estimate_cost examine_place list_plugins",
    "client": "AsyncClient Client RunStatus",
    "datasets": """
        ArrowTable ConversionReport DatasetRows ImportFormat ImportReport ImportRequest ImportResult RecordTable SCORE_MEMBERS
        TABLE_COLUMNS TABLE_LISTS arrow_of arrow_table convert convert_benchmark convert_contract dataset_table import_files
        import_runs run_facts run_table table_rows typed_rows
    """,
    "decisions": """
        Baseline Flip GateDecision GateSpec PlannedComparison PlannedSuite RankRequest RunComparison RunTrend
        StoredComparison SuiteResult SuiteRun audit compare decide_suite gate keep_comparison kept_comparison list_baselines
        note_audit plan_rank plan_suite rank read_flips run_suite set_baseline trend
    """,
    "judges": """
        Calibration KeptCard KeptCards KeptLabel LabelInput LabelSample ProbeRequest calibrate filled_labels keep_card
        keep_label kept_cards kept_labels label_sample label_text probe
    """,
    "runs": """
        CallEvent ListedRecords Observer PlanProblems PlannedRuns RecordEvent RunBackend RunRequest ScoreSeen Snapshot
        cancel check is_run_file list_records model_problem plan_runs resume retry run run_async work
    """,
    "stored_runs": """
        Facets IndexedRecord Neighbours PurgeResult RecordHit RecordHits RecordSearch RunReader StoredDataset facets_of
        fetch filled_eval_run find_records index_progress index_run list_runs missing_indexes neighbours_of open_run publish
        purge question_of removed replay rescore row_at run_id_of verify
    """,
    "submissions": """
        DatasetEntry MOST_ERRORS NamedModels RunListCache SharedRuns SubmissionRow Submissions UploadTarget UploadVerdict
        accept_records check_upload file_models has_failed is_driven leave_failure named_run no_such_run prepare_run
        record_errors record_failure redact_rule_problems run_file_models run_file_problems run_project warm_up
    """,
    "validation": "FixReport ValidationConfig find_sources fix load_config stream validate validate_with_hashes",
}
"""Public names of each module."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def load_all() -> None:
    """Import every module now, as a server does before its first request."""
    for module in _NAMES:
        import_module(f"assay.api.{module}")


def __getattr__(name: str) -> Any:
    """Import a module on first use: validation must not pay for an event loop and a database."""
    if name not in _MODULES:
        raise AttributeError(f"module 'assay.api' has no attribute {name!r}")
    return getattr(import_module(f"assay.api.{_MODULES[name]}"), name)
