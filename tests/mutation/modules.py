"""The modules that results come from, each with the tests that are named after it and those of its area."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "assay"


class Module(NamedTuple):
    """A module below src/assay, and tests below tests/."""

    path: str
    nearest: str
    area: str

    @property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """The tests in the order in which they are asked, as pytest is told of them."""
        return tuple(tuple(f"tests/{name}" for name in stage.split()) for stage in (self.nearest, self.area))


_DATASETS = "core datasets"
_CONTRACTS = "datasets/test_fixtures.py datasets/parsing/test_checks.py datasets/parsing/test_fast_path.py"
_GRADING = "grading engine/execution/test_panels.py engine/test_rescore.py engine/judge_quality/test_probe.py"
_METRICS = (
    "metrics engine/finalization/test_finalize.py engine/records/test_groups.py engine/test_rescore.py"
    " engine/execution/test_repeats.py surfaces/test_every_figure.py"
)
_RUNS = (
    "engine/execution/test_faults.py engine/test_runs.py engine/finalization/test_finalize.py core/test_run_result.py"
    " engine/execution/test_case.py engine/execution/test_run_context.py engine/execution/test_batch_collector.py"
    " engine/execution/test_run.py engine/execution/test_states.py engine/execution/test_run_ownership.py simulation"
    " engine/planning/test_pairs.py models/test_transport.py engine/execution/test_repeats.py engine/test_truncation.py"
)
_STORE = "store engine/test_canaries.py engine/test_custom_rules.py core/test_retention.py engine/test_runs.py crash"

MODULES: tuple[Module, ...] = (
    Module(
        "core/gate_text.py",
        "core/test_gate_text.py core/test_number_text.py metrics/test_gates.py",
        "engine/comparison/test_gate.py surfaces/cli/test_decisions.py",
    ),
    Module("datasets/batch_v1/rules.py", f"datasets/batch_v1 {_CONTRACTS}", _DATASETS),
    Module("datasets/legal_eval_v1/rules.py", f"datasets/legal_eval_v1 {_CONTRACTS}", _DATASETS),
    Module(
        "engine/comparison/gate.py",
        "engine/comparison/test_gate.py",
        "engine/comparison/test_run_comparison.py engine/comparison/test_trends.py surfaces/cli/test_decisions.py",
    ),
    Module(
        "engine/execution/case.py",
        "engine/execution/test_case.py engine/execution/test_faults.py engine/execution/test_clocks.py"
        " engine/execution/test_run_context.py",
        _RUNS,
    ),
    Module("engine/execution/limits.py", "engine/execution/test_limits.py engine/execution/test_clocks.py", _RUNS),
    Module(
        "grading/choice_parser.py", "grading/test_choice_parser.py grading/test_choice_wording.py grading/test_mcq.py", _GRADING
    ),
    Module("grading/panel.py", "grading/test_panel.py engine/execution/test_panels.py", _GRADING),
    Module(
        "grading/verdict.py",
        "grading/test_verdict.py grading/test_five_point.py grading/test_rubric.py grading/test_rubric_one_call.py",
        _GRADING,
    ),
    Module("metrics/gates.py", "metrics/test_gates.py", "engine/comparison/test_gate.py surfaces/test_every_figure.py"),
    Module("metrics/intervals.py", "metrics/test_intervals.py metrics/test_intervals_meant.py metrics/test_clusters.py", _METRICS),
    Module(
        "metrics/summary.py",
        "metrics/test_summary.py metrics/test_repeats.py metrics/test_clusters.py metrics/test_profiles.py",
        _METRICS,
    ),
    Module(
        "store/redact.py",
        "store/test_redact.py store/test_redact_secrets.py store/test_redact_personal.py core/test_secrets.py",
        _STORE,
    ),
    Module("store/redact_personal.py", "store/test_redact_personal.py store/test_redact.py store/test_redact_patterns.py", _STORE),
    Module("store/sqlite.py", "store/test_sqlite.py store/test_ledger.py", _STORE),
)
