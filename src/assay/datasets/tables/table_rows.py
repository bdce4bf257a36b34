"""Rows of a table from any kind of file: the columns, and each row with its number."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from assay.core.canonical import JsonObject


class TableRow(NamedTuple):
    """One row of a table."""

    number: int
    """Number that a spreadsheet shows for it, where the header is row 1; without a header the rows are counted from 1."""
    cells: Mapping[str, object]
    """Cells by their columns; empty for an empty row."""
    line: int | None = None
    """Line of the file on which it begins; None for a file without lines."""
    problem: str = ""
    """Why the row cannot be read; empty for a readable one."""
    remark: str = ""
    """What is odd about a row that can be read."""


class TableSyntax(msgspec.Struct, frozen=True, kw_only=True):
    """How the file of a table is written."""

    format: str
    """Such as `CSV` or `JSON Lines`."""
    encoding: str = ""
    """Encoding, if it is not UTF-8."""
    separator: str = ""
    sheet: str = ""
    others: tuple[str, ...] = ()
    """Further members of the document around the rows, which are not read."""
    has_cells: bool = False
    """True if a spreadsheet shows the table, so that cells have addresses."""
    is_guess: bool = False
    """True if the rows are a list in a document that usually holds something else."""


class SourceTable(Protocol):
    """A table that can be read several times, from its first row on."""

    @property
    def syntax(self) -> TableSyntax:
        """How the file is written."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns in their order; of a table without a header, those of its first rows."""

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows in order, the empty ones too."""


SAMPLE_ROWS = 1_000
"""Rows at the start of a table that decide what its columns are."""


def is_blank(value: object) -> bool:
    """Return whether a cell holds nothing: null, white space, or an empty list or object."""
    return value is None or (isinstance(value, str) and not value.strip()) or (isinstance(value, list | dict) and not value)


METADATA_NAMES = ("metadata", "additional_metadata", "meta", "policy_id")
"""Folded names of columns whose cells may be more than one member of a record's metadata, or mean something there."""


def listed_columns(value: tuple[str, ...] | str | None) -> tuple[str, ...]:
    """Return the columns of a role that may have several."""
    return () if not value else (value,) if isinstance(value, str) else value


def named_columns(header: Sequence[str]) -> list[str]:
    """Name the columns of a header: a blank name becomes `column 3`, a repeated one `Answer (2)`."""
    # A dictionary keeps the order, and the last number of each name keeps a header of one repeated name linear.
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for position, cell in enumerate(header, 1):
        base = " ".join(str(cell).split()) or f"column {position}"
        name, number = base, numbers.get(base, 1)
        while name in names:
            number += 1
            name = f"{base} ({number})"
        numbers[base] = number
        names[name] = None
    return list(names)


def cell_address(column: int, row: int) -> str:
    """Return the address that a spreadsheet shows for a cell; columns count from 0: `B7`."""
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row}"


class ObjectTable:
    """A table of objects in memory."""

    def __init__(self, objects: Sequence[JsonObject], *, form: str = "rows") -> None:
        self.syntax = TableSyntax(format=form)
        self.columns: Sequence[str] = list(dict.fromkeys(name for row in objects[:SAMPLE_ROWS] for name in row))
        self._objects = objects

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows, counted from 1."""
        for number, cells in enumerate(self._objects, 1):
            yield TableRow(number, {} if all(map(is_blank, cells.values())) else cells)
