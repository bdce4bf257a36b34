"""The table of the ways of grading: each kind is planned, asked, graded and read back by its row alone."""

from pathlib import Path
from typing import Any, get_args

import pytest

import assay
from assay.core.case import Case, Criterion
from assay.core.plan import PluginPlan
from assay.core.tools import ExpectedCall
from assay.engine.planning.request import PlanProblems
from assay.grading import (
    GRADING_METHODS,
    GradingSettings,
    MethodKind,
    UnknownCall,
    kind_of,
    marks_of,
    needs_judge,
    results_from_log,
)
from tests.engine.run_settings import mcq_row, write_rows
from tests.grading.driving import SETTINGS, Driven, drive, golden_case, judged, mcq_case, reference_case, replaced, rubric_case
from tests.grading.test_pairwise import fair, pair
from tests.grading.test_trajectory import TRAVEL, turns

MET = '{"criteria_met": true, "explanation": "It does."}'
TENTHS = '{"score": 0.8, "justification": "Nearly."}'
CALL = '{"tool": "search_trains", "input": {}}'
OURS: dict[MethodKind, tuple[Case, Any]] = {
    "five_point": (golden_case(), judged('{"score": 4, "justification": "Good."}')),
    "rubric": (rubric_case(criteria=(Criterion("one", "Says four."),)), judged(MET)),
    "reference": (reference_case(), judged(TENTHS)),
    "mcq": (mcq_case(), judged("nobody is asked", answer="B")),
    "turn": (turns()[2], judged(TENTHS)),
    "tool_call": (turns()[0], judged("nobody is asked", answer=CALL)),
    "judged_tool_call": (
        replaced(turns()[0], expected_calls=(ExpectedCall("search_trains", {"to": "Wien"}, rules={"to": "judge"}),)),
        judged('{"result": 1, "reason": "The same city."}', answer='{"tool": "search_trains", "input": {"to": "Vienna"}}'),
    ),
    "pairwise": (pair(), fair),
}
"""A case of each kind that is graded without code of others, and who answers."""


def driven_log(driven: Driven, answering: Any) -> dict[str, str]:
    return {ask.call_id: answering(ask) for ask in driven.asks.values() if ask.stage == "judge"}


def test_every_kind_has_its_row() -> None:
    assert tuple(GRADING_METHODS) == get_args(MethodKind)
    assert [*OURS, "plugin", "checks", "prompt"] == list(GRADING_METHODS)


@pytest.mark.parametrize("kind", OURS)
def test_a_case_is_graded_as_the_row_of_its_kind_says(kind: MethodKind) -> None:
    case, answering = OURS[kind]
    way, driven = GRADING_METHODS[kind], drive(case, answering)
    assert (kind_of(case), driven.grade.scale) == (kind, way.scale)
    assert driven.grade.evaluator in way.evaluators
    assert needs_judge(case, SETTINGS) == way.needs_judge == bool(driven_log(driven, answering))


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in OURS if GRADING_METHODS[kind].needs_judge])
def test_the_log_of_judges_is_read_back_as_they_graded(kind: MethodKind, *, is_first: bool) -> None:
    case, answering = OURS[kind]
    driven = drive(case, answering)
    heard = results_from_log(case, SETTINGS, replies=driven_log(driven, answering), answer=driven.grade.answer, is_first=is_first)
    assert heard == marks_of(tuple(score for score in driven.grade.scores if score.judge))


@pytest.mark.parametrize("kind", [kind for kind in OURS if not GRADING_METHODS[kind].needs_judge])
def test_what_no_judge_graded_is_read_back_as_marks_without_a_value(kind: MethodKind) -> None:
    case, answering = OURS[kind]
    graded = marks_of(drive(case, answering).grade.scores)
    heard = results_from_log(case, SETTINGS, replies={}, answer=CALL)
    assert [(mark.criterion, mark.scale, mark.value) for mark in heard] == [(mark.criterion, mark.scale, None) for mark in graded]


def test_what_a_grader_of_others_heard_is_read_by_nobody_else() -> None:
    settings = GradingSettings(candidate="model", judges=("judge",), grader=PluginPlan(kind="grader", name="own"))
    with pytest.raises(UnknownCall):
        results_from_log(reference_case(), settings, replies={"judge:grader:1": TENTHS}, answer="Four.")


def row(kind: str, **members: Any) -> dict[str, Any]:
    return {"schema_version": "legal_eval_v1", "id": "r:1", "dataset": "law", "task_type": kind, "prompt": "2+2?", **members}


def dataset(folder: Path, kind: MethodKind) -> Path:
    rows = {
        "rubric": row("rubric_qa", rubric=[{"id": "one", "title": "Says four.", "weight": 1}]),
        "reference": row("reference_qa", reference_answers=["Four."]),
        "mcq": mcq_row("m:1"),
        "judged_tool_call": row(
            "reference_qa",
            reference_answers=["Four."],
            metadata={"expected_tool_calls": [{"name": "add", "arguments": {"a": 2}, "rules": {"a": "judge"}}]},
        ),
    }
    examples = TRAVEL.parent.parent
    files = {"five_point": examples / "golden_v1" / "assistant.json", "turn": TRAVEL, "tool_call": TRAVEL}
    return files[kind] if kind in files else write_rows(folder / f"{kind}.jsonl", rows[kind])


@pytest.mark.parametrize("kind", [kind for kind in OURS if kind != "pairwise"])
def test_a_run_over_each_kind_names_one_of_its_evaluators(tmp_path: Path, kind: MethodKind) -> None:
    options: dict[str, Any] = {"model": "scripted/say-A", "runs_dir": str(tmp_path / "runs"), "limit": 3}
    (run,) = assay.run(dataset(tmp_path, kind), judge="scripted/judge-any", **options)
    evaluators = {line["evaluator"] for line in assay.open_run(run.run_dir).predictions()}
    assert evaluators & set(GRADING_METHODS[kind].evaluators)


@pytest.mark.parametrize("kind", ["five_point", "rubric", "reference", "turn", "judged_tool_call"])
def test_planning_asks_for_a_judge_where_the_row_needs_one(tmp_path: Path, kind: MethodKind) -> None:
    assert GRADING_METHODS[kind].needs_judge
    with pytest.raises(PlanProblems, match="cannot be graded without a judge"):
        assay.run(dataset(tmp_path, kind), model="scripted/echo", runs_dir=str(tmp_path / "runs"))


def test_planning_asks_for_no_judge_where_the_row_needs_none(tmp_path: Path) -> None:
    (run,) = assay.run(dataset(tmp_path, "mcq"), model="scripted/say-A", runs_dir=str(tmp_path / "runs"))
    assert run.metrics["pass_rate"] == 1
