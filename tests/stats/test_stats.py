"""A small part of `make stats`, with fixed seeds: enough to notice an interval that has gone wrong."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.stats.scenario import Scenario
from tests.stats.simulate import Row, page, run, scenarios, text

TRIALS = 500
WIDE = {95.0: 5.0, 5.0: 5.0, 2.5: 3.5, 80.0: 9.0}
"""Percentage points by which so few trials may be off."""
ROWS = scenarios()


def label(scenario: Scenario) -> str:
    return f"{scenario.name}, {scenario.sizes}"


@pytest.mark.parametrize("scenario", ROWS, ids=label)
def test_an_interval_or_a_test_keeps_its_promise(scenario: Scenario) -> None:
    row = run(scenario, trials=TRIALS, seed=7)
    assert abs(row.percent - row.target) <= WIDE[row.target] or row.note


ROW = Row(name="rate", sizes="50 records", percent=95.4, target=95.0, undefined=0, note="")


@pytest.mark.parametrize(
    ("percent", "target", "note", "verdict"),
    [
        (95.9, 95.0, "", "holds"),
        (93.9, 95.0, "few units", "misses"),
        (97.0, 95.0, "few units", "cautious"),
        (97.0, 95.0, "", "misses"),
        (3.0, 5.0, "exact", "cautious"),
        (6.5, 5.0, "exact", "misses"),
    ],
)
def test_only_errors_on_the_safe_side_can_be_explained(percent: float, target: float, note: str, verdict: str) -> None:
    assert msgspec.structs.replace(ROW, percent=percent, target=target, note=note).verdict == verdict


def test_the_page_names_every_row_and_its_refusals() -> None:
    rows = [msgspec.structs.replace(ROW, name=label(scenario), undefined=3) for scenario in ROWS]
    written = page(rows, trials=10_000, seed=1)
    assert [row.name for row in rows if f"| {row.name} |" not in written] == []
    assert "3 of the trials were refused" in written
    assert text(ROW) == "holds     95.40 of 95 %  rate, 50 records"


def test_the_published_page_is_about_these_rows() -> None:
    published = (Path(__file__).parents[2] / "docs" / "explanation" / "coverage.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [\d.]+ \|", published, re.MULTILINE)
    assert sorted(rows) == sorted((scenario.name, scenario.sizes) for scenario in ROWS), "make stats ARGS=--write renews it"
