"""Predictions as files that other tools open."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec

from assay.core.errors import MissingExtra
from assay.surfaces.reporters.plain_json import json_text

Line = dict[str, Any]
COLUMNS = (
    *(
        "index",
        "record_id",
        "sample",
        "dataset",
        "record_sha256",
        "candidate_name",
        "model",
        "status",
        "passed",
        "score",
        "raw_score",
    ),
    *("scale", "label", "justification", "evaluator_scores", "selected_choice_ids", "flags", "model_response", "error_code"),
    *("error_message", "finish_reason", "input_tokens", "output_tokens", "total_tokens", "latency_ms", "cost"),
)
"""The columns of a table; lists are cells of JSON."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a spreadsheet evaluate a cell, or hide its first character."""
GROUP = 5_000
GROUP_CHARACTERS = 8 << 20


_UNSEEN = " \u00a0\u2000\u2001\u2002\u2003\u2009\u200a\u200b\u200c\u200d\u2060\u3000\ufeff\v\f\x1c\x1d\x1e\x1f\x85"
"""What a spreadsheet may pass over before it evaluates."""


class Export(msgspec.Struct, frozen=True):
    """One format."""

    media_type: str
    write: Callable[[Iterable[Line]], Iterator[bytes]]


def _json(lines: Iterable[Line]) -> Iterator[bytes]:
    yield b'{"records":['
    for number, line in enumerate(lines):
        yield (b",\n" if number else b"\n") + json_text(line).encode()
    yield b"\n]}\n"


def _json_lines(lines: Iterable[Line]) -> Iterator[bytes]:
    for line in lines:
        yield json_text(line).encode() + b"\n"


def _csv(lines: Iterable[Line]) -> Iterator[bytes]:
    rows = ([cell(line.get(name)) for name in COLUMNS] for line in lines)
    # The first line is read before anything is sent: what cannot be read can then still be said.
    first = list(islice(rows, 1))
    yield _csv_text([COLUMNS, *first])
    for row in rows:
        yield _csv_text([row])


def _csv_text(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def cell(value: Any) -> object:
    """A value as a cell of CSV: numbers stay numbers, and no text is evaluated by a spreadsheet."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json_text(value)
    return f"'{text}" if text.startswith(FORMULA) or text.lstrip(_UNSEEN).startswith(FORMULA) else text


def _parquet(lines: Iterable[Line]) -> Iterator[bytes]:
    try:
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as problem:
        raise MissingExtra(
            "Parquet needs pyarrow, which this server does not have", hint="pip install 'assay[tables]'"
        ) from problem
    numbers = ("score", "raw_score", "latency_ms", "cost")
    counts = ("index", "sample", "input_tokens", "output_tokens", "total_tokens")
    kinds = {**dict.fromkeys(numbers, pyarrow.float64()), **dict.fromkeys(counts, pyarrow.int64()), "passed": pyarrow.bool_()}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in COLUMNS])
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema) as writer:
        for group in _groups(lines):
            columns = {name: [_plain(line.get(name)) for line in group] for name in COLUMNS}
            writer.write_table(pyarrow.table(columns, schema=schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file that is sent on while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()
        self._before = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._before + len(self._written)

    def write(self, piece: Any) -> int:
        self._written += piece
        return len(piece)

    def taken(self) -> bytes:
        """What was written since the last time."""
        written, self._written = bytes(self._written), bytearray()
        self._before += len(written)
        return written


def _groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines enough to make good columns of, and no more than fit into memory many times."""
    group: list[Line] = []
    room = GROUP_CHARACTERS
    for line in lines:
        group.append(line)
        room -= len(line.get("model_response") or "")
        if len(group) == GROUP or room < 0:
            yield group
            group, room = [], GROUP_CHARACTERS
    if group:
        yield group


def _plain(value: Any) -> Any:
    return json_text(value) if isinstance(value, list | dict) else value


EXPORTS: dict[str, Export] = {
    "json": Export("application/json", _json),
    "jsonl": Export("application/x-ndjson", _json_lines),
    "csv": Export("text/csv; charset=utf-8", _csv),
    "parquet": Export("application/vnd.apache.parquet", _parquet),
}

MEDIA_TYPES = tuple(export.media_type.partition(";")[0] for export in EXPORTS.values())
