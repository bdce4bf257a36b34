"""Checks of the installation in sections."""

from assay.core.doctor import DoctorCheck
from assay.presentation.installation import doctor_sections
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import report_text


def test_hostile_names_cannot_move_the_cursor() -> None:
    check = DoctorCheck(area="run file", name="\x1b[2J", says="\x1b[31m", hint="\x1b]0;x\x07", standing="problem")
    assert "\x1b" not in "".join(report_text(doctor_sections([check]), ReportSettings(version="0")))
