"""CSV and its relatives: encoding, separator and quotes are detected, and rows are read one after the other."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.parsing.source import Source
from assay.datasets.tables.column_names import PROMPTS, REFERENCES, folded
from assay.datasets.tables.table_rows import TableRow, TableSyntax, named_columns

MAX_CELL = 64 << 20
"""Characters of one cell; an unclosed quotation mark swallows no more than this."""
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_SAMPLE_BYTES = 1 << 18
_SAMPLE_RECORDS = 200
_CHUNK = 1 << 17
_MARKS: tuple[tuple[bytes, str], ...] = (
    # UTF-32 first: its mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
"""First line by which Excel states the separator."""
_SURROGATE = re.compile("[\udc80-\udcff]")
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]+")


class Undecodable(Exception):
    """A file that began like UTF-8 has other bytes further on: its encoding must be found by all of them."""


class CellBatch(NamedTuple):
    """Consecutive rows of a file as they are written."""

    number: int
    """Number of the first row."""
    line: int
    """Line on which the first row begins."""
    cells: list[list[str]]
    problem: str = ""
    """Why the row after these cannot be read; empty where there is none."""


class TableDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How cells are separated and quoted."""

    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    """Character before a quotation mark inside quotes; None where the mark is doubled."""
    skip: int = 0
    """Characters before the header: the line `sep=;` of Excel."""

    def reader(self, lines: Iterator[str]) -> Any:
        """Return a csv reader over lines."""
        return csv.reader(
            lines,
            delimiter=self.separator,
            quotechar=self.quote,
            doublequote=self.escape is None,
            escapechar=self.escape,
            strict=True,
        )


