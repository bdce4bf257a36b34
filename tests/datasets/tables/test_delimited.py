"""Dialects and encodings of files with cells between separators."""

import codecs

import pytest

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.parsing.source import open_source
from assay.datasets.tables.delimited import DelimitedTable

ROWS = [("1", "What is 2+2?", "4"), ("2", 'Who said "no", and when?', "Rosa\nParks"), ("3", "Où est Łódź?", "Polen; nicht Ödland")]


def table(data: bytes) -> DelimitedTable:
    return DelimitedTable(open_source(data, name="t.csv"))


def cells(data: bytes) -> list[tuple[object, ...]]:
    return [tuple(row.cells.values()) for row in table(data).rows()]


def written(separator: str, *, line_end: str = "\n", escape: bool = False) -> str:
    """The rows as a file, every cell quoted that needs it."""

    def cell(text: str) -> str:
        if not any(sign in text for sign in (separator, '"', "\n")):
            return text
        doubled = text.replace('"', '\\"' if escape else '""')
        return f'"{doubled}"'

    return line_end.join(separator.join(map(cell, row)) for row in [("No", "Question", "Answer"), *ROWS]) + line_end


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("escape", [False, True])
def test_every_separator_line_end_and_way_of_quoting_gives_the_same_rows(separator: str, line_end: str, *, escape: bool) -> None:
    assert cells(written(separator, line_end=line_end, escape=escape).encode()) == ROWS


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_marked_encodings_are_read(encoding: str) -> None:
    assert cells(written(";").encode(encoding)) == ROWS


@pytest.mark.parametrize(("mark", "encoding"), [(codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF16_LE, "utf-16-le")])
def test_both_byte_orders_of_utf_16_are_read(mark: bytes, encoding: str) -> None:
    assert cells(mark + written("\t").encode(encoding)) == ROWS


def test_windows_1252_is_detected_and_stated() -> None:
    read = table("Frage;Antwort\nWas heißt „Öl“?;Erdöl à 5 €\n".encode("cp1252"))
    assert read.syntax.encoding == "cp1252"
    assert [dict(row.cells) for row in read.rows()] == [{"Frage": "Was heißt „Öl“?", "Antwort": "Erdöl à 5 €"}]


def test_one_damaged_byte_in_utf_8_costs_its_row_and_not_the_letters_of_all_others() -> None:
    data = "q,a\nwas heißt Öl,oil\nkap\udcfftt,x\nÄrger,anger\n".encode("utf-8", "surrogateescape")
    rows = list(table(data).rows())
    assert [row.problem for row in rows] == ["", "a cell is not UTF-8", ""]
    assert rows[0].cells["q"] == "was heißt Öl"


def test_bytes_of_no_known_encoding_are_refused() -> None:
    with pytest.raises(SourceUnreadable, match="neither UTF-8 nor Windows-1252"):
        table(b"q,a\n\x81\x8d,x\n")


def test_the_line_by_which_excel_states_the_separator_is_followed_and_is_not_the_header() -> None:
    read = table(b"sep=;\r\nFrage;Antwort, kurz\r\nEins, zwei?;3\r\n")
    assert list(read.columns) == ["Frage", "Antwort, kurz"]
    (row,) = read.rows()
    assert (row.line, list(row.cells.values())) == (3, ["Eins, zwei?", "3"])


def test_rows_and_lines_are_those_of_a_spreadsheet_and_of_an_editor() -> None:
    rows = list(table(b'q,a\n"one\ntwo",1\n\n,\nlast,2\n').rows())
    assert [(row.number, row.line, bool(row.cells)) for row in rows] == [(2, 2, True), (3, 4, False), (4, 5, False), (5, 6, True)]


def test_a_short_row_is_remarked_and_a_long_one_is_a_problem() -> None:
    short, trailing, long = table(b"q,a,b\nx,1\ny,1,2,,\nz,1,2,3\n").rows()
    assert (short.problem, short.remark) == ("", "it has 2 cells under a header of 3")
    assert (trailing.problem, trailing.remark) == ("", "")
    assert long.problem == "it has 4 cells under a header of 3; a cell with a comma in it needs quotation marks"


def test_text_after_a_closing_quotation_mark_costs_its_row_alone() -> None:
    first, second = table(b'q,a\n"x" y,1\nz,2\n').rows()
    assert first.problem.startswith("not CSV")
    assert second.cells == {"q": "z", "a": "2"}


def test_two_separators_that_fit_alike_are_a_question_to_the_user() -> None:
    with pytest.raises(UsageProblem, match="comma or semicolon"):
        table(b"u;x,v;y\n1;2,3;4\n")


def test_of_two_separators_that_fit_alike_known_names_decide() -> None:
    assert list(table(b"Question;Answer, short\n1;2,3\n").columns) == ["Question", "Answer, short"]
