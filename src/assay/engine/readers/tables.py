"""The records of a run, or of a dataset, as the rows of a table."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.report import ValidationReport
from assay.core.version import __version__
from assay.engine.readers.columns import ArrowTable, Kind, RecordTable, arrow_of, typed
from assay.engine.readers.record_search import question_of
from assay.engine.readers.run_reader import RunReader

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
    "policy_sha256": "text",
    "template": "text",
    "template_sha256": "text",
    "metadata": "json",
    "record_sha256": "text",
    "response_sha256": "text",
    "stored_sha256": "text",
}
"""Every column with its kind: all members of a prediction, and of the record what was asked and what is right."""

CASE_COLUMNS: Mapping[str, Kind] = {
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


def table_rows(run: RunReader) -> Iterator[JsonObject]:
    """A row for each valid record so far, in order: a value for each column, None where there is none."""
    for line, record in run.pairs():
        scores = [{**_SCORE_DEFAULTS, **score} for score in line["evaluator_scores"] or ()]
        yield {**dict.fromkeys(COLUMNS), **_case_columns(record), **line, "evaluator_scores": scores}


def typed_rows(run: RunReader) -> Iterator[JsonObject]:
    """As `table_rows`, with values that a typed column takes: times are times, and what has no shape of its own is JSON."""
    return (typed(row, COLUMNS) for row in table_rows(run))


def _case_columns(record: JsonObject) -> JsonObject:
    return {"question": question_of(record) or None, **{name: record.get(name) for name in _CASE_MEMBERS}}


def run_facts(run: RunReader) -> dict[str, str]:
    """What a table is about, for whoever finds it without its run: names, versions, times, and hashes of what it was made from."""
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
        "dataset_sha256": ", ".join(dataset["sha256"] for dataset in manifest.plan.get("datasets", ())),
        "manifest_sha256": manifest.own_hash,
        "plan_sha256": manifest.plan_sha256,
        "records_merkle_root": manifest.records_merkle_root,
        "attempt_chain_sha256": manifest.attempt_chain_sha256,
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def run_table(run: RunReader) -> RecordTable:
    """The records of a run."""
    return RecordTable(name=run.folders.run_id, columns=COLUMNS, rows=lambda: table_rows(run), facts=run_facts(run))


def arrow_table(run: RunReader) -> ArrowTable:
    """The records of a run as typed columns, each of which may be null; raises MissingExtra without pyarrow."""
    return arrow_of(run_table(run))


def case_table(report: ValidationReport, *, sha256: str) -> RecordTable:
    """The accepted records of a dataset."""
    head = {name: str(report.head[name]) for name in ("dataset_id", "dataset_version") if report.head.get(name)}
    facts = {"contract": report.contract or "", **head, "dataset_sha256": sha256, "assay_version": __version__}
    name = head.get("dataset_id") or next((case.dataset for case in report.cases), "")
    return RecordTable(name=name, columns=CASE_COLUMNS, rows=lambda: map(_case_row, report.cases), facts=facts)


def _case_row(case: Case) -> JsonObject:
    row: JsonObject = msgspec.to_builtins(case)
    return {name: row[name] for name in CASE_COLUMNS}
