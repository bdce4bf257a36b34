"""Trials of a scenario into a row, and rows into the page on how well the intervals hold."""

import zlib
from collections.abc import Sequence

import msgspec
import numpy as np

from tests.stats.scenario import Scenario
from tests.stats.scenarios import INTERVALS, POWER, TESTS

PAGE = "docs/explanation/coverage.md"
TOLERANCE = {80.0: 2.0}
"""Percentage points that are not 1, by target: what clusters can show is planned for by an approximation."""
HEAD = """# How well the intervals hold

Written by `make stats`. Each row is {trials:,} made-up evaluations whose truth is known (seed {seed}): an interval should hold
the truth in 95 of 100 and a test should raise a false alarm in 5 of 100, give or take one; a difference that is as large as a
comparison says it can show should be shown in 80 of 100, give or take two. Rows that are "cautious" err on the safe side by more
than that, and say why. With so many trials chance alone moves a row by up to {chance:.1f} points. The numbers are explained in
[What the numbers mean](what-the-numbers-mean.md), and why these intervals were chosen in
[008: intervals](../decisions/008-intervals.md).
"""


WHERE = """
## Where they are printed

| command | its intervals and tests |
|---|---|
| `run`, `show`, `charts` | pass rate, mean score, of slices, clusters and repeats too; pass@k, pass^k; agreement in a panel |
| `run --profile`, `rescore` | headline of the profile; by clusters |
| `compare`, `gate`, `suite` | paired differences, also of slices, clusters and repeats; McNemar, Holm, detectable effect |
| `trend` | slope, Mann-Kendall; the points have the intervals of their runs |
| `calibrate` | kappas, alphas, rates of the judge (also of slices and bins), corrected rate and means; by clusters |
| `rank` | strength, chance to beat the average, lead, share of wins, how often a judge goes by places |
| `probe` | rate of slips, its tests |

Latencies, tokens and costs are printed without intervals.
"""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What the trials of one scenario gave."""

    name: str
    sizes: str
    percent: float
    target: float
    undefined: int
    note: str

    @property
    def verdict(self) -> str:
        """Whether the target was met within a point, on the safe side, or missed."""
        if abs(self.percent - self.target) <= TOLERANCE.get(self.target, 1.0):
            return "holds"
        is_safe = self.percent > self.target if self.target == 95 else self.percent < self.target
        return "cautious" if is_safe and self.note else "misses"


def simulate(job: tuple[int, int, int]) -> Row:
    """The row at a place of the table, after so many trials with a seed."""
    place, trials, seed = job
    return run(scenarios()[place], trials=trials, seed=seed)


def scenarios() -> tuple[Scenario, ...]:
    return (*INTERVALS, *TESTS, *POWER)


def run(scenario: Scenario, *, trials: int, seed: int) -> Row:
    draw = np.random.default_rng([seed, zlib.crc32(f"{scenario.name} {scenario.sizes}".encode())])
    found = [scenario.trial(draw) for _ in range(trials)]
    known = [hit for hit in found if hit is not None]
    return Row(
        name=scenario.name,
        sizes=scenario.sizes,
        percent=100 * sum(known) / len(known),
        target=scenario.target,
        undefined=len(found) - len(known),
        note=scenario.note,
    )


def text(row: Row) -> str:
    """One line for a terminal."""
    refused = f"  ({row.undefined} refused)" if row.undefined else ""
    return f"{row.verdict:<9}{row.percent:6.2f} of {row.target:g} %  {row.name}, {row.sizes}{refused}"


def page(rows: Sequence[Row], *, trials: int, seed: int) -> str:
    """The whole page in Markdown."""
    chance = 100 * 2 * (0.95 * 0.05 / trials) ** 0.5
    first, second = len(INTERVALS), len(INTERVALS) + len(TESTS)
    return "\n".join(
        [
            HEAD.format(trials=trials, seed=seed, chance=chance),
            "## Intervals\n\n| interval | sizes | holds the truth, % | |\n|---|---|---|---|",
            *map(_line, rows[:first]),
            "\n## Tests\n\n| test | sizes | alarms, % | |\n|---|---|---|---|",
            *map(_line, rows[first:second]),
            "\nA gate that asks for an interval on one side of a line is wrong half as often: 2.5 of 100 pass that should not.",
            "\n## What is noticed\n\n| difference that is there | sizes | shown, % | |\n|---|---|---|---|",
            *map(_line, rows[second:]),
            WHERE,
        ]
    )


def _line(row: Row) -> str:
    words = [row.verdict if row.verdict != "cautious" else f"cautious: {row.note}"]
    words += [f"{row.undefined:,} of the trials were refused"] if row.undefined else []
    return f"| {row.name} | {row.sizes} | {row.percent:.1f} | {'; '.join(words)} |"
