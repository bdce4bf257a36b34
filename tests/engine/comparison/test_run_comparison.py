import json
from math import erfc, sqrt
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.engine.comparison.run_comparison import RunComparison
from tests.engine.comparison.compared import ROWS
from tests.engine.graded_runs import RIGHT, graded, passing, question
from tests.engine.run_settings import write_rows


def compared(folder: Path, before: str = "before", after: str = "after", **options: Any) -> RunComparison:
    return api.compare(before, after, runs_dir=folder / "runs", **options)


def test_the_difference_is_that_of_the_same_records(folder: Path) -> None:
    found = compared(folder)
    assert (found.n, found.before.pass_rate, found.after.pass_rate) == (40, 37 / 40, 32 / 40)
    assert found.passes.value == pytest.approx(-5 / 40)
    assert (found.both_passed, found.both_failed, found.mcnemar.better, found.mcnemar.worse) == (31, 2, 1, 6)


def test_mcnemars_exact_p_stands_beside_the_one_of_the_interval(folder: Path) -> None:
    # Of seven flips one went the other way: 2 * (1 + 7) / 2**7, and 5 of their standard deviation, which is the root of 7.
    found = compared(folder)
    assert found.mcnemar.p_value == pytest.approx(16 / 128)
    assert found.p_passes == pytest.approx(erfc(5 / sqrt(7) / sqrt(2)))


def test_the_other_way_round_everything_changes_its_sign(folder: Path) -> None:
    found, turned = compared(folder), compared(folder, "after", "before")
    assert turned.passes.value == pytest.approx(-(found.passes.value or 0))
    assert (turned.p_passes, turned.p_scores) == (pytest.approx(found.p_passes), pytest.approx(found.p_scores))
    assert (turned.mcnemar.better, turned.mcnemar.worse) == (6, 1)


def test_a_run_compared_with_itself_shows_no_difference(folder: Path) -> None:
    found = compared(folder, "before", "before")
    assert (found.passes.value, found.scores.value, found.p_passes, found.p_scores, found.n_flips) == (0, 0, 1, 1, 0)
    assert found.required_records is None


def test_p_of_slices_is_raised_for_their_number(folder: Path) -> None:
    found = compared(folder, slices=("metadata.level",))
    by_value = {row.value: row for row in found.slices}
    assert {row.n for row in found.slices} == {20}
    # Three losses and no gain.
    assert by_value["hard"].p_value == pytest.approx(erfc(sqrt(3) / sqrt(2)))
    assert by_value["hard"].p_adjusted == pytest.approx(2 * erfc(sqrt(3) / sqrt(2)))


def test_slices_of_ones_own_choice_are_compared(folder: Path) -> None:
    found = compared(folder, slices=("metadata.source",))
    assert (len(found.slices), {row.slice for row in found.slices}) == (10, {"metadata.source"})


def test_records_of_a_cluster_count_together(folder: Path) -> None:
    alone, together = compared(folder), compared(folder, cluster="source")
    assert (alone.n_clusters, together.n_clusters, together.cluster) == (None, 10, "source")
    assert together.passes.interval is not None
    assert together.passes.interval.method == "tango_cluster"
    assert together.passes.value == pytest.approx(alone.passes.value)


def test_another_way_of_grading_is_said_aloud(folder: Path) -> None:
    responses = write_rows(
        folder / "same.jsonl", *({"example_id": row["id"], "candidate_name": "big", "response_text": RIGHT} for row in ROWS)
    )
    settings = {"datasets": [{"path": "law.jsonl"}], "run": {"responses": responses.name, "mcq_mode": "any"}}
    (folder / "any.yaml").write_text(json.dumps(settings), encoding="utf-8")
    api.run(folder / "any.yaml", run_id="any", runs_dir=str(folder / "runs"))
    assert "'mcq_mode' differs between the runs" in compared(folder, after="any").notes


def test_runs_with_the_same_profile_are_compared_by_its_scores(tmp_path: Path) -> None:
    for name, wrong in (("before", (0, 1)), ("after", (0,))):
        graded(tmp_path, name, ROWS, passing(ROWS, *wrong), profile="lexam_mcq")
    found = compared(tmp_path)
    assert (found.scale, found.before.mean, found.after.mean) == ("lexam_mcq", pytest.approx(0.95), pytest.approx(0.975))


def test_samples_of_a_record_hang_together_whether_or_not_it_has_the_key(tmp_path: Path) -> None:
    rows = [question(f"r{number}", **({"doc": "x"} if number < 2 else {})) for number in range(6)]
    path = write_rows(tmp_path / "law.jsonl", *rows)
    for name in ("one", "two"):
        api.run(path, model="scripted/mcq-any", repeat=3, run_id=name, runs_dir=str(tmp_path / "runs"))
    assert compared(tmp_path, "one", "two", cluster="doc").n_clusters == 5
