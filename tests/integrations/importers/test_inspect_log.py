"""Logs of Inspect AI: written by the real tool, into datasets and runs."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from assay import api
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES, brought, predictions_of, rows_of, run_of

PYTHON = os.environ.get("ASSAY_INSPECT_PYTHON", "")
REALDATA = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent")) / "inspect_logs"
ACCURACY = json.loads((FIXTURES / "capitals.json").read_text().replace("NaN", "null"))["results"]["scores"]


def test_samples_become_questions_with_references_once_whatever_the_epochs() -> None:
    rows = rows_of("capitals.eval")
    assert list(rows) == ["capital-fr", "capital-de", "3", "broken", "unscored"]
    assert rows["3"]["reference_answers"] == ["6", "six"]
    assert rows["3"]["metadata"] == {"topic": "geometry"}


def test_choices_and_letters_become_multiple_choice() -> None:
    row = rows_of("letters.eval")["ch"]
    assert row["task_type"] == "mcq"
    assert row["choices"][1] == {"id": "B", "text": "Bern"}
    assert row["correct_choice_ids"] == ["B"]


@pytest.mark.parametrize("name", ["capitals.eval", "capitals.json"])
def test_the_accuracy_of_a_run_is_the_one_that_inspect_computed(name: str) -> None:
    run = run_of(name)
    assert run.result.metrics["score_mean"] == pytest.approx(ACCURACY[0]["metrics"]["accuracy"]["value"])
    assert run.result.metrics["pass_rate"] == pytest.approx(ACCURACY[0]["metrics"]["accuracy"]["value"])


def test_partial_credit_of_another_scorer_gives_the_same_mean_as_in_inspect() -> None:
    run = run_of("capitals.eval", options=("--scorer", "lenient"))
    assert run.result.metrics["score_mean"] == pytest.approx(ACCURACY[1]["metrics"]["accuracy"]["value"])
    assert run.result.counts.evaluated_records == 6


def test_a_sample_with_an_error_and_one_without_a_score_have_no_score() -> None:
    lines = predictions_of(run_of("capitals.eval", options=("--scorer", "lenient")))
    broken, unscored = lines["broken", 0], lines["unscored", 1]
    assert (broken["status"], broken["score"], broken["error_code"]) == ("evaluation_error", None, "sample_error")
    assert "the tool is broken" in broken["error_message"]
    assert (unscored["status"], unscored["score"], unscored["error_code"]) == ("evaluation_error", None, "not_scored")
    assert unscored["model_response"] == "Nobody."


def test_answers_tokens_times_and_the_model_come_along() -> None:
    run = run_of("letters.eval")
    line = predictions_of(run)["ch", 0]
    assert run.result.candidate == "mockllm/model"
    assert (line["model_response"], line["selected_choice_ids"]) == ("ANSWER: C", ["C"])
    assert (line["input_tokens"], line["output_tokens"], line["total_tokens"]) == (11, 7, 18)
    assert line["latency_ms"] > 0
    assert line["first_attempt_at"].startswith("20")


def test_other_scorers_stand_beside_the_grade_without_weight() -> None:
    scores = predictions_of(run_of("capitals.eval"))["capital-de", 1]["evaluator_scores"]
    assert [(score["criterion"], score["score"], score.get("weight", 1.0)) for score in scores] == [
        ("includes", 1.0, 1.0),
        ("lenient", 0.0, 0.0),
        ("shape/is_short", 1.0, 0.0),
    ]


def test_a_scorer_beyond_0_to_1_needs_its_scale() -> None:
    refused = assay("import", str(FIXTURES / "capitals.eval"), "--run", "--scorer", "shape/words")
    assert "give its scale" in refused.output
    run = run_of("capitals.eval", options=("--scorer", "shape/words", "--scale", "0-10"))
    line = predictions_of(run)["capital-fr", 0]
    assert (line["raw_score"], line["score"], line["scale"]) == (4.0, 0.4, "0-10")


def test_what_a_log_has_and_a_run_has_not_is_listed_by_name() -> None:
    left_out = brought("capitals.eval")["report"]["left_out"]
    assert left_out["solver fails_on_broken"] == 1


@pytest.mark.skipif(not PYTHON, reason="ASSAY_INSPECT_PYTHON names no interpreter that has inspect_ai")
def test_logs_that_inspect_writes_now_are_read_like_those_of_the_fixtures(tmp_path: Path) -> None:
    subprocess.run([PYTHON, Path(__file__).parent / "make_inspect.py", tmp_path], check=True, capture_output=True)
    assert run_of(tmp_path / "capitals.eval").result.metrics["score_mean"] == pytest.approx(0.5)
    assert run_of(tmp_path / "letters.eval").result.metrics["pass_rate"] == 0.5


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
@pytest.mark.parametrize("path", sorted(REALDATA.glob("*.*[nl]")), ids=lambda path: path.name)
def test_every_real_log_becomes_a_valid_dataset(path: Path) -> None:
    report = brought(path, options=("-o", "found.json"))["report"]
    assert report["totals"]["emitted"] == report["totals"]["read"]
    accepted = report["records"] == 0 or api.validate("found.json", report["target"]).outcome == "accepted"
    assert accepted


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
@pytest.mark.parametrize("name", ["2025-02-11T15-18-04-05-00_popularity_mj7khqpMM4GBCfVQozKgzB.eval", "log_streaming.eval"])
def test_real_runs_have_the_accuracy_that_inspect_computed(name: str) -> None:
    header = json.loads(read_entry(REALDATA / name, "header.json"))
    accuracy = header["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    assert run_of(REALDATA / name).result.metrics["score_mean"] == pytest.approx(accuracy)


def read_entry(path: Path, name: str) -> bytes:
    from zipfile import ZipFile  # noqa: PLC0415  # the standard library reads these older archives, which are not ours

    with ZipFile(path) as archive:
        return archive.read(name)
