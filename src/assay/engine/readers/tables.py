"""Records of a run or a dataset as tables with columns of known kinds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.errors import MissingExtra
from assay.core.report import ValidationReport
from assay.core.version import __version__
from assay.engine.readers.record_search import question_of
from assay.engine.readers.run_reader import RunReader

ColumnKind = Literal["text", "number", "count", "truth", "time", "texts", "json", "scores", "messages", "criteria", "choices"]

SCORE_MEMBERS: Mapping[str, ColumnKind] = {
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
LISTS: Mapping[str, Mapping[str, ColumnKind]] = {
    "scores": SCORE_MEMBERS,
    "messages": {"role": "text", "content": "text"},
    "criteria": {"id": "text", "title": "text", "description": "text", "weight": "number"},
    "choices": {"id": "text", "text": "text"},
}
"""Kinds that are lists of objects, with the members of each."""

GROUP = 5_000
GROUP_CHARACTERS = 8 << 20
"""Rows and characters per column group: large enough to compress well, small enough for memory."""


class RecordTable(msgspec.Struct, frozen=True, kw_only=True):
    """Table whose rows are read again for each iteration."""

    name: str
    columns: Mapping[str, ColumnKind]
    rows: Callable[[], Iterator[JsonObject]]
    """A value for each column, None where there is none; entries of lists have all their members."""
    facts: Mapping[str, str]
    """Name and provenance of the table, for readers who have only the file."""


class ArrowTable(msgspec.Struct, frozen=True):
    """Table in columns, a few thousand rows at a time."""

    schema: Any
    """A `pyarrow.Schema`; its metadata has the facts of the table, each name beginning with `assay.`."""
    groups: Iterator[Any]
    """The rows, as `pyarrow.Table`."""


def arrow_of(table: RecordTable) -> ArrowTable:
    """Convert a table to typed, nullable columns; raises MissingExtra without pyarrow."""
    pyarrow = _pyarrow()
    metadata = {f"assay.{name}": fact for name, fact in table.facts.items()}
    kinds = _arrow_kinds(pyarrow)
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in table.columns.items()], metadata=metadata)
    return ArrowTable(schema, (pyarrow.table(_columns(group, table), schema=schema) for group in _groups(table.rows())))


def typed(row: Mapping[str, object], columns: Mapping[str, ColumnKind]) -> dict[str, object]:
    """Convert a row's values for typed columns: times to datetimes, free-form values to JSON."""
    return {name: _value(row[name], kind) for name, kind in columns.items()}


def _pyarrow() -> Any:
    try:
        # By name: pyarrow is an extra.
        return import_module("pyarrow")
    except ImportError as problem:
        raise MissingExtra("typed columns need pyarrow, which is not installed", hint="pip install 'assay[tables]'") from problem


def _arrow_kinds(pyarrow: Any) -> dict[str, object]:
    kinds = {
        "text": pyarrow.string(),
        "json": pyarrow.string(),
        "number": pyarrow.float64(),
        "count": pyarrow.int64(),
        "truth": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "texts": pyarrow.list_(pyarrow.string()),
    }
    lists = {
        name: pyarrow.list_(pyarrow.struct([(member, kinds[kind]) for member, kind in members.items()]))
        for name, members in LISTS.items()
    }
    return kinds | lists


def _columns(group: Sequence[Mapping[str, object]], table: RecordTable) -> dict[str, list[object]]:
    return {name: [_value(row[name], kind) for row in group] for name, kind in table.columns.items()}


def _value(value: Any, kind: ColumnKind) -> object:
    if value is None:
        return None
    if kind == "time":
        return datetime.fromisoformat(value)
    # Free-form values differ in shape from row to row, which no typed column can hold.
    return msgspec.json.encode(value).decode() if kind == "json" else value


