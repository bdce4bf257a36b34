import json
from math import erfc, sqrt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.engine.comparison.run_comparison import RunComparison
from tests.engine.graded_runs import RIGHT, WRONG, graded, passing, question
from tests.engine.run_settings import write_rows

ROWS = [question(f"q{number:02}", source=f"paper-{number // 4}", level="hard" if number % 2 else "easy") for number in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over 40 questions: six right answers turned wrong, one wrong answer right, two stayed wrong."""
    folder = tmp_path_factory.mktemp("compared")
    graded(folder, "before", ROWS, passing(ROWS, 0, 1, 2))
    graded(folder, "after", ROWS, passing(ROWS, 1, 2, 10, 11, 12, 13, 14, 15))
    return folder


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


def test_flips_come_with_both_answers_and_losses_first(folder: Path) -> None:
    found = compared(folder, max_flips=None)
    assert [flip.direction for flip in found.flips] == ["worse"] * 6 + ["better"]
    assert (found.flips[0].record_id, found.flips[0].before.answer, found.flips[0].after.answer) == ("q10", RIGHT, WRONG)
    assert found.flips[-1].record_id == "q00"


def test_flips_may_be_limited_and_are_counted_all_the_same(folder: Path) -> None:
    found = compared(folder, max_flips=2)
    assert (len(found.flips), found.n_flips) == (2, 7)


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


def test_changed_missing_and_added_records_are_listed_and_left_out(tmp_path: Path) -> None:
    graded(tmp_path, "before", ROWS[:10], passing(ROWS[:10]))
    other = [*ROWS[2:9], question("q09", prompt="Is it now?"), question("new")]
    graded(tmp_path, "after", other, passing(other))
    found = compared(tmp_path)
    assert (found.n, found.changed.record_ids, found.missing.record_ids, found.added.record_ids) == (
        7,
        ("q09",),
        ("q00", "q01"),
        ("new",),
    )
    assert (found.before.records, found.after.records) == (10, 9)


def test_records_without_a_grade_in_one_run_are_left_out(folder: Path) -> None:
    write_rows(folder / "law.jsonl", *ROWS)
    api.run(folder / "law.jsonl", model="scripted/fail-invalid_request", run_id="failed", runs_dir=str(folder / "runs"))
    found = compared(folder, after="failed")
    assert (found.n, found.unscored.count, found.passes.value, found.p_passes) == (0, 40, None, None)
    assert "no record was graded in both runs" in found.notes


def test_another_way_of_grading_is_said_aloud(folder: Path) -> None:
    responses = write_rows(
        folder / "same.jsonl", *({"example_id": row["id"], "candidate_name": "big", "response_text": RIGHT} for row in ROWS)
    )
    settings = {"datasets": [{"path": "law.jsonl"}], "run": {"responses": responses.name, "mcq_mode": "any"}}
    (folder / "any.yaml").write_text(json.dumps(settings), encoding="utf-8")
    api.run(folder / "any.yaml", run_id="any", runs_dir=str(folder / "runs"))
    assert "'mcq_mode' differs between the runs" in compared(folder, after="any").notes


def test_runs_without_a_record_in_common_cannot_be_compared(folder: Path) -> None:
    other = [question("elsewhere", prompt="Why?")]
    graded(folder, "other", other, passing(other))
    with pytest.raises(UsageProblem, match="have no record in common"):
        compared(folder, after="other")


def test_names_that_no_record_has_are_said_aloud(folder: Path) -> None:
    notes = compared(folder, cluster="nosuch", slices=("metadata.neither",)).notes
    assert "no compared record has 'nosuch' in its metadata: it makes no clusters" in notes
    assert "no compared record has a value for the slice 'metadata.neither'" in notes


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


def test_a_kept_comparison_says_the_same_without_a_word_of_an_answer(folder: Path) -> None:
    assert api.kept_comparison("before", "after", runs_dir=folder / "runs", cluster="source") is None
    api.keep_comparison("before", "after", runs_dir=folder / "runs", cluster="source")
    kept = api.kept_comparison("before", "after", runs_dir=folder / "runs", cluster="source")
    whole = compared(folder, cluster="source", max_flips=None)
    assert kept is not None
    assert kept.comparison == msgspec.structs.replace(whole, flips=())
    assert api.read_flips(kept.flips, before="before", after="after", runs_dir=folder / "runs") == whole.flips


def test_flips_of_a_kept_comparison_are_read_from_their_places(folder: Path) -> None:
    api.keep_comparison("before", "after", runs_dir=folder / "runs")
    kept = api.kept_comparison("before", "after", runs_dir=folder / "runs")
    assert kept is not None
    flips = api.read_flips(kept.flips[5:7], before="before", after="after", runs_dir=folder / "runs")
    assert [flip.record_id for flip in flips] == ["q15", "q00"]


def test_a_damaged_kept_comparison_is_made_anew(folder: Path) -> None:
    api.keep_comparison("after", "before", runs_dir=folder / "runs")
    for path in (folder / "runs" / ".compared").iterdir():
        path.write_bytes(b'{"comparison": 1')
    assert api.kept_comparison("after", "before", runs_dir=folder / "runs") is None
    api.keep_comparison("after", "before", runs_dir=folder / "runs")
    assert api.kept_comparison("after", "before", runs_dir=folder / "runs") is not None
