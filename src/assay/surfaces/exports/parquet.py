"""Records as Parquet, and as a folder that Hugging Face `datasets` loads."""

import io
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from assay.api import TABLE_LISTS, RecordTable, RunReader, arrow_of, run_table
from assay.presentation.words import INTERVALS_NOTE, metric_text, rate
from assay.surfaces.exports.text_tables import ExportProgress
from assay.surfaces.reporters.markdown import code


def parquet_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the records of a run."""
    return table_parquet(run_table(run), progress)


def table_parquet(table: RecordTable, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the file, while it is written: one group of rows at a time."""
    arrow = arrow_of(table)
    # pyarrow is loaded when it is needed: it takes longer than most commands.
    sink, done = _Sink(), 0
    with import_module("pyarrow.parquet").ParquetWriter(sink, arrow.schema) as writer:
        for group in arrow.groups:
            writer.write_table(group)
            done += group.num_rows
            progress.watch(done)
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
        # The writer asks for the position to note offsets in the footer, so what was sent on has to count.
        return self._before + len(self._written)

    def write(self, piece: Any) -> int:
        self._written += piece
        return len(piece)

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        written, self._written = bytes(self._written), bytearray()
        self._before += len(written)
        return written


CARD = "README.md"
RECORDS = Path("data", "test-00000-of-00001.parquet")
"""Evaluations are a test split; the name is the one that the hub expects of a split in one part."""

_KINDS = {
    "text": "string",
    "json": "string",
    "number": "float64",
    "count": "int64",
    "truth": "bool",
    "time": "timestamp[us, tz=UTC]",
}
_TAGS = "\ntags:\n- evaluation\n- assay\nconfigs:\n"
"""By this a card is known as one of ours."""
_HEAD = 4096
_RUN_WORDS = (
    "The records of a run of assay: what was asked, what the candidate answered, and how it was graded.\n",
    "A record without a grade has no score; why is in `error_code`. The columns `metadata`, `panel`, `judge_costs` and\n",
    "`profile_bounds` hold JSON.\n\n",
)
_DATASET_WORDS = (
    "The records of a dataset for evaluations, in the one form that all contracts of assay share. The columns `attachments`,\n",
    "`turns`, `metadata` and `extra` hold JSON.\n",
)


def write_run_folder(run: RunReader, folder: Path, progress: ExportProgress) -> None:
    """Write the records of a run; raises MissingExtra without pyarrow."""
    _write(run_table(run), folder, progress, about=(*_RUN_WORDS, *_figures(run)))


def write_dataset_folder(table: RecordTable, folder: Path, progress: ExportProgress) -> None:
    """Write the records of a dataset; raises MissingExtra without pyarrow."""
    _write(table, folder, progress, about=_DATASET_WORDS)


def _write(table: RecordTable, folder: Path, progress: ExportProgress, *, about: Iterable[str]) -> None:
    records = folder / RECORDS
    records.parent.mkdir(parents=True)
    with records.open("xb") as file:
        for chunk in table_parquet(table, progress):
            file.write(chunk)
    card = "".join(_card(table, about)).encode("utf-8", "replace")
    (folder / CARD).write_bytes(card)


def is_export(folder: Path) -> bool:
    """Return whether a folder contains only such an export, with a card that only we write."""
    held = {path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    # Symlinks count as files: one would let --force remove what it points at.
    if held != {Path(CARD), RECORDS} or any((folder / path).is_symlink() for path in held):
        # The mark is in the YAML head, which is at the beginning.
        return False
    with (folder / CARD).open(encoding="utf-8", errors="replace") as card:
        return _TAGS in card.read(_HEAD)


def _card(table: RecordTable, about: Iterable[str]) -> Iterator[str]:
    # `safe_dump` quotes what YAML would read as something else; names of datasets come from outside.
    yield f"---\n{yaml.safe_dump(_front(table), sort_keys=False, allow_unicode=True)}---\n\n"
    yield f"# {code(table.name)}\n\n"
    yield '```python\nfrom datasets import load_dataset\n\nrecords = load_dataset("path/of/this/folder", split="test")\n```\n\n'
    yield from about
    yield "\n## Origin\n\n| fact | value |\n|---|---|\n"
    yield from (f"| {name} | {code(value)} |\n" for name, value in table.facts.items())


def _front(table: RecordTable) -> dict[str, object]:
    return {
        "pretty_name": table.name,
        "tags": ["evaluation", "assay"],
        "configs": [{"config_name": "default", "data_files": [{"split": "test", "path": RECORDS.as_posix()}]}],
        # Declared, because the hub would otherwise guess types from the first rows, where a column may be empty.
        "dataset_info": {"features": [{"name": name, **_feature(kind)} for name, kind in table.columns.items()]},
    }


def _feature(kind: str) -> dict[str, object]:
    if kind in TABLE_LISTS:
        return {"list": [{"name": name, **_feature(member)} for name, member in TABLE_LISTS[kind].items()]}
    return {"list": "string"} if kind == "texts" else {"dtype": _KINDS[kind]}


def _figures(run: RunReader) -> Iterator[str]:
    summary = run.result.summary
    yield "## Figures\n\n| figure | value | records |\n|---|---:|---:|\n"
    if summary is not None:
        shown = (("pass_rate", summary.pass_rate_metric, True), ("score_mean", summary.score_mean_metric, False))
        for name, metric, is_rate in shown:
            if metric.value is not None:
                yield f"| {name} | {metric_text(metric, is_rate=is_rate)} | {metric.n:,} |\n"
        for member, named in (("checks", summary.checks), ("graders", summary.graders)):
            for name, one in named.items() if isinstance(named, dict) else ():
                if one.pass_rate is not None:
                    yield f"| {code(f'{member}.{name}')} | {metric_text(one.pass_rate_metric, is_rate=True)} | {one.n:,} |\n"
        invalid, total = run.result.counts.invalid_records, summary.total_records
        yield f"| invalid_records, not in this table | {invalid:,} | {total:,} |\n"
        if summary.truncated is not None:
            yield f"| truncated answers | {summary.truncated.n:,} | {summary.truncated.n_answers:,} |\n"
        yield f"| error_rate | {rate(summary.error_rate)} | {total:,} |\n"
    yield f"\n{INTERVALS_NOTE}.\n"
