"""The records of a run as a table of pandas, polars or Arrow: a column for each figure, each with its type, nothing as NaN."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice
from types import ModuleType
from typing import Any, Literal

from assay.core.errors import MissingExtra

Line = dict[str, Any]
Kind = Literal["text", "number", "count", "truth", "time", "texts", "scores"]

COLUMNS: dict[str, Kind] = {
    "run_id": "text",
    "candidate_name": "text",
    "index": "count",
    "record_id": "text",
    "sample": "count",
    "dataset": "text",
    "status": "text",
    "passed": "truth",
    "score": "number",
    "raw_score": "number",
    "scale": "text",
    "profile_score": "number",
    "label": "text",
    "justification": "text",
    "evaluator_scores": "scores",
    "model_response": "text",
    "selected_choice_ids": "texts",
    "flags": "texts",
    "error_code": "text",
    "error_message": "text",
    "model": "text",
    "evaluator": "text",
    "policy_id": "text",
    "finish_reason": "text",
    "input_tokens": "count",
    "output_tokens": "count",
    "total_tokens": "count",
    "cached_tokens": "count",
    "judge_tokens": "count",
    "latency_ms": "number",
    "judge_latency_ms": "number",
    "total_latency_ms": "number",
    "cost": "number",
    "record_attempts": "count",
    "first_attempt_at": "time",
    "last_attempt_at": "time",
    "record_sha256": "text",
}
"""The members of a prediction that a table has, with what they are; a record without a score has null, which is not 0."""
SCORE: dict[str, Kind] = {
    "criterion": "text",
    "score": "number",
    "scale": "text",
    "normalized": "number",
    "weight": "number",
    "judge": "text",
    "confidence": "number",
    "justification": "text",
    "flags": "texts",
}
"""The members of an evaluator's score."""
_ABSENT: Line = {"weight": 1.0, "judge": "", "justification": "", "flags": []}
"""What a score does not write down because it is the usual."""
GROUP = 5_000
"""Records that are plain values at one time while a table of Arrow grows."""


def arrow_table(lines: Iterable[Line]) -> Any:
    """A `pyarrow.Table`; raises MissingExtra."""
    pyarrow = _library("pyarrow", "tables")
    schema = pyarrow.schema([(name, _arrow_type(pyarrow, kind)) for name, kind in COLUMNS.items()])
    groups = (pyarrow.RecordBatch.from_pylist([_row(line) for line in group], schema=schema) for group in _groups(lines))
    return pyarrow.Table.from_batches(groups, schema=schema)


def pandas_frame(lines: Iterable[Line]) -> Any:
    """A `pandas.DataFrame` with nullable columns; raises MissingExtra."""
    pandas = _library("pandas", "pandas")
    kinds = {"text": "string", "number": "Float64", "count": "Int64", "truth": "boolean", "time": "datetime64[us, UTC]"}
    columns = _columns(lines)
    return pandas.DataFrame({name: pandas.Series(columns.pop(name), dtype=kinds.get(COLUMNS[name], object)) for name in COLUMNS})


def polars_frame(lines: Iterable[Line]) -> Any:
    """A `polars.DataFrame`; raises MissingExtra."""
    polars = _library("polars", "polars")
    schema = {name: _polars_type(polars, kind) for name, kind in COLUMNS.items()}
    frames = [polars.from_dicts([_row(line) for line in group], schema=schema) for group in _groups(lines)]
    return polars.concat(frames) if frames else polars.DataFrame(schema=schema)


def _library(name: str, extra: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as problem:
        raise MissingExtra(f"this table needs {name}, which is not installed", hint=f"pip install 'assay[{extra}]'") from problem


def _groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
    left = iter(lines)
    while group := list(islice(left, GROUP)):
        yield group


def _columns(lines: Iterable[Line]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for line in lines:
        for name, value in _row(line).items():
            columns[name].append(value)
    return columns


def _row(line: Line) -> Line:
    """The members of the table, each there; runs of earlier versions lack some."""
    return {name: _value(kind, line.get(name)) for name, kind in COLUMNS.items()}


def _value(kind: Kind, value: Any) -> Any:
    match kind:
        case "time":
            return None if value is None else datetime.fromisoformat(value).astimezone(UTC)
        case "texts":
            return list(value or ())
        case "scores":
            return [{name: score.get(name, _ABSENT.get(name)) for name in SCORE} for score in value or ()]
        case _:
            return value


def _arrow_type(pyarrow: Any, kind: Kind) -> Any:
    match kind:
        case "scores":
            return pyarrow.list_(pyarrow.struct([(name, _arrow_type(pyarrow, part)) for name, part in SCORE.items()]))
        case "texts":
            return pyarrow.list_(pyarrow.string())
        case _:
            kinds = {"text": "string", "number": "float64", "count": "int64", "truth": "bool_"}
            return pyarrow.timestamp("us", tz="UTC") if kind == "time" else getattr(pyarrow, kinds[kind])()


def _polars_type(polars: Any, kind: Kind) -> Any:
    match kind:
        case "scores":
            return polars.List(polars.Struct({name: _polars_type(polars, part) for name, part in SCORE.items()}))
        case "texts":
            return polars.List(polars.String)
        case _:
            kinds = {"text": "String", "number": "Float64", "count": "Int64", "truth": "Boolean"}
            return polars.Datetime("us", "UTC") if kind == "time" else getattr(polars, kinds[kind])
