"""The report of a conversion on terminals of several widths."""

from typing import Any

import pytest
from rich.cells import cell_len

from assay.datasets.converters.report import ConversionNote, ConversionReport, SourceCounts
from assay.presentation.conversion import conversion_sections
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text

PLAIN = ReportSettings(version="9")
LONG_NAME = "a/very/long/folder/name/with/質問/and/more/of/it/questions.jsonl"


def remark(number: int, **fields: Any) -> ConversionNote:
    given = {"action": "moved", "source": "a.jsonl", "reason": "no field for it", "line": number, "path": "x", **fields}
    return ConversionNote(**{"record_id": f"r{number}", **given})


def shown(*remarks: ConversionNote, settings: ReportSettings = PLAIN) -> str:
    counts = SourceCounts(LONG_NAME, read=1200, emitted=1100, invalid=60, skipped=40)
    report = ConversionReport(conversion="x", target="batch_v1", sources=(counts,), remarks=remarks)
    return "".join(report_text(conversion_sections(report, is_verbose=settings.is_verbose), settings))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = shown(remark(1, reason="a reason of many words " * 20), settings=ReportSettings(version="9", width=width))
    assert [line for line in text.splitlines() if cell_len(line) > width] == []
    assert "questions.jsonl     1,200     1,100        60        40\n" in text


def test_a_remark_that_stands_alone_is_one_line() -> None:
    assert shown(remark(7)).startswith("a.jsonl:7: moved: no field for it (r7 · x)\n\n")


def test_remarks_that_are_alike_stand_together() -> None:
    text = shown(remark(1), remark(2, action="invalid", reason="bad"), remark(3), remark(4), remark(5), remark(6))
    assert text.startswith(
        "a.jsonl: moved (5 times): no field for it\n    line 1 · r1 · x\n    line 3 · r3 · x\n    line 4 · r4 · x\n"
    )
    assert "    … and 2 more like this\na.jsonl:2: invalid: bad (r2 · x)\n" in text


def test_twenty_kinds_are_shown_and_the_rest_counted() -> None:
    assert "… and 5 more remarks (--verbose shows all)" in shown(*(remark(n, reason=f"reason {n}") for n in range(25)))


def test_text_of_a_source_cannot_move_the_cursor() -> None:
    assert "\x1b" not in shown(remark(1, reason="\x1b[2J", record_id="\x1b[2J", source="\x1b[2J"))
