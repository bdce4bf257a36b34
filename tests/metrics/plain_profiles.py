"""The rules of the benchmarks once more, slowly and exactly, written from their formulas and not from the product."""

from fractions import Fraction
from random import Random
from statistics import median

Criterion = tuple[float | None, float | None]
"""Weight and verdict; None where a record names no weight, or nobody gave a verdict."""
Answer = list[Criterion] | None
"""None for an answer that nobody could judge."""
Benchmark = list[list[Answer]]
"""The answers to each record."""

SCALES = {"judge_1_5": (1.0, 2.0, 3.0, 4.0, 5.0), "lexam_open": tuple(step / 10 for step in range(11))}
"""Verdicts of the profiles whose verdicts are not 0 or 1."""


def score(name: str, answer: Answer, *, is_compat: bool) -> Fraction | None:
    """The score of one answer, exactly; None for none."""
    if not answer or (not is_compat and any(verdict is None for _, verdict in answer)):
        return None
    lowest = 1 if name == "judge_1_5" else 0
    criteria = [(Fraction(1 if w is None else w), Fraction(lowest if s is None else s)) for w, s in answer]
    points = sum((w * s for w, s in criteria), Fraction(0))
    positive = sum((w for w, _ in criteria if w > 0), Fraction(0))
    negative = sum((w for w, _ in criteria if w < 0), Fraction(0))
    plain = sum((s for _, s in criteria), Fraction(0)) / len(criteria)
    by_name = {
        "prbench": (points, positive),
        "prbench_normalized": (points - negative, positive - negative),
        "healthbench": (points, positive),
        "apex_v1": (100 * plain, Fraction(1)),
        "lexam_open": (plain, Fraction(1)),
        "lexam_mcq": (plain, Fraction(1)),
        "judge_1_5": (plain, Fraction(1)),
        "weighted_mean": (points, positive + negative),
    }
    above, below = by_name[name]
    return above / below if below > 0 else None


def headline(name: str, benchmark: Benchmark, *, is_compat: bool) -> tuple[Fraction | None, int]:
    """The figure of the benchmark, exactly, and how many records it rests on."""
    values = []
    for answers in benchmark:
        scores = [score(name, answer, is_compat=is_compat) for answer in answers]
        known = [one for one in scores if one is not None]
        if not known or (name == "apex_v1" and is_compat and len(known) < len(scores)):
            continue
        values.append(median(known) if name == "apex_v1" else sum(known) / len(known))
    if not values:
        return None, 0
    mean = sum(values, Fraction(0)) / len(values) * (100 if name == "lexam_open" else 1)
    if name in ("prbench", "healthbench"):
        mean = max(Fraction(0), mean)
    return (min(Fraction(1), mean) if name == "healthbench" else mean), len(values)


def made_up(name: str, seed: int) -> Benchmark:
    """Records of all sorts: negative, all-negative, zero and missing weights, missing verdicts, lost answers, repeats."""
    chance = Random(f"{name} {seed}")
    most = chance.choice((1, 1, 3, 5))
    return [_answers(name, chance, count=chance.randint(1, most)) for _ in range(chance.randint(1, 12))]


def _answers(name: str, chance: Random, *, count: int) -> list[Answer]:
    weights = chance.choice(
        (
            [chance.randint(-10, 10) for _ in range(chance.randint(1, 20))],
            [chance.randint(-100, 100) / 10 for _ in range(chance.randint(1, 6))],
            [chance.randint(1, 10) for _ in range(chance.randint(1, 6))],
            [-chance.randint(1, 10) for _ in range(chance.randint(1, 4))],
            [0] * chance.randint(1, 3),
            [None] * chance.randint(1, 6),
        )
    )
    verdicts = (*SCALES.get(name, (0.0, 1.0)), *([None] if chance.random() < 0.3 else []))
    return [None if chance.random() < 0.05 else [(weight, chance.choice(verdicts)) for weight in weights] for _ in range(count)]
