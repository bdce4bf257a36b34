from pathlib import Path

import pytest

from assay import api
from assay.core.errors import UsageProblem
from tests.engine.graded_runs import graded, passing, question
from tests.engine.run_settings import write_golden

ROWS = [question(f"q{number}") for number in range(10)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs, each with one wrong answer more, and one of another dataset."""
    folder = tmp_path_factory.mktemp("trend")
    for wrong in range(6):
        graded(folder, f"night-{wrong}", ROWS, passing(ROWS, *range(wrong)))
    return folder / "runs"


def test_runs_come_in_the_order_of_time_with_their_intervals(runs: Path) -> None:
    found = api.trend(runs_dir=runs)
    assert [point.run_id for point in found.points] == [f"night-{wrong}" for wrong in range(6)]
    assert [point.value for point in found.points] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5])
    assert all(point.low is not None and point.low < point.value for point in found.points)


def test_a_direction_is_named_where_a_test_supports_it(runs: Path) -> None:
    found = api.trend(runs_dir=runs).trend
    assert (found.direction, found.slope.value) == ("down", pytest.approx(-0.1))
    assert found.p_value == pytest.approx(2 / 720)


def test_too_few_runs_have_no_direction(runs: Path) -> None:
    found = api.trend(runs_dir=runs, last=3)
    assert (len(found.points), found.trend.direction, found.trend.p_value) == (3, "none", None)


def test_the_score_can_be_followed_too(runs: Path) -> None:
    assert api.trend(runs_dir=runs, measure="score").points[-1].value == pytest.approx(0.5)


def test_a_dataset_without_runs_names_those_that_have_some(runs: Path) -> None:
    with pytest.raises(UsageProblem, match="no finished run is over 'nothing'"):
        api.trend(runs_dir=runs, dataset="nothing")


def test_a_folder_without_runs_has_no_trend(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="has no finished run"):
        api.trend(runs_dir=tmp_path)


def test_other_candidates_contents_and_derived_runs_are_left_out_and_counted(tmp_path: Path) -> None:
    graded(tmp_path, "edited", [question("q0", prompt="Is it now?"), *ROWS[1:]], passing(ROWS))
    graded(tmp_path, "first", ROWS, passing(ROWS, 1))
    graded(tmp_path, "second", ROWS, passing(ROWS, 1))
    api.rescore("second", profile="lexam_mcq", runs_dir=tmp_path / "runs")
    found = api.trend(runs_dir=tmp_path / "runs")
    assert [point.run_id for point in found.points] == ["first", "second"]
    assert found.left_out == {"over other contents": 1, "rescored or retried": 1}
    assert len(api.trend(runs_dir=tmp_path / "runs", is_any_version=True).points) == 3


def test_a_candidate_without_runs_names_those_that_have_some(runs: Path) -> None:
    with pytest.raises(UsageProblem, match="'small' has no run over 'law'"):
        api.trend(runs_dir=runs, candidate="small")


def test_scores_by_other_rules_are_left_out_and_other_judges_are_told(tmp_path: Path) -> None:
    golden, runs_dir = write_golden(tmp_path / "golden.json"), str(tmp_path / "runs")
    for run_id, judge, profile in (("old", "judge-3", None), ("plain", "judge-4", None), ("new", "judge-4", "judge_1_5")):
        api.run(golden, model="scripted/echo", judge=f"scripted/{judge}", profile=profile, run_id=run_id, runs_dir=runs_dir)
    scores, rates = api.trend(runs_dir=runs_dir, measure="score"), api.trend(runs_dir=runs_dir)
    assert ([point.run_id for point in scores.points], scores.left_out) == (["new"], {"scored by other rules": 2})
    assert (scores.scored_by, rates.scored_by, len(rates.points)) == ("judge_1_5", "", 3)
    assert rates.notes == ("1 run was judged by others than the newest: old",)
