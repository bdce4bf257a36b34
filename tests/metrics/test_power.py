from math import comb

import numpy as np
import pytest

from assay.metrics.paired import FlipCounts, chance_to_show, decide, detectable_effect, paired_difference, required_records


def flips(better: int, worse: int, n: int, *, units: int | None = None) -> FlipCounts:
    return FlipCounts(better=better, worse=worse, n=n, units=units or n)


def shown(better: int, worse: int, n: int) -> bool:
    before = np.repeat([0.0, 1.0, 0.0], [better, worse, n - better - worse])
    after = np.repeat([1.0, 0.0, 0.0], [better, worse, n - better - worse])
    return decide(paired_difference(before, after).interval) == "improved"


@pytest.mark.parametrize(("gain", "loss", "n"), [(0.3, 0.05, 20), (0.9, 0.05, 6), (0.4, 0.0, 12), (0.5, 0.5, 10)])
def test_the_chance_to_show_is_that_of_every_outcome_whose_interval_leaves_out_0(gain: float, loss: float, n: int) -> None:
    expected = sum(
        comb(n, better) * comb(n - better, worse) * gain**better * loss**worse * (1 - gain - loss) ** (n - better - worse)
        for better in range(n + 1)
        for worse in range(n - better + 1)
        if shown(better, worse, n)
    )
    assert chance_to_show(gain, loss, n=n) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("share", "effect"), [(0.1, 0.016), (0.3, 0.03), (0.9, 0.09)])
def test_many_flips_need_not_be_counted_out(share: float, effect: float) -> None:
    gain, loss = (share + effect) / 2, (share - effect) / 2
    below, above = (chance_to_show(gain, loss, n=round(expected / share)) for expected in (298, 302))
    assert above == pytest.approx(below, abs=0.015)


@pytest.mark.parametrize("seen", [flips(0, 0, 20), flips(2, 2, 20), flips(10, 5, 100), flips(30, 20, 1000)])
def test_the_detectable_effect_is_the_smallest_that_is_shown_in_four_of_five_cases(seen: FlipCounts) -> None:
    found = detectable_effect(seen)
    assert found is not None
    every = max(found, sum(seen.shares))
    n = int(seen.n)
    assert chance_to_show((every + found) / 2, (every - found) / 2, n=n) == pytest.approx(0.8, abs=0.001)


@pytest.mark.parametrize("seen", [flips(5, 1, 6), flips(0, 5, 20), flips(10, 5, 100), flips(6, 8, 500)])
def test_the_required_records_are_the_fewest_that_suffice(seen: FlipCounts) -> None:
    found, share, effect = required_records(seen), sum(seen.shares), abs(seen.better - seen.worse) / seen.n
    assert found is not None
    gain, loss = (share + effect) / 2, (share - effect) / 2
    assert chance_to_show(gain, loss, n=found) >= 0.8 > chance_to_show(gain, loss, n=found - 1)


def test_clusters_that_are_worth_fewer_records_take_as_many_more() -> None:
    alone, together = required_records(flips(30, 15, 300)), required_records(flips(30, 15, 300, units=100))
    assert alone is not None
    assert together is not None
    assert together == pytest.approx(alone / 3, rel=0.05)


def test_nothing_to_show_and_nothing_to_show_it_with_are_undefined() -> None:
    assert (detectable_effect(flips(0, 0, 3)), detectable_effect(flips(0, 0, 0)), required_records(flips(3, 3, 9))) == (None,) * 3


def test_huge_runs_are_planned_for_without_counting_flips_out() -> None:
    found = required_records(flips(1, 0, 400_000))
    assert found is not None
    assert found > 1_000_000
