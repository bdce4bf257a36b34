"""Tables in Arrow's formats: Parquet files, and datasets that the library `datasets` has saved to disk."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from assay.core.errors import MissingExtra, SourceUnreadable, UsageProblem
from assay.datasets.parsing.source import Source
from assay.datasets.tables.column_roles import ColumnsUnclear, listed
from assay.datasets.tables.json_tables import object_row
from assay.datasets.tables.table_rows import TableRow, TableSyntax

_BATCH_ROWS = 256
"""Rows in memory at a time."""
DATASET_INFO, DATASET_STATE, DATASET_SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"
"""Files in the folder of a saved dataset; the last one only in that of several splits."""


class ArrowTable:
    """Rows in batches of Arrow."""

    def __init__(
        self, syntax: TableSyntax, columns: Sequence[str], read: Callable[[], Iterator[Any]], labels: Mapping[str, list[str]]
    ) -> None:
        self.syntax = syntax
        self.columns = columns
        self._read = read
        self._labels = labels
        """Names of the numbers in columns of class labels."""

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows, counted from 1."""
        numbers = count(1)
        for batch in self._read():
            for row in batch.to_pylist():
                number = next(numbers)
                try:
                    cells = {name: self._cell(name, value) for name, value in row.items()}
                except ValueError as problem:
                    yield TableRow(number, {}, problem=str(problem))
                else:
                    yield object_row(number, cells)

    def _cell(self, name: str, value: object) -> object:
        names = self._labels.get(name)
        if names is not None and isinstance(value, int) and 0 <= value < len(names):
            return names[value]
        return plain_value(value)


def plain_value(value: object) -> object:
    """Convert a value of a table to what JSON holds: times as text, NaN as missing; raises ValueError for bytes."""
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain_value(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(member) for member in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        raise ValueError("a cell holds bytes, such as an image, which cannot be sent as text")
    return str(value)


def parquet_table(source: Source) -> ArrowTable:
    """Return the table of a Parquet file; raises MissingExtra, SourceUnreadable."""
    arrow, parquet = _pyarrow(source.name), import_module("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(arrow.BufferReader(source.buffer()))
        schema = file.schema_arrow
    except (OSError, ValueError) as problem:  # pyarrow's ArrowInvalid is a ValueError
        raise SourceUnreadable(f"cannot read '{source.name}': {problem}", hint="check that the file is Parquet") from problem

    def read() -> Iterator[Any]:
        try:
            yield from parquet.ParquetFile(arrow.BufferReader(source.buffer())).iter_batches(batch_size=_BATCH_ROWS)
        except (OSError, ValueError) as problem:
            raise SourceUnreadable(f"cannot read '{source.name}': {problem}", hint="the file is damaged") from problem

    metadata = (schema.metadata or {}).get(b"huggingface", b"{}")
    features = json.loads(metadata).get("info", {}).get("features", {})
    return ArrowTable(TableSyntax(format="Parquet"), schema.names, read, _labels(features))


def saved_dataset(folder: Path, split: str) -> ArrowTable:
    """Return the table of a dataset in a folder, or of one of its splits; raises MissingExtra, SourceUnreadable, UsageProblem."""
    arrow = _pyarrow(str(folder))
    found, split = _split_folder(folder, split)
    try:
        info = json.loads((found / DATASET_INFO).read_bytes())
        files = [found / entry["filename"] for entry in json.loads((found / DATASET_STATE).read_bytes())["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SourceUnreadable(f"cannot read the dataset in '{found}': {problem}", hint="save it with save_to_disk") from problem
    for file in files:
        # A name in the file must not lead out of the folder.
        if file.parent != found:
            raise SourceUnreadable(f"the dataset in '{found}' names a file in another folder", hint="save it with save_to_disk")

    def batches() -> Iterator[Any]:
        for file in files:
            try:
                with arrow.memory_map(str(file)) as stream:
                    for batch in arrow.ipc.open_stream(stream):
                        # Batches are as large as they were written; slices of them are views.
                        yield from (batch.slice(at, _BATCH_ROWS) for at in range(0, batch.num_rows, _BATCH_ROWS))
            except (OSError, ValueError) as problem:
                raise SourceUnreadable(f"cannot read '{file}': {problem}", hint="save the dataset again") from problem

    features = info.get("features") or {}
    return ArrowTable(TableSyntax(format="Hugging Face dataset", sheet=split), list(features), batches, _labels(features))


def _split_folder(folder: Path, split: str) -> tuple[Path, str]:
    if not (folder / DATASET_SPLITS).is_file():
        if split:
            raise UsageProblem(f"the dataset in '{folder}' has no splits", hint="leave --sheet out")
        return folder, ""
    try:
        splits = [str(name) for name in json.loads((folder / DATASET_SPLITS).read_bytes())["splits"]]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SourceUnreadable(f"cannot read the splits in '{folder}': {problem}", hint="save it with save_to_disk") from problem
    named = split or (splits[0] if len(splits) == 1 else "")
    if named not in splits or Path(named).name != named:
        what = f"no split {split!r}" if split else "several splits"
        raise ColumnsUnclear(f"the dataset in '{folder}' has {what}: {listed(splits)}", role="sheet", options=splits)
    return folder / named, named


def _labels(features: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        name: list(feature["names"])
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
    }


def _pyarrow(name: str) -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise MissingExtra(f"reading '{name}' needs pyarrow", hint="pip install 'assay[tables]'") from None
