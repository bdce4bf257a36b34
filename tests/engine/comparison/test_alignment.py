"""Records of two runs side by side: common ones, flips, and what is left out."""

from pathlib import Path

import pytest

from assay import api
from assay.core.errors import UsageProblem
from tests.engine.comparison.compared import ROWS
from tests.engine.comparison.test_run_comparison import compared
from tests.engine.graded_runs import RIGHT, WRONG, graded, passing, question
from tests.engine.run_settings import write_rows


def test_flips_come_with_both_answers_and_losses_first(folder: Path) -> None:
    found = compared(folder, max_flips=None)
    assert [flip.direction for flip in found.flips] == ["worse"] * 6 + ["better"]
    assert (found.flips[0].record_id, found.flips[0].before.answer, found.flips[0].after.answer) == ("q10", RIGHT, WRONG)
    assert found.flips[-1].record_id == "q00"


def test_flips_may_be_limited_and_are_counted_all_the_same(folder: Path) -> None:
    found = compared(folder, max_flips=2)
    assert (len(found.flips), found.n_flips) == (2, 7)


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


def test_runs_without_a_record_in_common_cannot_be_compared(folder: Path) -> None:
    other = [question("elsewhere", prompt="Why?")]
    graded(folder, "other", other, passing(other))
    with pytest.raises(UsageProblem, match="have no record in common"):
        compared(folder, after="other")


def test_names_that_no_record_has_are_said_aloud(folder: Path) -> None:
    notes = compared(folder, cluster="nosuch", slices=("metadata.neither",)).notes
    assert "no compared record has 'nosuch' in its metadata: it makes no clusters" in notes
    assert "no compared record has a value for the slice 'metadata.neither'" in notes
