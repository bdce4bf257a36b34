"""The list of runs in sections."""

from rich.cells import cell_len

from assay.presentation.run_list import run_list_sections
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text
from tests.surfaces.cli.test_run_reports import LISTINGS


def test_the_list_of_runs_fits_a_narrow_terminal() -> None:
    lines = "".join(report_text(run_list_sections(LISTINGS), ReportSettings(version="9", width=76))).splitlines()
    assert max(map(cell_len, lines)) <= 76
    assert lines[0] == "nightly-2 · 2026-11-15 10:00 · running"
    assert lines[1] == "  assistant · small · records 120/1,500"
    assert "score 0.42 (prbench (compat), 0-1)" in " ".join(" ".join(lines).split())
