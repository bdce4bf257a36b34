"""Reports on runs, compared with golden files."""

import re
from collections.abc import Callable, Iterator

import msgspec
import pytest
from rich.cells import cell_len

from assay.api import CostEstimate, ModelEstimate, PlannedRuns
from assay.core.artifact_lines import InvalidRecord, RecordDetails
from assay.core.case import Choice, Message
from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.core.run_result import RunListing
from assay.core.settings import Gates
from assay.presentation.record import record_sections
from assay.presentation.run import candidate_sections, run_sections
from assay.presentation.run_list import run_list_sections
from assay.presentation.run_report import RunReport
from assay.presentation.subject import plan_section
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text
from tests.surfaces.conftest import HOSTILE, Snapshot
from tests.surfaces.run_views import (
    CASES,
    METRICS,
    asked,
    golden_view,
    hostile_view,
    other_view,
    prediction,
    record,
    result,
    slice_value,
    unfinished_view,
    unlisted_view,
)

PLAIN = ReportSettings(version="9.9.9")
NARROW = ReportSettings(version="9.9.9", width=72, is_coloured=True)
LISTINGS = (
    RunListing(
        run_id="nightly-2",
        state="running",
        created_at="2026-11-15T10:00:00.000Z",
        dataset="assistant",
        candidate="small",
        total_records=1500,
        done_records=120,
    ),
    RunListing(
        run_id="nightly-1",
        state="completed",
        created_at="2026-11-14T10:00:00.000Z",
        dataset="assistant",
        candidate=HOSTILE,
        total_records=6,
        done_records=6,
        pass_rate=0.75,
        score=3.75,
        scored_by="mean",
        scale="1-5",
        passed=False,
    ),
    RunListing(
        run_id="bench-1",
        state="completed",
        created_at="2026-11-13T10:00:00.000Z",
        dataset="bench",
        candidate="small",
        total_records=6,
        done_records=6,
        pass_rate=0.5,
        score=0.42,
        scored_by="prbench (compat)",
        scale="0-1",
    ),
)


def shown(view: RunReport, settings: ReportSettings = PLAIN, commands: tuple[str, ...] = ()) -> str:
    return "".join(report_text(run_sections(view, is_verbose=settings.is_verbose, commands=commands), settings))


def record_text(found: RecordDetails | InvalidRecord, settings: ReportSettings) -> Iterator[str]:
    return report_text(record_sections(found, is_verbose=settings.is_verbose), settings)


def test_the_report_on_a_golden_run_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run.txt", shown(golden_view(), commands=("assay show nightly-1 leap-year", "assay retry nightly-1")))


def test_the_report_on_a_narrow_coloured_terminal_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run-narrow-colour.txt", shown(golden_view(), NARROW))


def test_the_report_on_an_unfinished_run_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run-unfinished.txt", shown(unfinished_view(), commands=("assay resume nightly-3",)))


def test_several_candidates_side_by_side_match_their_golden_file(snapshot: Snapshot) -> None:
    snapshot(
        "run-candidates.txt", "".join(report_text(candidate_sections([golden_view(), other_view(), unfinished_view()]), PLAIN))
    )


def test_the_report_on_records_that_are_not_listed_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run-unlisted.txt", shown(unlisted_view()))


def test_slices_are_cut_unless_everything_is_asked_for() -> None:
    values = tuple(slice_value("tags", f"tag-{number}", 2) for number in range(15))
    view = msgspec.structs.replace(golden_view(), slices=values, omitted_slice_values=5)
    assert "tag-11  " in shown(view)
    assert "tag-12  " not in shown(view)
    assert "… and 8 more values (--verbose lists them)\n" in shown(view)
    assert "… and 5 more values (metrics_by_slice.json has them)\n" in shown(view, ReportSettings(version="9", is_verbose=True))


def test_slices_of_several_scales_show_means_that_can_be_compared() -> None:
    mixed = msgspec.structs.replace(golden_view(), result=result("r", metrics={**METRICS, "scale": None}))
    assert "dataset  assistant  3   75.0 % [30.0 %, 95.4 %]  0.69 [0.25, 1.00]\n" in shown(mixed)


