"""Tables as a terminal shows them: no line is longer than the terminal is wide, and nothing is left out."""

from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from assay.presentation.sections import Column
from assay.surfaces.reporters.terminal import Row, painter, table

COLUMNS = (
    Column("candidate"),
    Column("evaluated", is_number=True),
    Column("pass rate", is_number=True),
    Column("p95", is_number=True),
    Column("cost", is_number=True),
)
ROWS: tuple[Row, ...] = (("Modell Ä 🎉", "100", "0.49 [0.37, 0.61]", "1.4 s", "unknown"), ("other", "9", "-", "", "$0.10"))


def lines(columns: Sequence[Column], rows: Sequence[Row], *, width: int | None) -> list[str]:
    return "".join(table(columns, rows, paint=painter(is_coloured=False), width=width)).splitlines()


def test_a_table_that_fits_has_a_line_for_each_row() -> None:
    assert lines(COLUMNS, ROWS, width=57) == lines(COLUMNS, ROWS, width=None)
    assert [cell_len(line) for line in lines(COLUMNS, ROWS, width=57)] == [57, 57, 57]


def test_columns_without_room_stand_below_their_row_with_their_heads() -> None:
    assert lines(COLUMNS, ROWS, width=50) == [
        "candidate    evaluated          pass rate    p95",
        "Modell Ä 🎉        100  0.49 [0.37, 0.61]  1.4 s",
        "  cost unknown",
        "other                9                  -",
        "  cost $0.10",
    ]
    assert lines(COLUMNS, ROWS, width=30) == [
        "candidate    evaluated",
        "Modell Ä 🎉        100",
        "  pass rate 0.49 [0.37, 0.61]",
        "  · p95 1.4 s · cost unknown",
        "other                9",
        "  pass rate - · cost $0.10",
    ]


def test_a_last_column_of_text_is_folded_as_long_as_there_is_room_for_it() -> None:
    columns, rows = (Column("record"), Column("why")), [("a-record-with-a-long-id", "It says nothing of what was asked.")]
    assert lines(columns, rows, width=50) == [
        "record                   why",
        "a-record-with-a-long-id  It says nothing of what",
        "                         was asked.",
    ]
    assert lines(columns, rows, width=40) == ["record", "a-record-with-a-long-id", "  It says nothing of what was asked."]


@pytest.mark.parametrize("width", range(30, 70))
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    shown = lines(COLUMNS, ROWS, width=width)
    assert max(map(cell_len, shown)) <= width
    assert all(str(cell) in " ".join(" ".join(shown).split()) for row in ROWS for cell in row)
