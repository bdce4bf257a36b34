"""The records of a run as rows of a table, with columns of known kinds."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any, Literal

import msgspec

from assay.core.errors import MissingExtra
from assay.engine.found import question_of
from assay.engine.opened import Line, Run

Kind = Literal["text", "number", "count", "truth", "time", "texts", "scores", "json"]

COLUMNS: Mapping[str, Kind] = {
    "index": "count",
    "record_id": "text",
    "sample": "count",
    "dataset": "text",
    "task": "text",
    "tags": "texts",
    "question": "text",
    "references": "texts",
    "correct_choice_ids": "texts",
    "model_response": "text",
    "status": "text",
    "passed": "truth",
    "score": "number",
    "raw_score": "number",
    "scale": "text",
    "label": "text",
    "justification": "text",
    "evaluator_scores": "scores",
    "selected_choice_ids": "texts",
    "flags": "texts",
    "error_code": "text",
    "error_message": "text",
    "candidate_name": "text",
    "model": "text",
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
    "profile_score": "number",
    "profile_unscored": "text",
    "profile_bounds": "json",
    "panel": "json",
    "judge_costs": "json",
    "evaluator": "text",
    "policy_id": "text",
    "template": "text",
    "template_sha256": "text",
    "metadata": "json",
    "record_sha256": "text",
    "response_sha256": "text",
    "stored_sha256": "text",
}
"""Every column with its kind: all members of a prediction, and of the record what was asked and what is right."""

SCORE_MEMBERS: Mapping[str, Kind] = {
    "criterion": "text",
    "score": "number",
    "scale": "text",
    "normalized": "number",
    "weight": "number",
    "justification": "text",
    "judge": "text",
    "confidence": "number",
    "flags": "texts",
}
"""The members of an entry of `evaluator_scores`."""
_LEFT_OUT: Mapping[str, Any] = {"weight": 1.0, "justification": "", "judge": "", "confidence": None, "flags": ()}
"""What a line does not say of an entry."""

GROUP = 5_000
GROUP_CHARACTERS = 8 << 20
"""Rows that are columns at a time: enough for good columns, and no more than fit into memory many times."""

_HASHES = ("manifest_sha256", "plan_sha256", "records_merkle_root", "attempt_chain_sha256")
_ASKED = ("task", "tags", "references", "correct_choice_ids", "metadata")


def table_rows(run: Run) -> Iterator[Line]:
    """A row for each valid record so far, in order: a value for each column, None where there is none."""
    for line, record in run.pairs():
        yield {**dict.fromkeys(COLUMNS), **_asked(record), **line}


def typed_rows(run: Run) -> Iterator[Line]:
    """As `table_rows`, with values that a typed column takes: times are times, and what has no shape of its own is JSON."""
    for row in table_rows(run):
        yield {name: _value(row, name, kind) for name, kind in COLUMNS.items()}


def _asked(record: Line) -> Line:
    return {"question": question_of(record) or None, **{name: record.get(name) for name in _ASKED}}


def whole_scores(row: Line) -> Iterator[Line]:
    """The entries of `evaluator_scores` of a row with all their members."""
    return ({**_LEFT_OUT, **score} for score in row["evaluator_scores"] or ())


def run_facts(run: Run) -> dict[str, str]:
    """What a table is about, for whoever finds it without its run: names, versions, times, and hashes of what it was made from."""
    manifest = run.manifest
    plan = manifest.get("plan") or {}
    datasets, judges = plan.get("datasets", ()), manifest.get("judges", ())
    facts = {
        **{name: manifest.get(name) for name in ("run_id", "status", "contract", "dataset_id", "dataset_version")},
        "candidate": (manifest.get("candidate") or {}).get("name"),
        **{name: manifest.get(name) for name in ("model", "temperature", "seed")},
        "judges": ", ".join(judge["name"] for judge in judges),
        "profile": (manifest.get("profile") or {}).get("id"),
        **{name: manifest.get(name) for name in ("created_at", "completed_at", "assay_version", "evaluator_version")},
        "dataset_sha256": ", ".join(dataset["sha256"] for dataset in datasets),
        **{name: manifest.get(name) for name in _HASHES},
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


class ArrowTable(msgspec.Struct, frozen=True):
    """A run as columns, a few thousand rows at a time."""

    schema: Any
    """A `pyarrow.Schema`; its metadata has the facts of the run, each name beginning with `assay.`."""
    groups: Iterator[Any]
    """The rows, as `pyarrow.Table`."""


def arrow_table(run: Run) -> ArrowTable:
    """The rows of a run as typed columns, each of which may be null; raises MissingExtra without pyarrow."""
    pyarrow = _pyarrow()
    schema = _schema(pyarrow, {f"assay.{name}": fact for name, fact in run_facts(run).items()})
    return ArrowTable(schema, (pyarrow.table(_columns(group), schema=schema) for group in _groups(table_rows(run))))


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as problem:
        raise MissingExtra("typed columns need pyarrow, which is not installed", hint="pip install 'assay[tables]'") from problem


def _schema(pyarrow: Any, metadata: Mapping[str, str]) -> Any:
    text, texts = pyarrow.string(), pyarrow.list_(pyarrow.string())
    kinds = {
        "text": text,
        "json": text,
        "number": pyarrow.float64(),
        "count": pyarrow.int64(),
        "truth": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "texts": texts,
    }
    kinds["scores"] = pyarrow.list_(pyarrow.struct([(name, kinds[kind]) for name, kind in SCORE_MEMBERS.items()]))
    return pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()], metadata=dict(metadata))


def _columns(group: list[Line]) -> dict[str, list[Any]]:
    return {name: [_value(row, name, kind) for row in group] for name, kind in COLUMNS.items()}


def _value(row: Line, name: str, kind: Kind) -> Any:
    value = row[name]
    if value is None:
        return None
    if kind == "scores":
        return list(whole_scores(row))
    if kind == "time":
        return datetime.fromisoformat(value)
    return msgspec.json.encode(value).decode() if kind == "json" else value


def _groups(rows: Iterator[Line]) -> Iterator[list[Line]]:
    group: list[Line] = []
    room = GROUP_CHARACTERS
    for row in rows:
        group.append(row)
        room -= len(row["model_response"] or "") + len(row["question"] or "")
        if len(group) == GROUP or room < 0:
            yield group
            group, room = [], GROUP_CHARACTERS
    if group:
        yield group