def test_what_retention_has_removed_is_named() -> None:
    gone = msgspec.structs.replace(golden_view(), missing=('"failures.jsonl" was removed by retention',))
    assert 'artifacts   runs/nightly-1\nmissing     "failures.jsonl" was removed by retention\n' in shown(gone)


def test_the_report_on_one_record_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run-record.txt", "".join(record_text(record(), PLAIN)))


def test_the_list_of_runs_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run-list.txt", "".join(report_text(run_list_sections(LISTINGS), PLAIN)))


def test_no_line_of_a_report_is_wider_than_the_terminal() -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown(golden_view(), NARROW)).splitlines()
    assert max(map(cell_len, lines)) <= 72


HOSTILE_TEXTS: dict[str, Callable[[], str]] = {
    "run": lambda: shown(hostile_view(), commands=(HOSTILE,)),
    "candidates": lambda: "".join(report_text(candidate_sections([hostile_view(), hostile_view()]), PLAIN)),
    "list": lambda: "".join(report_text(run_list_sections(LISTINGS), PLAIN)),
    "record": lambda: "".join(
        record_text(
            RecordDetails(
                input=asked(HOSTILE, messages=(Message("user", HOSTILE),), choices=(Choice("A", HOSTILE),)),
                prediction=prediction(HOSTILE, None, HOSTILE, model_response=HOSTILE, flags=[HOSTILE], label=HOSTILE),
                attempts=(),
            ),
            PLAIN,
        )
    ),
}


@pytest.mark.parametrize("name", HOSTILE_TEXTS)
def test_no_control_or_override_character_reaches_the_terminal(name: str) -> None:
    text = HOSTILE_TEXTS[name]()
    assert "␛[31mred" in text
    assert re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text) == []


def test_scores_of_several_scales_have_a_distribution_each() -> None:
    bins = [{"from": 0.0, "to": 0.5, "count": 1}, {"from": 0.5, "to": 1.0, "count": 3}]
    mixed = {**METRICS, "scale": None, "score_distribution": {"0-1": bins, "1-5": METRICS["score_distribution"]["1-5"]}}
    text = shown(msgspec.structs.replace(golden_view(), result=result("r", metrics=mixed)))
    assert "mean score  0.69 [0.25, 1.00] · mixed scales, normalized to 0-1 · 0.55 at worst, 0.75 at best\n" in text
    assert "scores 0-1  0.00-0.50  ████████ 1\n" in text


def test_more_cases_than_are_listed_are_counted() -> None:
    view = msgspec.structs.replace(golden_view(), cases=CASES[:1], omitted_cases=1_204)
    assert "… and 1,204 more records (--verbose lists all)\n" in shown(view)


def test_the_plan_of_a_dry_run_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run-plan.txt", "".join(plan_lines()))


def plan_lines() -> list[str]:
    dataset = DatasetPlan(
        path="data/law.jsonl",
        contract="legal_eval_v1",
        dataset_id="law",
        dataset_version="2",
        schema_version="legal_eval_v1",
        sha256="0" * 64,
        name="law",
        split_field="language",
        split_value="en",
        limit=100,
    )
    plan = Plan(
        run_id="nightly",
        datasets=(dataset,),
        candidate=ModelPlan(name="small", provider="openai", model="gpt-5-mini"),
        judges=(ModelPlan(name="openai/gpt-5", provider="openai", model="gpt-5"),),
        providers=(ProviderPlan(name="openai", kind="openai", requests_per_minute=500.0, tokens_per_minute=90_000.0),),
        gates=Gates(pass_rate=0.8, min_score=0.6, max_error_rate=0.05),
        max_cost=2.5,
        sample=50,
        limit=100,
    )
    planned = PlannedRuns(
        plans=(plan,),
        runs_dir="runs",
        inputs=(),
        valid_records=50,
        invalid_records=2,
        judged_records=30,
        notes=("two invalid records are left out",),
    )
    asked = {"calls": 50, "input_tokens": 12_000, "output_tokens": 20_000}
    estimate = CostEstimate(
        models=(
            ModelEstimate(stage="candidate", model="small", cost=0.043, **asked),
            ModelEstimate(stage="judge", model="openai/gpt-5", cost=None, **asked),
        ),
        calls=100,
        cost=None,
        known_cost=0.043,
        records=50,
        sampled=50,
    )
    return list(report_text([plan_section(planned, estimate)], PLAIN))