class DelimitedTable:
    """A file of cells between separators."""

    def __init__(self, source: Source, *, is_checked: bool = False) -> None:
        """Open a table; without `is_checked` a file that begins like UTF-8 is taken for it, until `rows` raises Undecodable."""
        # The limit belongs to the whole process: raised, never lowered, so that no other reader is cut short.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
        self._source = source
        self._encoding, self._errors = encoding_of(source, is_checked=is_checked)
        self._dialect = self._detected()
        self._read = 0
        self.columns: Sequence[str] = named_columns(self._header())

    @property
    def has_known_name(self) -> bool:
        """Return whether a column has a name that questions or references usually have."""
        return any(folded(column) in level for column in self.columns for level in (*PROMPTS, *REFERENCES))

    @property
    def syntax(self) -> TableSyntax:
        """How the file is written."""
        return TableSyntax(
            format="TSV" if self._dialect.separator == "\t" else "CSV",
            encoding="" if self._encoding in ("utf-8", "utf-8-sig") else self._encoding,
            separator=self._dialect.separator,
            has_cells=True,
        )

    @property
    def is_whole(self) -> bool:
        """Return whether every byte could be decoded."""
        return self._errors == "strict"

    @property
    def progress(self) -> tuple[int, int]:
        """Return the bytes that were read so far, and the bytes in all."""
        return self._read, self._source.size

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows below the header, the empty ones too."""
        for batch in self.batches(1):
            yield from self.rows_of(batch, batch.line)

    def batches(self, size: int) -> Iterator[CellBatch]:
        """Yield the rows below the header in batches, the empty ones too."""
        with self._text() as text:
            reader = self._dialect.reader(text)
            number, line = 1, 2 if self._dialect.skip else 1
            lines_before = line - 1
            has_header, is_ended = False, False
            while not is_ended:
                cells: list[list[str]] = []
                problem = ""
                try:
                    cells.extend(islice(reader, size if has_header else 1))
                    is_ended = not cells
                except csv.Error as error:
                    problem = f"not CSV: {error}"
                except UnicodeDecodeError as error:
                    raise Undecodable(str(error)) from error
                if not has_header and cells and _is_filled(cells[0]):
                    has_header = True
                elif has_header and (cells or problem):
                    yield CellBatch(number, line, cells, problem)
                number += len(cells) + bool(problem)
                line = lines_before + reader.line_num + 1
                self._read = text.buffer.tell()  # type: ignore[attr-defined]  # it can, being that of a file

    def rows_of(self, batch: CellBatch, line: int | None = None) -> Iterator[TableRow]:
        """Yield the rows of a batch."""
        for at, cells in enumerate(batch.cells):
            yield self._row(batch.number + at, cells, line if len(batch.cells) == 1 else None)
        if batch.problem:
            yield TableRow(batch.number + len(batch.cells), {}, line if not batch.cells else None, problem=batch.problem)

    def _row(self, number: int, cells: list[str], line: int | None) -> TableRow:
        columns, width = self.columns, len(self.columns)
        if not _is_filled(cells):
            return TableRow(number, {}, line)
        row = dict(zip(columns, cells, strict=False))
        if len(cells) > width and _is_filled(cells[width:]):
            return TableRow(number, row, line, problem=self._wide(cells))
        if self._errors != "strict" and _SURROGATE.search("".join(cells)):
            return TableRow(number, _readable(row), line, problem="a cell is not UTF-8")
        remark = "" if len(cells) >= width else f"it has {len(cells)} cells under a header of {width}"
        return TableRow(number, row, line, remark=remark)

    def line_numbers(self) -> Mapping[int, int]:
        """Return the line on which each row begins; the file is read once more."""
        return {batch.number: batch.line for batch in self.batches(1)}

    def _wide(self, cells: Sequence[str]) -> str:
        width, name = len(self.columns), SEPARATORS.get(self._dialect.separator, repr(self._dialect.separator))
        return f"it has {len(cells)} cells under a header of {width}; a cell with a {name} in it needs quotation marks"

    def _text(self) -> io.TextIOWrapper:
        """Open the text from the header on."""
        text = io.TextIOWrapper(self._source.open_bytes(), encoding=self._encoding, errors=self._errors, newline="")
        # Eight kilobytes at a time, as by default, cost more calls than their decoding.
        text._CHUNK_SIZE = _CHUNK  # type: ignore[attr-defined]  # the only way to set it
        text.read(self._dialect.skip)
        return text

    def _header(self) -> list[str]:
        with self._text() as text:
            reader = self._dialect.reader(text)
            with suppress(csv.Error):
                return next((cells for cells in reader if _is_filled(cells)), [])
        return []

    def _detected(self) -> TableDialect:
        text = self._sample()
        stated = _SEPARATOR_LINE.match(text)
        skip = stated.end() if stated else 0
        separators = [stated.group(1)] if stated else list(SEPARATORS)
        scored = [
            (_fit(text[skip:], dialect), dialect)
            for separator in separators
            for dialect in _dialects(separator, text[skip:], skip=skip)
        ]
        best = max(share for (share, _), _ in scored)
        fitting = [entry for entry in scored if entry[0][0] == best]
        widest = max(fitting, key=lambda entry: entry[0][1])[1]
        # A second separator that cuts the header and every row too is another table; known names tell which one is meant.
        separators = list(dict.fromkeys(dialect.separator for (_, columns), dialect in fitting if columns > 1))
        if len(separators) > 1:
            named = [dialect.separator for _, dialect in fitting if _has_known_name(text[skip:], dialect)]
            if len(set(named)) != 1:
                listed = " or ".join(SEPARATORS.get(name, repr(name)) for name in separators)
                hint = f"write the separator into a first line of its own, such as: sep={separators[0]}"
                raise UsageProblem(f"the cells of '{self._source.name}' may be separated by {listed}", hint=hint)
            return next(dialect for _, dialect in fitting if dialect.separator == named[0])
        return widest

    def _sample(self) -> str:
        """Return the beginning of the file, cut after a whole line."""
        with self._source.open_bytes() as stream:
            data = stream.read(_SAMPLE_BYTES)
        is_cut = len(data) == _SAMPLE_BYTES
        text = codecs.getincrementaldecoder(self._encoding)(errors=self._errors).decode(data)
        return text[: text.rfind("\n") + 1] if is_cut and "\n" in text else text


def _is_filled(cells: Sequence[str]) -> bool:
    return any(cells) and any(cell.strip() for cell in cells)


def _readable(row: dict[str, str]) -> dict[str, str]:
    """Replace bytes that could not be decoded."""
    return {name: cell.encode("utf-8", "replace").decode("utf-8") for name, cell in row.items()}


def _dialects(separator: str, text: str, *, skip: int) -> Iterator[TableDialect]:
    yield TableDialect(separator=separator, skip=skip)
    if '\\"' in text:
        yield TableDialect(separator=separator, escape="\\", skip=skip)
    first = text.lstrip().partition("\n")[0].rstrip("\r")
    if first.startswith("'") and first.endswith("'") and f"'{separator}'" in first:
        yield TableDialect(separator=separator, quote="'", skip=skip)


def _has_known_name(text: str, dialect: TableDialect) -> bool:
    header: list[str] = next(dialect.reader(iter(text.splitlines(keepends=True))), [])
    return any(folded(cell) in level for cell in header for level in (*PROMPTS, *REFERENCES))


def _fit(text: str, dialect: TableDialect) -> tuple[float, int]:
    """Score a dialect on a sample: the share of rows as wide as the header, and the number of columns."""
    reader = dialect.reader(iter(text.splitlines(keepends=True)))
    widths: Counter[int] = Counter()
    header = 0
    for _ in range(_SAMPLE_RECORDS):
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error:
            widths[-1] += 1
            continue
        if not any(cells):
            continue
        if not header:
            header = len(cells)
        else:
            widths[len(cells)] += 1
    if header < 2:
        # One column is what every wrong separator finds.
        return (0.0, header) if -1 not in widths else (-1.0, 0)
    rows = widths.total()
    return (round(widths[header] / rows, 3) if rows else 1.0, header)


def encoding_of(source: Source, *, is_checked: bool) -> tuple[str, str]:
    """Return the encoding of a file, and how bytes are treated that are none."""
    head = source.part(0, 4)
    marked = next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)
    if marked not in (None, "utf-8-sig"):
        return str(marked), "replace"
    name = marked or "utf-8"
    if _is_utf8(source, most=None if is_checked else _SAMPLE_BYTES):
        return name, "strict"
    valid = invalid = 0
    with source.open_bytes() as stream:
        while piece := stream.read(1 << 20):
            for found in _HIGH.finditer(piece):
                run = found.group()
                good = sum(len(match.group()) for match in _MULTIBYTE.finditer(run))
                valid += good
                invalid += len(run) - good
    # A damaged UTF-8 file has few bad bytes among good ones; a Windows file has hardly any that form UTF-8.
    if marked or valid > invalid:
        return name, "surrogateescape"
    try:
        with source.open_bytes() as stream:
            while piece := stream.read(1 << 20):
                piece.decode("cp1252")
    except UnicodeDecodeError:
        raise SourceUnreadable(
            f"'{source.name}' is neither UTF-8 nor Windows-1252", hint="save it as UTF-8 (in Excel: CSV UTF-8)"
        ) from None
    return "cp1252", "strict"


def _is_utf8(source: Source, *, most: int | None) -> bool:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        with source.open_bytes() as stream:
            if most is not None:
                decode(stream.read(most), final=source.size <= most)
                return True
            while piece := stream.read(1 << 20):
                decode(piece)
            decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
