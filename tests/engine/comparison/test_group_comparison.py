"""Several runs compared in pairs."""

from pathlib import Path

import pytest

from assay import api
from assay.core.errors import UsageProblem
from tests.engine.graded_runs import graded, group, passing, question

ROWS = [question(f"q-{number}") for number in range(30)]
FAILING = {"big": range(2), "middle": range(12), "small": range(20)}


def opened(folder: Path, name: str) -> api.RunGroup:
    return api.open_group(name, runs_dir=folder / "runs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    group(tmp_path, "night", ROWS, {name: passing(ROWS, *places) for name, places in FAILING.items()})
    return tmp_path


def test_every_pair_is_compared_and_p_is_raised_for_their_number(folder: Path) -> None:
    found = api.compare_runs(opened(folder, "night"))
    sides = [(pair.comparison.before.candidate, pair.comparison.after.candidate) for pair in found.pairs]
    assert sides == [("big", "middle"), ("big", "small"), ("middle", "small")]
    plain = [pair.comparison.p_passes or 0 for pair in found.pairs]
    # Holm: the smallest three times, the next twice, the largest as it is, none below the one before it.
    order = sorted(range(3), key=plain.__getitem__)
    expected, highest = [0.0] * 3, 0.0
    for factor, place in zip((3, 2, 1), order, strict=True):
        highest = expected[place] = max(highest, min(1.0, factor * plain[place]))
    assert [pair.p_passes_adjusted for pair in found.pairs] == pytest.approx(expected)
    assert all((pair.p_passes_adjusted or 0) >= p for pair, p in zip(found.pairs, plain, strict=True))


def test_the_document_names_the_correction(folder: Path) -> None:
    found = api.compare_runs(opened(folder, "night")).to_dict()
    assert (found["group"], found["correction"], len(found["pairs"]), found["skipped"]) == ("night", "holm", 3, [])
    first = found["pairs"][0]
    assert (first["before"]["run_id"], first["after"]["run_id"], first["n"]) == ("night-big", "night-middle", 30)
    assert {"p_passes", "p_passes_adjusted", "p_scores_adjusted"} <= first.keys()


def test_two_groups_are_compared_by_candidate(folder: Path) -> None:
    group(folder, "later", ROWS, {name: passing(ROWS) for name in ("big", "small", "new")})
    found = api.compare_runs(opened(folder, "night"), opened(folder, "later"))
    ids = [(pair.comparison.before.run_id, pair.comparison.after.run_id) for pair in found.pairs]
    assert ids == [("night-big", "later-big"), ("night-small", "later-small")]
    assert found.title == "night → later"


def test_a_run_is_compared_with_each_of_a_group(folder: Path) -> None:
    graded(folder, "alone", ROWS, passing(ROWS, 0))
    found = api.compare_runs(opened(folder, "alone"), opened(folder, "night"))
    assert [pair.comparison.after.candidate for pair in found.pairs] == ["big", "middle", "small"]
    # The run itself is not compared with itself.
    within = api.compare_runs(opened(folder, "night-big"), opened(folder, "night"))
    assert [pair.comparison.after.candidate for pair in within.pairs] == ["middle", "small"]


def test_groups_without_a_common_candidate_cannot_be_paired(folder: Path) -> None:
    group(folder, "later", ROWS, {name: passing(ROWS) for name in ("x", "y")})
    with pytest.raises(UsageProblem, match="no candidate in common: big, middle, small, and x, y"):
        api.compare_runs(opened(folder, "night"), opened(folder, "later"))


def test_a_pair_without_a_common_record_is_named_and_left_out(tmp_path: Path) -> None:
    others = [question(f"r-{number}") for number in range(3)]
    for run_id, rows in (("a", ROWS), ("b", ROWS), ("c", others)):
        graded(tmp_path, run_id, rows, passing(rows), group="night")
    found = api.compare_runs(opened(tmp_path, "night"))
    assert [(pair.comparison.before.run_id, pair.comparison.after.run_id) for pair in found.pairs] == [("a", "b")]
    assert found.skipped == (
        "runs 'a' and 'c' have no record in common",
        "runs 'b' and 'c' have no record in common",
    )
    with pytest.raises(UsageProblem, match="no record in common"):
        api.compare_runs(opened(tmp_path, "a"), opened(tmp_path, "c"))


def test_one_run_is_no_comparison(folder: Path) -> None:
    with pytest.raises(UsageProblem, match="'night-big' names no two different runs"):
        api.compare_runs(opened(folder, "night-big"))
