"""Checks of the installation in sections."""

from assay.core.setup_checks import DoctorCheck, ModelProbe, ProbeCheck, ShownExchange
from assay.presentation.installation import doctor_sections, probe_sections
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text


def test_hostile_names_cannot_move_the_cursor() -> None:
    check = DoctorCheck(area="run file", name="\x1b[2J", says="\x1b[31m", hint="\x1b]0;x\x07", standing="problem")
    assert "\x1b" not in "".join(report_text(doctor_sections([check]), ReportSettings(version="0")))


def test_a_model_that_shows_its_exchange_is_shown_with_it() -> None:
    exchange = ShownExchange(request="POST /ask", reply='{"text": "4"}', read={"answer": "4"})
    check = ProbeCheck(subject="key", standing="problem", says="refused \x1b[2J", hint="set KEY")
    probe = ModelProbe(name="mine/bot", provider="mine", model="bot", role="candidate", checks=(check,), exchange=exchange)
    text = "".join(report_text(probe_sections([probe]), ReportSettings(version="0")))
    for shown in ("mine/bot", "FIX", "hint: set KEY", "POST /ask", '{"text": "4"}', "answer", "1 of 1 model to fix"):
        assert shown in text
    assert "\x1b" not in text
