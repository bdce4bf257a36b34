"""Small datasets, run files and requests that the tests of planning are made of."""

import json
from pathlib import Path
from typing import Any

from assay.engine.planning.plans import PlannedRuns, plan_runs
from assay.engine.planning.request import PlanProblems, RunRequest

JUDGE = "scripted/judge-5"


def mcq_row(row_id: str, **members: Any) -> dict[str, Any]:
    """A legal_eval_v1 row that needs no judge."""
    choices = [{"id": "A", "text": "Yes"}, {"id": "B", "text": "No"}]
    row = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "law", "task_type": "mcq", "prompt": "Is it?"}
    return {**row, "choices": choices, "correct_choice_ids": ["A"], **members}


def write_rows(path: Path, *rows: dict[str, Any]) -> Path:
    """Rows as a JSONL file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_golden(path: Path, count: int = 5) -> Path:
    """A golden dataset with so many cases."""
    cases = [{"id": f"case-{n}", "user_prompt": f"What is {n}+{n}?", "rubric": f"The answer is {2 * n}."} for n in range(count)]
    path.write_text(json.dumps({"version": "1.2.3", "cases": cases}), encoding="utf-8")
    return path


def write_batch(path: Path, *records: dict[str, Any]) -> Path:
    """A batch_v1 document."""
    head = {"schema_version": "1.0", "dataset_id": "support", "dataset_version": "v7", "created_at": "2026-01-01T00:00:00Z"}
    path.write_text(json.dumps({**head, "records": list(records)}), encoding="utf-8")
    return path


def batch_record(record_id: str) -> dict[str, Any]:
    """A valid record of batch_v1."""
    return {"record_id": record_id, "input": {"prompt": "Say hello"}, "reference": {"answer": "Hello"}}


def planned(request: RunRequest, **environ: str) -> PlannedRuns:
    """The runs of a request, with ids that count from 1."""
    ids = iter(f"run_{number}" for number in range(1, 100))
    return plan_runs(request, environ=environ, now=1_700_000_000.0, new_run_id=lambda: next(ids))


def problems_of(request: RunRequest, **environ: str) -> tuple[str, ...]:
    """What keeps a request from being planned."""
    try:
        planned(request, **environ)
    except PlanProblems as problem:
        return problem.problems
    return ()
