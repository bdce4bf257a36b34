"""Sheets for people: a sample to label, filled in and read back."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import UsageProblem
from tests.engine.graded_runs import CORRECT, answering, judged, open_question
from tests.engine.judge_quality.test_calibration import ROWS, WRONG, calibrated, half_judged, label, said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over 300 questions whose answers a judge graded."""
    folder = tmp_path_factory.mktemp("calibrated")
    judged(folder, "judged", ROWS, answering(ROWS, *WRONG))
    return folder


def test_no_more_labels_are_asked_for_than_the_run_has_answers(folder: Path) -> None:
    found = calibrated(folder, said(lambda number, judged: judged ^ (number % 3 == 0), range(200)), "many")
    assert (found.mean_passes.corrected.interval is not None, found.mean_passes.labels_to_halve) == (True, None)
    assert "labelling all 300 answers would not halve the interval of a corrected figure" in found.notes


def test_a_refusal_says_when_the_run_has_too_few_answers(folder: Path) -> None:
    labels = said(lambda number, judged: judged ^ (number % 17 < 8), range(200))
    found = calibrated(folder, labels, "coin").pass_rate
    assert (found.labels_needed or 0) > 300
    assert found.corrected.reason.endswith(", and the run has 300 answers")


def test_a_sample_has_the_proportions_of_the_datasets_and_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    datasets = [("big", number) for number in range(30)] + [("small", number) for number in range(10)]
    rows = [{**open_question(f"{name}{number}"), "dataset": name} for name, number in datasets]
    judged(tmp_path, "mixed", rows, answering(rows))
    first, second = (api.label_sample("mixed", 12, runs_dir=tmp_path / "runs", seed=3) for _ in range(2))
    assert Counter(row["dataset"] for row in first.rows) == {"big": 9, "small": 3}
    assert first == second


def test_a_sample_hides_what_the_judge_said_unless_it_is_asked_for(folder: Path) -> None:
    hidden = api.label_sample("judged", 1, runs_dir=folder / "runs").rows[0]
    shown = api.label_sample("judged", 1, runs_dir=folder / "runs", shows_judge=True).rows[0]
    assert ("judge_passed" in hidden, "judge_passed" in shown) == (False, True)
    assert (hidden["reference"], hidden["passed"]) == (CORRECT, None)


def test_a_sample_to_label_has_only_answers_that_a_judge_graded(tmp_path: Path) -> None:
    runs = half_judged(tmp_path)
    sample = api.label_sample("half", 8, runs_dir=runs)
    assert sorted(row["record_id"] for row in sample.rows) == ["j0", "j1", "j2", "j3"]


@pytest.mark.parametrize("is_csv", [True, False])
def test_a_sample_that_was_filled_in_is_read_back(folder: Path, is_csv: bool) -> None:  # noqa: FBT001
    text = api.label_text(api.label_sample("judged", 40, runs_dir=folder / "runs"), is_csv=is_csv)
    rows: list[dict[str, Any]] = list(csv.DictReader(text.splitlines())) if is_csv else list(map(json.loads, text.splitlines()))
    filled = [label(int(row["record_id"][1:]), passed=int(row["record_id"][1:]) not in WRONG) for row in rows]
    found = calibrated(folder, filled, f"filled-{is_csv}")
    assert (found.n_records, found.agreement.value) == (40, 1.0)


def test_a_sheet_that_nobody_filled_in_says_so(folder: Path) -> None:
    path = folder / "empty.csv"
    path.write_text(api.label_text(api.label_sample("judged", 4, runs_dir=folder / "runs"), is_csv=True), encoding="utf-8")
    with pytest.raises(UsageProblem, match="none of the 4 rows"):
        api.calibrate("judged", path, runs_dir=folder / "runs")
