"""Rankings from comparisons made by hand."""

from typing import Any

import numpy as np
import pytest

from assay.metrics.ranking import ComparisonCounts, PairwiseComparison, PairwiseFigures, PairwiseVote, Result, rank
from tests.metrics.documents import as_written

NAMES = ("ada", "bob", "cyd")


def meeting(
    result: Result | None, first: int = 0, second: int = 1, *, record: str = "q", votes: tuple[PairwiseVote, ...] = ()
) -> PairwiseComparison:
    return PairwiseComparison(first=first, second=second, cluster=record, result=result, votes=votes)


def ranking(*meetings: PairwiseComparison, names: tuple[str, ...] = NAMES[:2]) -> dict[str, Any]:
    figures = PairwiseFigures(names)
    for one in meetings:
        figures.add(one)
    found: dict[str, Any] = as_written(figures.summary())
    return found


def several(**counts: int) -> list[PairwiseComparison]:
    """So many comparisons of each result, each of a record of its own."""
    results = [result for result, count in counts.items() for _ in range(count)]
    return [meeting(None if result == "unscored" else result, record=str(n)) for n, result in enumerate(results)]  # type: ignore[arg-type]


def test_every_comparison_is_counted_once_by_how_it_ended() -> None:
    found = ranking(*several(first=6, second=3, tie=2, inconsistent=4, unscored=1))
    (pair,) = found["pairs"]
    counts = {name: pair[name] for name in ("n", "first_wins", "second_wins", "ties", "inconsistent", "unscored")}
    assert counts == {"n": 15, "first_wins": 6, "second_wins": 3, "ties": 2, "inconsistent": 4, "unscored": 1}
    ada, bob = found["candidates"]
    assert (ada["name"], ada["wins"], ada["losses"], ada["ties"], ada["inconsistent"], ada["unscored"]) == ("ada", 6, 3, 2, 4, 1)
    assert (bob["wins"], bob["losses"]) == (3, 6)
    assert (found["n_comparisons"], found["n_unscored"]) == (15, 1)


def test_strengths_are_those_of_the_model_with_half_a_win_where_nobody_won() -> None:
    found = ranking(*several(first=6, second=3, tie=2, inconsistent=4))
    outcomes = np.array([1.0] * 6 + [0.0] * 3 + [0.5] * 6)
    places = np.zeros(15, dtype=np.int64), np.ones(15, dtype=np.int64)
    expected = rank(NAMES[:2], ComparisonCounts(*places, outcomes), clusters=np.arange(15))
    assert [one["strength"] for one in found["candidates"]] == [one.strength.to_json() for one in expected.candidates]
    assert found["pairs"][0]["first_share"]["value"] == pytest.approx(0.6)


def test_comparisons_of_one_record_hang_together() -> None:
    apart = ranking(*several(first=12, second=6))
    together = ranking(*(meeting("first" if n % 6 < 4 else "second", record=str(n % 6)) for n in range(18)))
    widths = [found["candidates"][0]["strength"]["interval"] for found in (apart, together)]
    assert (apart["n_clusters"], together["n_clusters"]) == (18, 6)
    assert widths[1]["high"] - widths[1]["low"] > widths[0]["high"] - widths[0]["low"]


def test_without_a_win_nobody_is_ranked() -> None:
    found = ranking(*several(tie=3, inconsistent=5))
    assert found["reason"] == "no candidate won a comparison in both orders, so nothing orders the candidates"
    assert [(one["name"], one["strength"], one["wins"]) for one in found["candidates"]] == [("ada", None, 0), ("bob", None, 0)]


def test_without_a_result_there_is_no_ranking_and_no_tie() -> None:
    found = ranking(*several(unscored=3))
    assert (found["reason"], found["n_comparisons"], found["n_unscored"]) == ("no comparison came to a result", 0, 3)
    assert found["candidates"][0]["ties"] == 0


def test_candidates_that_never_met_are_not_ordered() -> None:
    names = (*NAMES, "dan")
    found = ranking(meeting("first", 0, 1), meeting("second", 2, 3), names=names)
    assert found["reason"] == "these groups of candidates never met, so nothing orders them: ada, bob; cyd, dan"


def test_three_candidates_are_ranked_by_all_their_comparisons() -> None:
    records = [str(number) for number in range(8)]
    meetings = [
        meeting("first" if record != "7" else "second", *pair, record=record) for record in records for pair in ((0, 1), (1, 2))
    ]
    found = ranking(*meetings, names=NAMES)
    assert [one["name"] for one in found["candidates"]] == ["ada", "bob", "cyd"]
    assert [(pair["first"], pair["second"], pair["n"]) for pair in found["pairs"]] == [
        ("ada", "bob", 8),
        ("ada", "cyd", 0),
        ("bob", "cyd", 8),
    ]
    share = found["pairs"][1]["first_share"]
    assert share == {"value": None, "interval": None, "standard_error": None, "n": 0, "reason": "there is no comparison"}


def test_a_judge_that_goes_by_places_is_found_out_with_the_place_it_prefers() -> None:
    said = [PairwiseVote("judge", 1.0, 0.0)] * 3 + [PairwiseVote("judge", 0.0, 1.0)] + [PairwiseVote("judge", 1.0, 1.0)] * 4
    found = ranking(*(meeting("first", record=str(number), votes=(vote,)) for number, vote in enumerate(said)))
    (bias,) = found["position_bias"]
    assert (bias["n"], bias["n_inconsistent"], bias["n_first_place"], bias["n_second_place"]) == (8, 4, 3, 1)
    assert bias["rate"]["value"] == 0.5
    assert (bias["rate"]["interval"]["method"], bias["rate"]["interval"]["n"]) == ("wilson", 8)
