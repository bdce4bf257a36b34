"""Finished runs over multiple-choice questions whose answers are given, so that every score is known beforehand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import api
from assay.core.run_result import RunResult
from tests.engine.run_settings import mcq_row, write_rows

RIGHT, WRONG = "A", "B"
CORRECT, INCORRECT = "limitation period", "something different"


def question(row_id: str, **metadata: Any) -> dict[str, Any]:
    """A question whose right answer is A; `prompt` replaces its words."""
    row = mcq_row(row_id)
    prompt = metadata.pop("prompt", None)
    return {**row, **({} if prompt is None else {"prompt": prompt}), "metadata": {**row.get("metadata", {}), **metadata}}


def graded(folder: Path, run_id: str, rows: Sequence[dict[str, Any]], answers: Mapping[str, str], **options: Any) -> RunResult:
    """A run in which each row of `answers` has that answer."""
    dataset = write_rows(folder / "law.jsonl", *rows)
    given = [{"example_id": name, "candidate_name": "big", "response_text": text} for name, text in answers.items()]
    responses = write_rows(folder / f"{run_id}-answers.jsonl", *given)
    (result,) = api.run(dataset, responses=str(responses), run_id=run_id, runs_dir=str(folder / "runs"), **options)
    return result


def passing(rows: Sequence[dict[str, Any]], *failing: int) -> dict[str, str]:
    """Right answers to all rows but those at the given places."""
    return {row["id"]: WRONG if place in failing else RIGHT for place, row in enumerate(rows)}


def open_question(row_id: str, **metadata: Any) -> dict[str, Any]:
    """A question that a judge grades; `CORRECT` is what its reference says."""
    prompt = metadata.pop("prompt", "Is it?")
    row = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "law", "task_type": "reference_qa", "prompt": prompt}
    return {**row, "reference_answers": [CORRECT], "metadata": metadata}


def judged(folder: Path, run_id: str, rows: Sequence[dict[str, Any]], answers: Mapping[str, str], **options: Any) -> RunResult:
    """A run in which a judge gives each answer 1 where it has the words of the reference, and 0 otherwise."""
    return graded(folder, run_id, rows, answers, judge="scripted/judge-sound", **options)


def answering(rows: Sequence[dict[str, Any]], *failing: int) -> dict[str, str]:
    """Answers that the judge passes to all rows but those at the given places."""
    return {row["id"]: INCORRECT if place in failing else CORRECT for place, row in enumerate(rows)}


def group(
    folder: Path, name: str, rows: Sequence[dict[str, Any]], answers: Mapping[str, Mapping[str, str]], **options: Any
) -> tuple[RunResult, ...]:
    """Runs of several candidates that were started together, with the answers of each by its name."""
    dataset = write_rows(folder / "law.jsonl", *rows)
    given = [
        {"example_id": row_id, "candidate_name": candidate, "response_text": text}
        for candidate, texts in answers.items()
        for row_id, text in texts.items()
    ]
    responses = write_rows(folder / f"{name}-answers.jsonl", *given)
    return api.run(dataset, responses=str(responses), run_id=name, runs_dir=str(folder / "runs"), **options)