def _estimate_size(value: object) -> int:
    """Estimate the memory that a value takes, in characters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        return sum(map(_estimate_size, value))
    return sum(map(_estimate_size, value.values())) if isinstance(value, dict) else 0


def _groups(rows: Iterator[JsonObject]) -> Iterator[list[dict[str, object]]]:
    group: list[JsonObject] = []
    remaining = GROUP_CHARACTERS
    for row in rows:
        group.append(row)
        # Rows alone are not a bound: a few thousand long answers are more than fits into memory.
        remaining -= sum(map(_estimate_size, row.values()))
        if len(group) == GROUP or remaining < 0:
            yield group
            group, remaining = [], GROUP_CHARACTERS
    if group:
        yield group


COLUMNS: Mapping[str, ColumnKind] = {
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
    "tool_calls": "json",
    "checks": "json",
    "graders": "json",
    "evaluator": "text",
    "policy_id": "text",
    "policy_sha256": "text",
    "template": "text",
    "template_sha256": "text",
    "metadata": "json",
    "record_sha256": "text",
    "response_sha256": "text",
    "stored_sha256": "text",
}
"""Every column with its kind: all members of a prediction, and of the record what was asked and what is right."""

CASE_COLUMNS: Mapping[str, ColumnKind] = {
    "id": "text",
    "index": "count",
    "contract": "text",
    "task": "text",
    "dataset": "text",
    "prompt": "text",
    "messages": "messages",
    "model_context": "text",
    "notes": "text",
    "references": "texts",
    "criteria": "criteria",
    "choices": "choices",
    "correct_choice_ids": "texts",
    "attachments": "json",
    "tools": "json",
    "expected_calls": "json",
    "call_matching": "json",
    "turns": "json",
    "tags": "texts",
    "max_latency_ms": "count",
    "policy_id": "text",
    "metadata": "json",
    "extra": "json",
    "record_sha256": "text",
}
"""The columns of a dataset: a record in the one form that all contracts share."""

_SCORE_DEFAULTS: Mapping[str, Any] = {"weight": 1.0, "justification": "", "judge": "", "confidence": None, "flags": ()}
"""What a line does not say of an entry of `evaluator_scores`."""
_CASE_MEMBERS = ("task", "tags", "references", "correct_choice_ids", "metadata")


def run_columns(run: RunReader) -> dict[str, ColumnKind]:
    """Return the columns of a run: those of every run, and whether each of its checks and graders passed, by name."""
    plan, summary = run.run_manifest.plan, run.result.summary
    checks = getattr(summary, "checks", None) or {check.title: None for check in plan.checks}
    graders = getattr(summary, "graders", None) or {grader.name: None for grader in plan.graders}
    found: dict[str, ColumnKind] = dict(COLUMNS)
    for name in checks:
        found[f"checks.{name}"] = "truth"
    for name in graders:
        found |= {f"graders.{name}": "truth", f"graders.{name}.score": "number"}
    return found


def table_rows(run: RunReader) -> Iterator[JsonObject]:
    """Yield a row for each valid record so far, in order: a value for each column, None where there is none."""
    columns = run_columns(run)
    has_named = len(columns) > len(COLUMNS)
    for line, case in run.pairs():
        prediction = msgspec.to_builtins(line)
        scores = [{**_SCORE_DEFAULTS, **score} for score in prediction["evaluator_scores"]]
        # Every column in every row, since lines leave out members that have no value.
        row = {**dict.fromkeys(columns), **_case_columns(case), **prediction, "evaluator_scores": scores}
        if has_named:
            row |= {f"checks.{check['name']}": check["passed"] for check in prediction.get("checks", ())}
            for grader in prediction.get("graders", ()):
                row |= {f"graders.{grader['name']}": grader["passed"], f"graders.{grader['name']}.score": grader["score"]}
        yield {name: row[name] for name in columns}


def typed_rows(run: RunReader) -> Iterator[dict[str, object]]:
    """Yield the rows with values that a typed column takes: times are times, and what has no shape of its own is JSON."""
    columns = run_columns(run)
    return (typed(row, columns) for row in table_rows(run))


def _case_columns(case: Case) -> dict[str, object]:
    return {"question": question_of(case) or None, **{name: getattr(case, name) for name in _CASE_MEMBERS}}


def run_facts(run: RunReader) -> dict[str, str]:
    """Describe a table to readers without its run: names, versions, times, and the hashes of the run's input."""
    manifest = run.run_manifest
    facts = {
        "run_id": manifest.run_id,
        "status": manifest.status,
        "contract": manifest.contract,
        "dataset_id": manifest.dataset_id,
        "dataset_version": manifest.dataset_version,
        "candidate": manifest.candidate.name,
        "model": manifest.model,
        "temperature": manifest.temperature,
        "seed": manifest.seed,
        "judges": ", ".join(judge.name for judge in manifest.judges),
        "profile": manifest.profile and manifest.profile.id,
        "created_at": manifest.created_at,
        "completed_at": manifest.completed_at,
        "assay_version": manifest.assay_version,
        "evaluator_version": manifest.evaluator_version,
        "dataset_sha256": ", ".join(dataset.sha256 for dataset in manifest.plan.datasets),
        "manifest_sha256": manifest.own_hash,
        "plan_sha256": manifest.plan_sha256,
        "records_merkle_root": manifest.records_merkle_root,
        "attempt_chain_sha256": manifest.attempt_chain_sha256,
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def run_table(run: RunReader) -> RecordTable:
    """Return the records of a run."""
    return RecordTable(name=run.folders.run_id, columns=run_columns(run), rows=lambda: table_rows(run), facts=run_facts(run))


def arrow_table(run: RunReader) -> ArrowTable:
    """Return the records of a run as typed columns, each of which may be null; raises MissingExtra without pyarrow."""
    return arrow_of(run_table(run))


def case_table(report: ValidationReport, *, sha256: str) -> RecordTable:
    """Return the accepted records of a dataset."""
    head = {name: str(report.head[name]) for name in ("dataset_id", "dataset_version") if report.head.get(name)}
    facts = {"contract": report.contract or "", **head, "dataset_sha256": sha256, "assay_version": __version__}
    name = head.get("dataset_id") or next((case.dataset for case in report.cases), "")
    return RecordTable(name=name, columns=CASE_COLUMNS, rows=lambda: map(_case_row, report.cases), facts=facts)


def _case_row(case: Case) -> dict[str, object]:
    row: JsonObject = msgspec.to_builtins(case)
    # Members of cases with tools are left out where there are none.
    return {name: row.get(name) for name in CASE_COLUMNS}
