"""Comparisons that are kept: no text of an answer, and made anew when damaged."""

from pathlib import Path

import msgspec

from assay import api
from tests.engine.comparison.test_run_comparison import compared


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
