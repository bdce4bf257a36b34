"""Source files of benchmarks (JSONL, JSON, CSV, Parquet; gzip) into streams of numbered rows."""

import csv
import importlib
import io
import math
import mmap
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import msgspec

from assay.core.errors import MissingExtra, SourceUnreadable, UsageProblem
from assay.core.strict_json import MAX_LOCAL_BYTES, ParsedDocument, ParseProblem, parse_json
from assay.datasets.converters.report import RowSource, SourceLine, UnreadableLine
from assay.datasets.converters.rows import kind
from assay.datasets.parsing.source import BOM, open_source
from assay.datasets.parsing.source import Source as OpenSource

MAX_FIELD_LENGTH = 64 << 20
"""Characters of one CSV field; an unclosed quotation mark swallows no more than this."""
STANDARD_INPUT = "-"


def read_source(path: str | Path) -> RowSource:
    """Open one file or standard input as rows, read when iterated; raises UsageProblem for an unknown format.

    Iterating raises SourceUnreadable where the file cannot be read and MissingExtra for Parquet without pyarrow.
    """
    if str(path) == STANDARD_INPUT:
        return RowSource("-", _opened_rows("-", _json_document))
    suffix = Path(Path(path).name.lower().removesuffix(".gz")).suffix
    if suffix == ".parquet":
        return RowSource(str(path), _parquet_rows(Path(path)))
    reader = _READERS.get(suffix)
    if reader is None:
        known = f"known endings: {', '.join(_READERS)} (each also with .gz) and .parquet"
        raise UsageProblem(f"cannot tell the format of '{path}' by its ending", hint=known)
    return RowSource(str(path), _opened_rows(path, reader))


def _opened_rows(path: str | Path, reader: Callable[[OpenSource], Iterator[SourceLine]]) -> Iterator[SourceLine]:
    yield from reader(open_source(path))


def _json_lines(source: OpenSource) -> Iterator[SourceLine]:
    for number, content in source.lines():
        if content.strip():
            yield number, _json_row(content)


# The strict parser and not json.loads: a name that appears twice would lose a value without a word.
def _json_row(text: bytes) -> Mapping[str, object] | UnreadableLine:
    document = parse_json(text)
    if document.flaws:
        return _flawed(document, _worst(document.flaws))
    return _as_row(document.value)


def _worst(flaws: tuple[ParseProblem, ...]) -> ParseProblem:
    return next((flaw for flaw in flaws if flaw.fatal), flaws[0])


def _flawed(document: ParsedDocument, flaw: ParseProblem) -> UnreadableLine:
    return UnreadableLine(f"{flaw.message} (column {document.place(flaw.offset).column})")


def _as_row(value: object) -> Mapping[str, object] | UnreadableLine:
    return value if isinstance(value, dict) else UnreadableLine(f"a row is an object, this is {kind(value)}")


def _json_document(source: OpenSource) -> Iterator[SourceLine]:
    # A file that its owner converts may be large; an upload may not, and has the lower limit.
    document = parse_json(source.buffer(), max_bytes=MAX_LOCAL_BYTES)
    if document.is_readable:
        yield from _members(document)
    elif _is_json_lines(source):
        yield from _json_lines(source)
    else:
        flaw = _worst(document.flaws)
        yield document.place(flaw.offset).line, _flawed(document, flaw)


def _is_json_lines(source: OpenSource) -> bool:
    """Return whether a .json file is JSON Lines, as many tools write: then the first line is a whole object."""
    first = next((content for _, content in source.lines() if content.strip()), b"")
    return first.lstrip().startswith(b"{") and parse_json(first).is_readable


def _members(document: ParsedDocument) -> Iterator[SourceLine]:
    """Yield the rows of a list; any other value counts as the only row."""
    is_list = isinstance(document.value, list)
    flaws = {flaw.path[0] if is_list else 0: flaw for flaw in reversed(document.flaws)}
    # All rows in one pass: looked up one by one, each would walk the text from its start.
    document.locate((index,) for index in range(len(document.value) if is_list else 0))
    for index, value in enumerate(document.value if is_list else [document.value]):
        place = document.place(document.offset((index,) if is_list else ()))
        yield place.line, _flawed(document, flaws[index]) if index in flaws else _as_row(value)


def _csv_rows(source: OpenSource, *, delimiter: str = ",") -> Iterator[SourceLine]:
    # The limit belongs to the whole process: raised, never lowered, so that no other reader is cut short.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD_LENGTH))
    reader = csv.reader(_text_lines(source), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            yield line, UnreadableLine(f"not CSV: {problem}")
            continue
        if not header:
            header = _checked_header(cells, source.name)
        elif cells:
            yield line, _csv_row(header, cells)


def _text_lines(source: OpenSource) -> Iterator[str]:
    """Yield lines with their ends; bytes that are not UTF-8 become lone surrogates and cost their own row, not the file."""
    buffer = source.buffer()
    stream = buffer if isinstance(buffer, mmap.mmap) else io.BytesIO(buffer)
    stream.seek(len(BOM) if buffer[: len(BOM)] == BOM else 0)
    while line := stream.readline():
        yield line.decode("utf-8", "surrogateescape")


def _checked_header(header: list[str], name: str) -> list[str]:
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise SourceUnreadable(f"the header of '{name}' names the column '{twice[0]}' twice", hint="rename one of the two")
    return header


def _csv_row(header: list[str], cells: list[str]) -> Mapping[str, object] | UnreadableLine:
    if len(cells) != len(header):
        return UnreadableLine(f"{len(cells)} cells under a header of {len(header)}")
    try:
        "".join(cells).encode("utf-8")
    except UnicodeEncodeError:
        return UnreadableLine("a cell is not UTF-8")
    # CSV has one form for an empty text and a missing value; exporters mean a missing one.
    return {name: cell or None for name, cell in zip(header, cells, strict=True)}


def _tsv_rows(source: OpenSource) -> Iterator[SourceLine]:
    return _csv_rows(source, delimiter="\t")


def _parquet_rows(file: Path) -> Iterator[SourceLine]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra(f"reading '{file}' needs pyarrow", hint="pip install 'assay[tables]'") from None
    numbers = count(1)
    try:
        # In small batches, so that memory does not grow with the file.
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=256):
            yield from ((next(numbers), _plain_row(row)) for row in batch.to_pylist())
    except (OSError, ValueError) as problem:  # pyarrow's ArrowInvalid is a ValueError
        raise SourceUnreadable(f"cannot read '{file}': {problem}", hint="check the path and that the file is Parquet") from problem


def _plain_row(row: Mapping[str, object]) -> Mapping[str, object] | UnreadableLine:
    try:
        return {name: _plain(value) for name, value in row.items()}
    except (TypeError, ValueError) as problem:
        return UnreadableLine(f"a cell has no JSON form: {problem}")


def _plain(value: object) -> object:
    """Convert a value to JSON types; NaN is how tables write a missing number."""
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("infinity")
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    found: object = msgspec.to_builtins(value)
    return found


_READERS: dict[str, Callable[[OpenSource], Iterator[SourceLine]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_document,
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
}
