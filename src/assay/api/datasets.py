"""Datasets: converted, imported, and as tables."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from assay.api.validation import validate, validate_with_hashes
from assay.core.errors import UsageProblem
from assay.core.plugin import find_plugin, given_plugin
from assay.core.retention import longest_retention, retention_in
from assay.core.run_result import RunResult
from assay.core.runs import RUNS_DIR
from assay.core.settings import ColumnSection
from assay.datasets import contract_named, read_as_table
from assay.datasets.converters import BFCL, CONVERTERS, ConversionResult, IdStyle, convert_cases, convert_files
from assay.datasets.converters.report import with_rejected
from assay.datasets.dataset_paths import open_dataset
from assay.datasets.imports import DatasetRows, ImportFormat, ImportResult, read_files
from assay.datasets.parsing.config import ValidationConfig, read_columns
from assay.datasets.parsing.source import open_source
from assay.datasets.tables import TARGETS, TableOptions, TableRecords
from assay.datasets.tables.conversion import TableConversion
from assay.engine.readers.run_list import result_of
from assay.engine.readers.tables import COLUMNS as TABLE_COLUMNS
from assay.engine.readers.tables import LISTS as TABLE_LISTS
from assay.engine.readers.tables import (
    RecordTable,
    case_table,
)
from assay.engine.run_import import ImportRequest, check_new, dataset_of, import_plans, publish

__all__ = [
    "TABLE_COLUMNS",
    "TABLE_LISTS",
    "convert",
    "convert_benchmark",
    "convert_contract",
    "convert_table",
    "dataset_table",
    "import_files",
    "import_runs",
]


def convert(
    sources: str | Path | Sequence[str | Path], converter: str | Callable[..., object], *, id_style: IdStyle = "stable"
) -> ConversionResult:
    """Convert files to rows of legal_eval_v1, with a converter's name or a function that makes rows of a source row."""
    paths = [sources] if isinstance(sources, str | Path) else sources
    if isinstance(converter, str):
        return convert_benchmark(converter, paths, id_style=id_style)
    return convert_files(given_plugin("converter", converter), paths, id_style=id_style)


def convert_benchmark(name: str, paths: Sequence[str | Path], *, id_style: IdStyle = "stable") -> ConversionResult:
    """Convert the files of a benchmark, published or known to a plugin, to rows of legal_eval_v1; those of BFCL to batch_v1."""
    built_in = (*CONVERTERS, BFCL)
    known = name if name in built_in else find_plugin("converter", name, folder=Path(), built_in=built_in)
    return convert_files(known, paths, id_style=id_style)


def convert_contract(path: str | Path, *, source: str, target: str) -> ConversionResult:
    """Convert the valid cases of a dataset to another contract, with a remark for everything that it cannot hold."""
    report = validate(path, source)
    known = report.contract
    if known is None or report.outcome == "rejected":
        raise UsageProblem(f"'{path}' is not a usable {source} dataset", hint=f"see what is wrong with: assay validate {path}")
    converted = convert_cases(report.cases, source=contract_named(known), target=contract_named(target), name=str(path))
    return with_rejected(converted, report.record_errors)


def convert_table(
    path: str | Path, *, contract: str = "auto", columns: ColumnSection | Mapping[str, object] | None = None, sheet: str = ""
) -> ConversionResult | TableConversion:
    """Convert a table to the records of a contract; rows that cannot be records are remarks. Raises UsageProblem."""
    named = columns if isinstance(columns, ColumnSection) else read_columns(columns or {})
    source = open_dataset(path)
    is_direct = contract in ("auto", *TARGETS)
    # Before the whole table is read, so that an unknown contract is refused at once.
    wanted = contract if is_direct else contract_named(contract)
    target = wanted if is_direct else "auto"
    report = read_as_table(source, TableOptions(named, sheet), target, ValidationConfig(), keeps_lines=True)
    table: TableRecords = source.table
    converted = TableConversion(report, table, name=str(path))
    if is_direct:
        return converted
    further = convert_cases(report.cases, source=table.contract, target=contract_named(contract), name=str(path))
    remarks = (*converted.report.remarks, *further.report.remarks)
    counts = msgspec.structs.replace(converted.report.sources[0], emitted=further.report.sources[0].emitted)
    both = msgspec.structs.replace(further.report, conversion=converted.report.conversion, sources=(counts,), remarks=remarks)
    return msgspec.structs.replace(further, report=both)


def import_files(
    sources: Sequence[str], form: ImportFormat | None = None, *, follows_files: bool = True, wants_turns: bool = False
) -> ImportResult:
    """Read files of another tool; `dataset().lines()` writes them as a dataset, `report()` lists what is missing there.

    Files that a config names are read too, as far as they are below its folder, unless `follows_files` is false; with `wants_turns`
    whole conversations are kept, which conversation_v1 needs.
    """
    return read_files(sources, form, follows_files=follows_files, wants_turns=wants_turns)


def import_runs(
    imported: ImportResult,
    rows: DatasetRows,
    *,
    wanted: ImportRequest,
    runs_dir: str | Path = RUNS_DIR,
    run_id: str | None = None,
    dataset: str | Path | None = None,
) -> tuple[RunResult, ...]:
    """Make a finished run for each candidate, with the answers and grades of the other tool; no model is called.

    `dataset` is the file that the rows were written to; without it they are written to one that is not kept.
    """
    # Too short a retention is refused before any run is made.
    retention = longest_retention(retention_in(os.environ))
    with tempfile.TemporaryDirectory(prefix="assay-import-") as folder:
        path = Path(folder) / "dataset.jsonl" if dataset is None else Path(dataset).absolute()
        if dataset is None:
            # The runs need a dataset to read, also when none was asked for.
            with path.open("wb") as stream:
                stream.writelines(rows.lines())
        read = dataset_of(path, rows, shown=imported.first_path if dataset is None else path)
        now = time.time()
        plans = import_plans(imported, read, wanted=wanted, run_id=run_id or "", now=now, retention=retention)
        # Before the first is published: of several runs all are made or none.
        check_new(plans, Path(runs_dir))
        folders = [publish(imported, rows, plan=plan, dataset=read, runs_dir=Path(runs_dir), at=now) for plan in plans]
    return tuple(map(result_of, folders))


def dataset_table(path: str | Path) -> RecordTable:
    """Return the table of a dataset's records; raises UsageProblem for one with errors, since a table must be complete."""
    report = validate_with_hashes(str(path))
    # A table with holes would be taken for the whole dataset.
    errors = report.count("error")
    if errors:
        raise UsageProblem(f"'{path}' is not valid: {errors:,} error{'s' * (errors > 1)}", hint=f"assay validate {path} lists them")
    return case_table(report, sha256=open_source(str(path)).sha256())
