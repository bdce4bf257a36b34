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
    from assay.api.validation import *
    from assay.core.record_query import RecordSearch as RecordSearch
    from assay.core.runs import RunBackend as RunBackend
    from assay.core.settings import DatasetEntry as DatasetEntry
    from assay.core.setup_checks import DoctorCheck as DoctorCheck
    from assay.core.setup_checks import ModelProbe as ModelProbe
    from assay.core.setup_checks import ProbeCheck as ProbeCheck
    from assay.datasets.converters import ConversionReport as ConversionReport
    from assay.datasets.converters.report import ConversionNote as ConversionNote
    from assay.datasets.dataset_paths import find_sources as find_sources
    from assay.datasets.imports import DatasetRows as DatasetRows
    from assay.datasets.imports import ImportFormat as ImportFormat
    from assay.datasets.imports import ImportReport as ImportReport
    from assay.datasets.imports import ImportResult as ImportResult
    from assay.datasets.parsing.config import ValidationConfig as ValidationConfig
    from assay.datasets.parsing.config import load_config as load_config
    from assay.datasets.tables.column_roles import ColumnsUnclear as ColumnsUnclear
    from assay.engine.comparison.alignment import Flip as Flip
    from assay.engine.comparison.alignment import FlipSide as FlipSide
    from assay.engine.comparison.gate import GateDecision as GateDecision
    from assay.engine.comparison.gate import GateReason as GateReason
    from assay.engine.comparison.gate import GateSpec as GateSpec
    from assay.engine.comparison.group_comparison import GroupComparison as GroupComparison
    from assay.engine.comparison.group_comparison import PairComparison as PairComparison
    from assay.engine.comparison.matrix import MatrixColumn as MatrixColumn
    from assay.engine.comparison.matrix import MatrixRow as MatrixRow
    from assay.engine.comparison.matrix import RunMatrix as RunMatrix
    from assay.engine.comparison.run_comparison import RunComparison as RunComparison
    from assay.engine.comparison.run_comparison import SliceDifference as SliceDifference
    from assay.engine.comparison.run_comparison import StoredComparison as StoredComparison
    from assay.engine.comparison.trends import RunTrend as RunTrend
    from assay.engine.execution.record_events import CallEvent as CallEvent
    from assay.engine.execution.record_events import Observer as Observer
    from assay.engine.execution.record_events import RecordEvent as RecordEvent
    from assay.engine.judge_quality.calibration import Alphas as Alphas
    from assay.engine.judge_quality.calibration import Calibration as Calibration
    from assay.engine.judge_quality.label_matching import KeptLabel as KeptLabel
    from assay.engine.judge_quality.label_matching import LabelInput as LabelInput
    from assay.engine.judge_quality.probe import ProbeRequest as ProbeRequest
    from assay.engine.judge_quality.prompt_trial import PromptTrial as PromptTrial
    from assay.engine.judge_quality.prompt_trial import PromptTrialRequest as PromptTrialRequest
    from assay.engine.planning.estimate import CostEstimate as CostEstimate
    from assay.engine.planning.estimate import ModelEstimate as ModelEstimate
    from assay.engine.planning.pairs import RankRequest as RankRequest
    from assay.engine.planning.plans import PlannedRuns as PlannedRuns
    from assay.engine.planning.plugins import PluginListing as PluginListing
    from assay.engine.planning.plugins import list_plugins as list_plugins
    from assay.engine.planning.providers import model_problem as model_problem
    from assay.engine.planning.request import PlanProblems as PlanProblems
    from assay.engine.planning.request import RunRequest as RunRequest
    from assay.engine.planning.request import is_run_file as is_run_file
    from assay.engine.readers.record_search import RecordHit as RecordHit
    from assay.engine.readers.record_search import RecordHits as RecordHits
    from assay.engine.readers.record_search import facets_of as facets_of
    from assay.engine.readers.record_search import find_records as find_records
    from assay.engine.readers.record_search import index_run as index_run
    from assay.engine.readers.record_search import missing_indexes as missing_indexes
    from assay.engine.readers.record_search import neighbours_of as neighbours_of
    from assay.engine.readers.record_search import question_of as question_of
    from assay.engine.readers.record_search import row_at as row_at
    from assay.engine.readers.run_list import RunListCache as RunListCache
    from assay.engine.readers.run_list import SharedRuns as SharedRuns
    from assay.engine.readers.run_reader import RunReader as RunReader
    from assay.engine.readers.stored_dataset import StoredDataset as StoredDataset
    from assay.engine.readers.tables import SCORE_MEMBERS as SCORE_MEMBERS
    from assay.engine.readers.tables import RecordTable as RecordTable
    from assay.engine.readers.tables import arrow_of as arrow_of
    from assay.engine.readers.tables import arrow_table as arrow_table
    from assay.engine.readers.tables import run_columns as run_columns
    from assay.engine.readers.tables import run_facts as run_facts
    from assay.engine.readers.tables import run_table as run_table
    from assay.engine.readers.tables import table_rows as table_rows
    from assay.engine.readers.tables import typed_rows as typed_rows
    from assay.engine.records.run_counters import Snapshot as Snapshot
    from assay.engine.run_import import ImportRequest as ImportRequest
    from assay.engine.submissions import MAX_ERRORS as MAX_ERRORS
    from assay.engine.submissions import NamedModels as NamedModels
    from assay.engine.submissions import Submissions as Submissions
    from assay.engine.submissions import UploadTarget as UploadTarget
    from assay.engine.submissions import UploadVerdict as UploadVerdict
    from assay.engine.submissions import accept_records as accept_records
    from assay.engine.submissions import file_models as file_models
    from assay.engine.submissions import has_failed as has_failed
    from assay.engine.submissions import is_driven as is_driven
    from assay.engine.submissions import leave_failure as leave_failure
    from assay.engine.submissions import named_run as named_run
    from assay.engine.submissions import no_such_run as no_such_run
    from assay.engine.submissions import prepare_run as prepare_run
    from assay.engine.submissions import record_errors as record_errors
    from assay.engine.submissions import record_failure as record_failure
    from assay.engine.submissions import run_file_models as run_file_models
    from assay.engine.submissions import run_file_problems as run_file_problems
    from assay.engine.submissions import run_project as run_project
    from assay.metrics.correction import CorrectedEstimate as CorrectedEstimate
    from assay.store.files import KeptCard as KeptCard
    from assay.store.files import KeptCards as KeptCards
    from assay.store.record_index import Facets as Facets
    from assay.store.record_index import IndexedRecord as IndexedRecord
    from assay.store.redact import rule_problems as rule_problems
    from assay.store.submissions import SubmissionRow as SubmissionRow
    from assay.store.verify import FileProblem as FileProblem

