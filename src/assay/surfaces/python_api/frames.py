"""The records of runs as a table of pandas, polars or Arrow: the columns of an export, each with its type, and nothing as NaN."""

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from types import ModuleType
from typing import Any

from assay import api
from assay.core.canonical import JsonObject
from assay.core.errors import MissingExtra

RUN_ID = "run_id"
"""First column, which identifies the run of a row."""
GROUP = 5_000
"""Records that are plain values at one time while a table grows."""


def columns(runs: Iterable[api.RunReader] = ()) -> dict[str, str]:
    """List the name of every column and its meaning; runs add those of their checks and graders."""
    named = {name: kind for run in runs for name, kind in api.run_columns(run).items()}
    return {RUN_ID: "text", **api.TABLE_COLUMNS, **named}


def arrow_table(runs: Sequence[api.RunReader]) -> object:
    """Build a `pyarrow.Table`; raises MissingExtra."""
    # Without runs the table still has its columns, so that code that selects one works.
    none = api.RecordTable(name="", columns=api.TABLE_COLUMNS, rows=lambda: iter(()), facts={})
    found = [(run.folders.run_id, api.arrow_table(run)) for run in runs] or [("", api.arrow_of(none))]
    pyarrow = _library("pyarrow", "tables")
    name = pyarrow.field(RUN_ID, pyarrow.string())
    tables = [
        group.add_column(0, name, pyarrow.array([run_id] * len(group), pyarrow.string()))
        for run_id, table in found
        # The empty table gives a run without records its columns.
        for group in (*table.groups, table.schema.empty_table())
    ]
    # Of several runs, the facts of the first are not those of the others.
    if len(runs) == 1:
        return pyarrow.concat_tables(tables)
    # Runs with other checks have other columns, which are null in the rows of the rest.
    return pyarrow.concat_tables([table.replace_schema_metadata(None) for table in tables], promote_options="default")


def pandas_frame(runs: Sequence[api.RunReader]) -> object:
    """Build a `pandas.DataFrame` with nullable columns; raises MissingExtra."""
    pandas = _library("pandas", "pandas")
    # Nullable types: numpy's would turn an unknown count into a float, and an unknown truth into an object.
    kinds = {"text": "string", "json": "string", "number": "Float64", "count": "Int64", "truth": "boolean"}
    kinds["time"] = "datetime64[us, UTC]"
    named = columns(runs)
    values: dict[str, list[Any]] = {name: [] for name in named}
    for row in _rows(runs):
        for name in named:
            values[name].append(row.get(name))
    # Each list is let go when its column is made.
    return pandas.DataFrame({name: pandas.Series(values.pop(name), dtype=kinds.get(kind)) for name, kind in named.items()})


def polars_frame(runs: Sequence[api.RunReader]) -> object:
    """Build a `polars.DataFrame`; raises MissingExtra."""
    polars = _library("polars", "polars")
    kinds = _polars_kinds(polars)
    schema = {name: kinds[kind] for name, kind in columns(runs).items()}
    # 5,000 rows at a time: the plain values of a whole run take several times the memory of the frame.
    frames = [polars.from_dicts(group, schema=schema) for group in _groups(_rows(runs))]
    return polars.concat(frames) if frames else polars.DataFrame(schema=schema)


def _polars_kinds(polars: Any) -> dict[str, object]:
    kinds = {
        **dict.fromkeys(("text", "json"), polars.String),
        "number": polars.Float64,
        "count": polars.Int64,
        "truth": polars.Boolean,
        "time": polars.Datetime("us", "UTC"),
        "texts": polars.List(polars.String),
    }
    kinds["scores"] = polars.List(polars.Struct({name: kinds[kind] for name, kind in api.SCORE_MEMBERS.items()}))
    return kinds


def _library(name: str, extra: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as problem:
        raise MissingExtra(f"this table needs {name}, which is not installed", hint=f"pip install 'assay[{extra}]'") from problem


def _rows(runs: Iterable[api.RunReader]) -> Iterator[dict[str, object]]:
    for run in runs:
        for row in api.typed_rows(run):
            yield {RUN_ID: run.folders.run_id, **row}


def _groups(rows: Iterator[JsonObject]) -> Iterator[list[dict[str, object]]]:
    while group := list(islice(rows, GROUP)):
        yield group
