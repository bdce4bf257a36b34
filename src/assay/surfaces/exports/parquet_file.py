"""Records as Parquet: typed columns, of which each may be null, and the facts of the run in the metadata of the schema."""

import io
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from assay.api import RecordTable, RunReader, arrow_of, run_table
from assay.surfaces.exports.export_progress import ExportProgress


def parquet_chunks(run: RunReader, teller: ExportProgress) -> Iterator[bytes]:
    """The records of a run."""
    return table_parquet(run_table(run), teller)


def table_parquet(table: RecordTable, teller: ExportProgress) -> Iterator[bytes]:
    """The file, while it is written: one group of rows at a time."""
    arrow = arrow_of(table)
    sink, done = _Sink(), 0
    with import_module("pyarrow.parquet").ParquetWriter(sink, arrow.schema) as writer:
        for group in arrow.groups:
            writer.write_table(group)
            done += group.num_rows
            teller.watch(done)
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
