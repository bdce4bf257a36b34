"""Numbers and estimates as text of a chart."""

import pytest

from assay.presentation.charts import PlottedEstimate
from assay.surfaces.charts.labels import estimate_text, number_label
from assay.surfaces.charts.svg import MINUS


@pytest.mark.parametrize(
    ("value", "options", "label"),
    [
        (None, {}, "no score"),
        (0.83, {}, "0.83"),
        (0.83333, {"is_rate": True}, "83.3 %"),
        (-0.5, {}, f"{MINUS}0.50"),
        (0.04, {"is_signed": True}, "+0.04"),
        (-0.042, {"is_signed": True, "is_rate": True}, f"{MINUS}4.2 pp"),
        (12_345.678, {}, "12,345.68"),
    ],
)
def test_a_number_is_written_in_its_unit(value: float | None, options: dict[str, bool], label: str) -> None:
    assert number_label(value, **options) == label


def test_an_estimate_has_its_interval_and_its_n() -> None:
    assert estimate_text(PlottedEstimate(0.781, 0.833, 0.874, 1200, is_rate=True)) == "83.3 % [78.1 %, 87.4 %], n = 1,200"
    assert estimate_text(PlottedEstimate(None, 0.5, None, 1)) == "0.50, n = 1"


def test_an_estimate_without_a_score_is_no_zero() -> None:
    assert estimate_text(PlottedEstimate(None, None, None, 12)) == "no score, n = 12"
