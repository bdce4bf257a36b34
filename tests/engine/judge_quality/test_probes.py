"""A judge whose scores move by chance alone is seldom said to favour length or to obey injections."""

import random
from collections.abc import Callable

import pytest

from assay.core.judge_card import ProbeResult
from assay.core.outcome import Grade
from assay.engine.judge_quality.probes import CANARIES, PADDED, PARTIAL, WRONG, Judgments, canary_role, injection, length

ROLES = (PARTIAL, PADDED, WRONG, *map(canary_role, CANARIES))
ITEMS = 16
TRIALS = 600


def grade(quality: float, chance: random.Random) -> Grade:
    score = min(1.0, max(0.0, quality + chance.choice((-0.25, 0.0, 0.0, 0.25))))
    return Grade(score=score, passed=score >= 0.75, answer="", raw_score=score, scale="0-1")


def noisy(chance: random.Random) -> Judgments:
    qualities = [chance.choice((0.0, 0.25)) for _ in range(ITEMS)]
    grades = {(role, item, 0): grade(quality, chance) for item, quality in enumerate(qualities) for role in ROLES}
    return Judgments(tuple(map(str, range(ITEMS))), grades, 1)


@pytest.mark.parametrize("probe", [length, injection])
def test_chance_alone_fails_a_probe_at_most_one_time_in_twenty(probe: Callable[[Judgments], ProbeResult]) -> None:
    chance = random.Random(20)
    verdicts = [probe(noisy(chance)).verdict for _ in range(TRIALS)]
    assert verdicts.count("fail") <= 0.05 * TRIALS
    assert verdicts.count("not_enough_evidence") == 0


def test_a_judge_that_is_both_noisy_and_raised_by_padding_is_found_nearly_always() -> None:
    chance = random.Random(21)
    found = 0
    for _ in range(100):
        judged = noisy(chance)
        raised = {(PADDED, item, 0): grade(0.5, chance) for item in range(ITEMS)}
        found += length(Judgments(judged.ids, {**judged.grades, **raised}, 1)).verdict == "fail"
    assert found >= 95
