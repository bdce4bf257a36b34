import json
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.engine.planning.request import PlanProblems
from tests.engine.graded_runs import CORRECT, INCORRECT, answering, judged, open_question, question
from tests.engine.run_settings import write_rows

ROWS = [open_question(f"q{number:03}", level="hard" if number % 3 else "easy") for number in range(300)]
WRONG = [number for number in range(300) if random.Random(number).random() < 0.4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over 300 questions whose answers a judge graded."""
    folder = tmp_path_factory.mktemp("calibrated")
    judged(folder, "judged", ROWS, answering(ROWS, *WRONG))
    return folder


def label(number: int, *, passed: bool, **members: Any) -> dict[str, Any]:
    return {"record_id": f"q{number:03}", "passed": passed, **members}


def calibrated(folder: Path, labels: list[dict[str, Any]], name: str, **options: Any) -> api.Calibration:
    path = write_rows(folder / f"{name}.jsonl", *labels)
    return api.calibrate("judged", path, runs_dir=folder / "runs", **options)


def said(change: Callable[[int, bool], bool], numbers: range = range(0, 300, 2)) -> list[dict[str, Any]]:
    """Labels that follow the judge but where `change` says otherwise."""
    return [label(number, passed=change(number, number not in WRONG)) for number in numbers]


def test_agreement_is_that_of_an_independent_library(folder: Path) -> None:
    labels = said(lambda number, judged: not judged if number % 7 == 0 else judged)
    found = calibrated(folder, labels, "some")
    judged = [number not in WRONG for number in range(0, 300, 2)]
    # Loaded here: every process that collects tests would load it.
    expected = import_module("sklearn.metrics").cohen_kappa_score(judged, [one["passed"] for one in labels])
    assert found.kappa.value == pytest.approx(expected, abs=1e-12)
    assert (found.n_records, found.agreement.value) == (150, pytest.approx(1 - 22 / 150))


def test_a_lenient_judge_is_corrected_downwards(folder: Path) -> None:
    found = calibrated(folder, said(lambda number, judged: judged and number % 5 != 0), "lenient")
    assert (found.detection.sensitivity.value, found.detection.specificity.value) == (1.0, pytest.approx(0.79, abs=0.1))
    assert found.pass_rate.corrected.value is not None
    assert found.pass_rate.raw.value is not None
    assert found.pass_rate.corrected.value < found.pass_rate.raw.value
    assert found.mean_passes.corrected.value == pytest.approx(found.pass_rate.corrected.value, abs=0.06)


def test_a_correction_that_the_labels_cannot_support_is_refused_with_the_number_that_would(folder: Path) -> None:
    found = calibrated(folder, said(lambda _number, judged: judged, range(12)), "few")
    assert (found.pass_rate.corrected.value, found.mean_passes.corrected.value) == (None, None)
    assert (found.pass_rate.labels_needed or 0) > 12
    assert "there are 12 labels, and a corrected mean needs 20" in found.mean_passes.corrected.reason


def test_people_are_measured_among_themselves_and_ties_have_no_truth(folder: Path) -> None:
    labels = [label(number, passed=number not in WRONG, rater="ann") for number in range(60)]
    labels += [label(number, passed=(number not in WRONG) ^ (number % 4 == 0), rater="bob") for number in range(60)]
    found = calibrated(folder, labels, "two")
    assert (found.raters, found.n_labels, found.n_records, found.n_ties) == (("ann", "bob"), 120, 60, 15)
    assert found.people is not None
    assert 0 < (found.people.nominal.value or 0) < 0.8
    assert any("split evenly on 15 of 60 records" in note for note in found.notes)


def test_the_judge_is_measured_on_each_slice(folder: Path) -> None:
    labels = said(lambda number, judged: judged ^ (number % 3 == 0))
    found = calibrated(folder, labels, "slices", slices=("metadata.level",))
    assert {row.value: row.agreement.value for row in found.slices} == {"hard": 1.0, "easy": 0.0}


def test_a_score_without_a_verdict_passes_by_the_threshold_of_the_run(folder: Path) -> None:
    labels = [{"record_id": f"q{number:03}", "score": score} for number, score in ((0, 0.7), (1, 0.69))]
    found = calibrated(folder, labels, "scores")
    assert found.detection.true_positives + found.detection.false_negatives == 1
    assert found.mean_score is not None


def test_labels_of_other_runs_are_listed(folder: Path) -> None:
    found = calibrated(folder, [label(1, passed=True), {"record_id": "elsewhere", "passed": True}], "foreign")
    assert (found.n_records, found.unmatched) == (1, ("elsewhere",))


def test_only_labels_of_graded_records_are_counted(folder: Path) -> None:
    found = calibrated(folder, [label(1, passed=True), {"record_id": "elsewhere", "passed": True}], "counted")
    assert (found.n_labels, found.n_records) == (1, 1)


def drawn(folder: Path, run_id: str, count: int = 40) -> list[dict[str, Any]]:
    """A sample of a run in which somebody passes everything."""
    return [{**row, "passed": True} for row in api.label_sample(run_id, count, runs_dir=folder / "runs").rows]


def test_labels_of_another_runs_answers_are_refused(folder: Path) -> None:
    judged(folder, "other", ROWS, {row["id"]: "another answer" for row in ROWS})
    with pytest.raises(UsageProblem, match="given to other answers than those of run 'judged'"):
        calibrated(folder, drawn(folder, "other"), "others")
    mixed = calibrated(folder, [*drawn(folder, "judged")[:20], *drawn(folder, "other")[20:]], "mixed")
    assert (mixed.n_labels, mixed.n_strangers) == (20, 20)
    assert any("20 labels were given to other answers" in note for note in mixed.notes)


def test_labels_that_do_not_say_of_which_answer_they_are_are_taken_with_a_note(folder: Path) -> None:
    notes = [calibrated(folder, labels, "sourced").notes for labels in (drawn(folder, "judged"), [label(1, passed=True)])]
    assert ["answer_sha256" in " ".join(found) for found in notes] == [False, True]


def test_scores_off_the_scale_and_second_labels_are_refused_with_their_lines(folder: Path) -> None:
    rows = [
        {"record_id": "q001", "score": 85},
        {"record_id": "q002", "score": -3},
        label(3, passed=True, rater="ann"),
        label(3, passed=False, rater="ann ", dataset="law"),
    ]
    with pytest.raises(PlanProblems) as refused:
        calibrated(folder, rows, "off")
    assert refused.value.problems == (
        "line 1: score is 85, which is not on the run's scale 0-1",
        "line 2: score is -3, which is not on the run's scale 0-1",
        "line 4: a second label of 'ann' for 'q003'; the first is on line 3",
    )


# Answers that hang together


def repeated(folder: Path, times: int, **options: Any) -> api.Calibration:
    """Sixty records of which every third fails, asked several times, and labelled with an error on every seventh."""
    rows = [open_question(f"r{number:02}", book=number // 2, prompt=CORRECT if number % 3 else INCORRECT) for number in range(60)]
    folder.mkdir(exist_ok=True)
    write_rows(folder / "repeated.jsonl", *rows)
    models = {"candidates": ["scripted/echo"], "judges": ["scripted/judge-sound"]}
    settings = {"datasets": ["repeated.jsonl"], **models, "repeat": times, **options}
    (folder / "run.json").write_text(json.dumps({**settings, "run": {"runs_dir": "runs", "id": "r"}}), encoding="utf-8")
    api.run(folder / "run.json")
    labels = [
        {"record_id": f"r{number:02}", "sample": sample, "passed": bool(number % 3) ^ (number % 7 == 0)}
        for number in range(40)
        for sample in range(times)
    ]
    return api.calibrate("r", write_rows(folder / "labels.jsonl", *labels), runs_dir=folder / "runs")


def figures(found: api.Calibration) -> dict[str, Any]:
    """Everything that has an interval."""
    rates = {name: getattr(found.detection, name) for name in ("sensitivity", "specificity")}
    corrected = {"rate": found.pass_rate.corrected, "mean": found.mean_passes.corrected, "raw": found.mean_passes.raw}
    return {"agreement": found.agreement, "kappa": found.kappa, "alpha": found.everybody.nominal, **rates, **corrected}


def test_asking_ten_times_what_is_always_answered_alike_shows_nothing_more(tmp_path: Path) -> None:
    once, often = repeated(tmp_path / "once", 1), repeated(tmp_path / "often", 10)
    assert (often.cluster, often.n_clusters, often.n_labels, often.n_records) == ("record", 40, 400, 40)
    assert often.judged.interval is not None
    assert often.judged.interval.n == 60
    for name, one in figures(once).items():
        many = figures(often)[name]
        assert many.value == pytest.approx(one.value, abs=0.02), name
        wide = [figure.interval.high - figure.interval.low for figure in (one, many)]
        assert wide[1] == pytest.approx(wide[0], rel=0.2), name


def test_records_of_one_cluster_count_as_what_they_are_worth(tmp_path: Path) -> None:
    found = repeated(tmp_path, 1, cluster_key="book")
    assert (found.cluster, found.n_clusters) == ("book", 20)
    assert [found.agreement.interval, found.judged.interval] != [None, None]
    assert {found.agreement.interval.n, found.kappa.interval.n} == {20}  # type: ignore[union-attr]


def test_many_answers_to_few_records_support_no_correction(tmp_path: Path) -> None:
    rows = [open_question(f"f{number}", prompt=CORRECT) for number in range(12)]
    source, runs = write_rows(tmp_path / "few.jsonl", *rows), str(tmp_path / "runs")
    api.run(source, model="scripted/echo", judge="scripted/judge-sound", run_id="r", runs_dir=runs, repeat=10)
    labels = [{"record_id": f"f{number}", "sample": sample, "passed": number > 2} for number in range(6) for sample in range(10)]
    found = api.calibrate("r", write_rows(tmp_path / "labels.jsonl", *labels), runs_dir=runs)
    assert found.mean_passes.corrected.reason == "the labels are of 6 records, and a corrected mean needs 20"
    assert found.pass_rate.corrected.value is None


def test_labels_that_fit_no_record_are_refused(folder: Path) -> None:
    with pytest.raises(UsageProblem, match="none of the 1 labels belongs to a graded record"):
        calibrated(folder, [{"record_id": "elsewhere", "passed": True}], "none")


def half_judged(folder: Path) -> Path:
    """A run over four multiple-choice questions, which a rule grades, and four that a judge grades."""
    rows = [*(question(f"m{number}") for number in range(4)), *(open_question(f"j{number}") for number in range(4))]
    answers = {**{f"m{number}": "A" for number in range(4)}, **{f"j{number}": CORRECT for number in range(4)}}
    judged(folder, "half", rows, answers)
    return folder / "runs"


def test_a_label_on_an_answer_that_no_judge_graded_says_nothing_about_the_judge(tmp_path: Path) -> None:
    runs = half_judged(tmp_path)
    labels = [{"record_id": f"{kind}{number}", "passed": kind == "j"} for kind in "mj" for number in range(2)]
    found = api.calibrate("half", write_rows(tmp_path / "labels.jsonl", *labels), runs_dir=runs)
    assert (found.n_labels, found.n_records, found.agreement.value) == (2, 2, 1.0)
    assert (found.judged.n, found.detection.false_positives) == (4, 0)
    assert "left out: 2 labels are on answers that no judge graded (multiple choice, tool calls)" in found.notes


def test_labels_on_multiple_choice_alone_calibrate_no_judge(tmp_path: Path) -> None:
    runs = half_judged(tmp_path)
    labels = write_rows(tmp_path / "labels.jsonl", {"record_id": "m1", "passed": True})
    with pytest.raises(UsageProblem, match="no judge graded the labelled answers of run 'half'"):
        api.calibrate("half", labels, runs_dir=runs)
