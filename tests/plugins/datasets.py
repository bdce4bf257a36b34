"""Small datasets and short ways to run functions over them."""

from pathlib import Path
from typing import Any

import assay
from tests.engine.run_settings import write_rows

Line = dict[str, Any]


def question(number: int, **members: Any) -> Line:
    """A row whose reference is the last word of its prompt."""
    row = {"schema_version": "legal_eval_v1", "id": f"q:{number}", "dataset": "words", "task_type": "reference_qa"}
    return {**row, "prompt": f"Say word{number}", "reference_answers": [f"word{number}"], **members}


def words(folder: Path, count: int = 3) -> Path:
    """A dataset of so many questions."""
    return write_rows(folder / "words.jsonl", *(question(number) for number in range(count)))


def run_words(folder: Path, count: int = 3, **options: Any) -> assay.Run:
    """A run over so many questions."""
    (result,) = assay.run(words(folder, count), runs_dir=str(folder / "runs"), **options)
    return result


def predictions(result: assay.Run | assay.RunResult) -> list[Line]:
    """Records by result."""
    return list(assay.open_run(result.run_dir).predictions())


def attempts(result: assay.Run | assay.RunResult) -> list[Line]:
    """What was tried."""
    run = assay.open_run(result.run_dir)
    return [attempt for line in run.predictions() for attempt in run.attempts(line["record_id"])]
