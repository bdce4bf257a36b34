"""Figures of a run, to assert on."""

from pathlib import Path

from tests.surfaces.python_api.test_runs import law


def test_figures_of_a_run_can_be_asserted_on(tmp_path: Path) -> None:
    run = law(tmp_path, "law", 0, 3)
    assert (run.pass_rate.value, run.pass_rate.n, run.error_rate) == (0.75, 8, 0.0)
    assert run.pass_rate.low == run.metrics["pass_rate_interval"]["low"] < 0.75 < (run.pass_rate.high or 0)
    assert (run.score.value, run.score.scale) == (0.75, "0/1")
    assert str(run.pass_rate) == "75.0 % [40.9 %, 92.9 %]"
    assert repr(run) == "<assay.Run law · completed · big · pass rate 75.0 % [40.9 %, 92.9 %]>"
