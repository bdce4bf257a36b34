"""Metrics from the lines of artifacts: profiles, golden results, and answers that count by their median."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay import api
from assay.core.case import Criterion
from assay.core.run_result import RunResult
from assay.engine.planning.request import PlanProblems
from assay.engine.records.run_metrics import profiler_of
from assay.testing import StubAnswer, StubRequest
from tests.engine.run_settings import write_golden
from tests.engine.test_rescore import POINTLESS, ROWS, document, rubric_row, run_all, scores
from tests.grading.driving import rubric_case
from tests.models.asking import plan_of, provider_of


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run with every kind of failure; its provider is gone, so that nobody could be asked any more."""
    return run_all(tmp_path_factory.mktemp("first"), *ROWS, gates={"min_score": 0.5, "max_error_rate": 0.9})


@pytest.mark.parametrize("compat", [False, True])
def test_what_nobody_was_asked_about_has_no_score_in_either(tmp_path: Path, *, compat: bool) -> None:
    finished = run_all(tmp_path, *POINTLESS)
    rescored = api.rescore(finished.run_dir, profile="apex_v1", compat=compat)
    assert scores(rescored) == {
        "whole": pytest.approx(200 / 3),
        "negative": "rubric_without_points",
        "zero": "rubric_without_points",
    }


def test_a_record_that_failed_says_what_it_could_have_had_and_the_headline_what_that_changes(tmp_path: Path) -> None:
    finished = run_all(tmp_path, *ROWS, profile="prbench")
    lines = list(api.open_run(finished.run_dir).predictions())
    assert {line.record_id for line in lines if line.profile_bounds is not msgspec.UNSET} == {
        line.record_id for line in lines if line.profile_unscored not in (None, "no_positive_weight")
    }
    bounds, headline = finished.metrics["profile"]["headline_bounds"], finished.metrics["profile"]["headline"]
    assert bounds["worst"] < headline < bounds["best"]
    assert api.replay(finished.run_dir) == []


def test_what_was_cancelled_has_not_failed(first: RunResult) -> None:
    line = next(api.open_run(first.run_dir).predictions())
    line.status, line.error_code = "cancelled", "max_cost"
    profiler = profiler_of(plan_of(provider_of("scripted"), profile="prbench", compat=True))
    assert profiler is not None
    profiler.apply(line, rubric_case(criteria=(Criterion("c0", "Good"),)), {})
    assert (line.profile_score, line.profile_unscored) == (None, "max_cost")


def test_golden_results_carry_the_id_of_the_new_run(tmp_path: Path) -> None:
    (finished,) = api.run(
        write_golden(tmp_path / "g.json"), model="scripted/echo", judge="scripted/judge-4", runs_dir=str(tmp_path / "runs")
    )
    rescored = api.rescore(finished.run_dir, profile="judge_1_5", run_id="official")
    old, new = document(finished, "eval_results.json"), document(rescored, "eval_results.json")
    assert (new["run_id"], rescored.metrics["profile"]["headline"]) == ("official", 4.0)
    assert (old["results"], old["parameters"]["score_threshold"]) == (new["results"], 3.5)


def test_golden_results_of_the_new_run_are_decided_by_its_gates(tmp_path: Path) -> None:
    golden, runs = write_golden(tmp_path / "g.json"), str(tmp_path / "runs")
    (finished,) = api.run(golden, model="scripted/echo", judge="scripted/judge-3", pass_rate=0.0, runs_dir=runs)
    rescored = api.rescore(finished.run_dir, profile="judge_1_5")
    decided = [document(one, "eval_results.json")["metrics"]["overall_passed"] for one in (finished, rescored)]
    assert decided == [finished.gate.passed, rescored.gate.passed] == [False, True]


def test_the_answers_to_one_record_count_by_their_median(tmp_path: Path) -> None:
    levels = tuple((f"level {level}.", 1) for level in (1, 2, 3, 4))
    finished = run_all(tmp_path, rubric_row("levels", levels), speaker=climber(), repeat=3, profile="apex_v1")
    assert sorted(line.profile_score for line in api.open_run(finished.run_dir).predictions()) == [25.0, 50.0, 100.0]
    profile = finished.metrics["profile"]
    assert (profile["headline"], profile["n"], profile["n_scored"]) == (50.0, 1, 3)
    again = api.rescore(finished.run_dir, profile="apex_v1", compat=True)
    assert (again.metrics["profile"]["headline"], api.verify(again.run_dir), api.replay(again.run_dir)) == (50.0, [], [])
    assert again.metrics["repeats"] == finished.metrics["repeats"]
    with pytest.raises(PlanProblems, match=r"but 1 record is graded by a rubric: 'levels'$"):
        api.rescore(finished.run_dir, profile="lexam_mcq")


def climber() -> Callable[[StubRequest], StubAnswer]:
    """A candidate whose answers reach the levels 1, 2 and 4, and a judge who sees that."""
    reached = iter((1, 2, 4))

    def speak(request: StubRequest) -> StubAnswer:
        if request.body["model"] == "candidate":
            return f"I reach {next(reached)}!"
        text = request.body["messages"][-1]["content"]
        level, reach = (int(re.search(pattern, text)[1]) for pattern in (r"level (\d)\.", r"I reach (\d)!"))  # type: ignore[index]
        return json.dumps({"criteria_met": reach >= level, "explanation": "It is so."})

    return speak
