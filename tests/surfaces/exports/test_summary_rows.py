"""Figures of a run as rows."""

from pathlib import Path

import pytest

from tests.surfaces.exports.exported_runs import hostile_run
from tests.surfaces.exports.test_workbook import rows, workbook


def test_figures_stand_with_interval_and_denominator(tmp_path: Path) -> None:
    run = hostile_run(tmp_path, "A", "B", "A", "A")
    (rate,) = [row for row in rows(workbook(run), "Summary") if row["figure"] == "pass_rate"]
    interval = run.result.metrics["pass_rate_interval"]
    assert (rate["value"], rate["n"]) == (0.75, 4)
    assert (rate["low"], rate["high"]) == pytest.approx((interval["low"], interval["high"]))
