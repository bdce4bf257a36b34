"""Records as CSV that no spreadsheet evaluates, and from which every text can be had back."""

import csv
import io
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

from assay.api import RecordTable, RunReader, run_table
from assay.surfaces.exports.export_progress import ExportProgress
from assay.surfaces.reporters.plain_json import json_text

GUARD = "'"
"""Goes before a text that a spreadsheet might evaluate, and before one that begins with it: whoever takes it off has the text."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", GUARD, "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a spreadsheet evaluate a cell, or hide its first character."""
MARK = b"\xef\xbb\xbf"
"""The byte order mark, by which Excel knows UTF-8."""

_UNSEEN = "ZC"
"""Categories of characters (separators; controls, formats and others) that a spreadsheet may pass over before it evaluates."""


def csv_chunks(run: RunReader, teller: ExportProgress) -> Iterator[bytes]:
    """The records of a run."""
    return table_csv(run_table(run), teller)


def table_csv(table: RecordTable, teller: ExportProgress) -> Iterator[bytes]:
    """A line of names, and one for each row; lists and objects are cells of JSON."""
    rows = ([cell(row[name]) for name in table.columns] for row in teller.counted(table.rows()))
    # The first line is read before anything is sent: what cannot be read can then still be said.
    first = list(islice(rows, 1))
    yield _text([table.columns, *first])
    for row in rows:
        yield _text([row])


def _text(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def cell(value: object) -> object:
    """A value as a cell: numbers stay numbers, what is not known is empty, and no text is evaluated."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json_text(value)
    if text[:1].isalnum():
        # Most texts: a letter or a digit is seen, and begins no formula.
        return text
    return GUARD + text if text.startswith(FORMULA) or _is_hidden_formula(text) else text


def _is_hidden_formula(text: str) -> bool:
    seen = next((character for character in text if unicodedata.category(character)[0] not in _UNSEEN), "")
    return seen in FORMULA
