"""Sections: a table can be cut to some of its columns, and a cell has its interval behind it."""

import pytest

from assay.presentation.sections import NO_LINKS, Cell, Column, Table

TABLE = Table(columns=(Column("a"), Column("b", is_number=True), Column("c")), rows=((Cell("1"), Cell("2"), Cell("3")),))


def test_a_renderer_takes_the_columns_that_it_has_room_for_in_its_order() -> None:
    found = TABLE.only("c", "b")
    assert [column.title for column in found.columns] == ["c", "b"]
    assert [[cell.text for cell in row] for row in found.rows] == [["3", "2"]]


def test_a_renderer_may_call_columns_otherwise_and_take_the_first_rows() -> None:
    found = TABLE.titled("x", "y", "z").first(0)
    assert [(column.title, column.is_number) for column in found.columns] == [("x", False), ("y", True), ("z", False)]
    assert found.rows == ()
    assert TABLE.first(None) == TABLE


def test_a_column_that_is_not_there_is_an_error_of_the_renderer() -> None:
    with pytest.raises(StopIteration):
        TABLE.only("d")


def test_the_interval_follows_the_text_where_no_bar_is_drawn() -> None:
    assert Cell("83.3 %", interval="[43.6 %, 97.0 %]").full == "83.3 % [43.6 %, 97.0 %]"
    assert Cell("$0.10").full == "$0.10"


def test_text_and_notebooks_have_no_addresses() -> None:
    assert (NO_LINKS.run("x"), NO_LINKS.records("x", status="error"), NO_LINKS.artifact("x", "a")) == ("", "", "")