_NAMES = {
    "api.checks": "check_upload estimate_cost check_installation probe_models warm_up",
    "api.client": "AsyncClient Client RunStatus",
    "api.datasets": """
        TABLE_COLUMNS TABLE_LISTS convert convert_benchmark convert_contract convert_table dataset_table import_files import_runs
    """,
    "api.decisions": """
        GatedRun GroupDecision PlannedSuite SuiteResult SuiteRun audit compare compare_runs decide_suite gate gate_group
        keep_comparison kept_comparison list_baselines note_audit plan_rank plan_suite rank read_flips run_suite
        set_baseline trend
    """,
    "api.judges": "calibrate filled_labels keep_card keep_label kept_cards kept_labels label_sample label_text probe try_prompt",
    "api.runs": "cancel check list_records plan_run_file plan_runs resume retry run run_async work",
    "api.stored_runs": """
        PurgeResult RunGroup fetch file_problems filled_eval_run index_progress list_runs open_group open_run publish
        purge removed replay rescore run_id_of run_matrix verify
    """,
    "api.validation": "FixReport fix stream validate validate_with_hashes",
    "core.setup_checks": "DoctorCheck ModelProbe ProbeCheck",
    "core.record_query": "RecordSearch",
    "core.runs": "RunBackend",
    "core.settings": "DatasetEntry",
    "datasets.converters": "ConversionReport",
    "datasets.converters.report": "ConversionNote",
    "datasets.dataset_paths": "find_sources",
    "datasets.imports": "DatasetRows ImportFormat ImportReport ImportResult",
    "datasets.parsing.config": "ValidationConfig load_config",
    "datasets.tables.column_roles": "ColumnsUnclear",
    "engine.comparison.alignment": "Flip FlipSide",
    "engine.comparison.group_comparison": "GroupComparison PairComparison",
    "engine.comparison.matrix": "MatrixColumn MatrixRow RunMatrix",
    "engine.comparison.gate": "GateDecision GateReason GateSpec",
    "engine.comparison.run_comparison": "RunComparison SliceDifference StoredComparison",
    "engine.comparison.trends": "RunTrend",
    "engine.execution.record_events": "CallEvent Observer RecordEvent",
    "engine.judge_quality.calibration": "Alphas Calibration",
    "engine.judge_quality.label_matching": "KeptLabel LabelInput",
    "engine.judge_quality.probe": "ProbeRequest",
    "engine.judge_quality.prompt_trial": "PromptTrial PromptTrialRequest",
    "engine.planning.estimate": "CostEstimate ModelEstimate",
    "engine.planning.pairs": "RankRequest",
    "engine.planning.plans": "PlannedRuns",
    "engine.planning.plugins": "PluginListing list_plugins",
    "engine.planning.providers": "model_problem",
    "engine.planning.request": "PlanProblems RunRequest is_run_file",
    "engine.readers.record_search": """
        RecordHit RecordHits facets_of find_records index_run missing_indexes neighbours_of question_of row_at
    """,
    "engine.readers.run_list": "RunListCache SharedRuns",
    "engine.readers.run_reader": "RunReader",
    "engine.readers.stored_dataset": "StoredDataset",
    "engine.readers.tables": "RecordTable SCORE_MEMBERS arrow_of arrow_table run_columns run_facts run_table table_rows typed_rows",
    "engine.records.run_counters": "Snapshot",
    "engine.run_import": "ImportRequest",
    "engine.submissions": """
        MAX_ERRORS NamedModels Submissions UploadTarget UploadVerdict accept_records file_models has_failed is_driven
        leave_failure named_run no_such_run prepare_run record_errors record_failure run_file_models
        run_file_problems run_project
    """,
    "metrics.correction": "CorrectedEstimate",
    "store.files": "KeptCard KeptCards",
    "store.record_index": "Facets IndexedRecord",
    "store.redact": "rule_problems",
    "store.submissions": "SubmissionRow",
    "store.verify": "FileProblem",
}
"""Public names and the modules that define them: functions of this folder, and values and readers of the layers below."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def load_all() -> None:
    """Import every module now, as a server does before its first request."""
    for module in _NAMES:
        import_module(f"assay.{module}")


def __getattr__(name: str) -> Any:
    """Import a module on first use: validation must not pay for an event loop and a database."""
    if name not in _MODULES:
        raise AttributeError(f"module 'assay.api' has no attribute {name!r}")
    return getattr(import_module(f"assay.{_MODULES[name]}"), name)
