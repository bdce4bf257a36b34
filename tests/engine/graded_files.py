"""Runs with several graders, over answers that are given."""

import json
from pathlib import Path
from typing import Any

import assay
from tests.engine.run_settings import write_rows

PROMPT = "Is it polite?\n\n{{question}}\n\n{{answer}}\n"
PASS = '{"verdict": "pass", "reason": "polite"}'
PLUGIN = """
def polite(record, answer):
    if "!" in answer:
        raise ValueError("too loud")
    return {"score": 0.5, "scores": {"tone": 0.9, "length": 0.1}}
"""
GRADERS: tuple[dict[str, Any], ...] = (
    {"name": "form", "primary": True, "checks": [{"name": "exact", "type": "equals"}]},
    {"name": "polite", "plugin": "own.py:polite"},
    {
        "name": "house",
        "judge": {"provider": "scripted", "model": f"say-{PASS}", "name": "J"},
        "prompt": "own.txt",
        "scale": "pass_fail",
    },
)


def row(row_id: str, reference: str, **members: Any) -> dict[str, Any]:
    """A row of reference_qa."""
    head = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "caps", "task_type": "reference_qa", "prompt": "Where?"}
    return {**head, "reference_answers": [reference], **members}


def run_file(folder: Path, *, answers: dict[str, str] | None = None, **settings: Any) -> Path:
    """A run file with three graders, next to its dataset, prompt, plugin and answers."""
    given = answers or {"a": "Paris", "b": "Lyon!"}
    write_rows(folder / "caps.jsonl", *(row(name, "Paris") for name in given))
    lines = ({"example_id": name, "candidate_name": "m", "response_text": text} for name, text in given.items())
    write_rows(folder / "answers.jsonl", *lines)
    (folder / "own.txt").write_text(PROMPT, encoding="utf-8")
    (folder / "own.py").write_text(PLUGIN, encoding="utf-8")
    path = folder / "run.json"
    run = {"runs_dir": str(folder / "runs"), "responses": "answers.jsonl", **settings.pop("run", {})}
    document = {"datasets": ["caps.jsonl"], "run": run, "graders": list(GRADERS), **settings}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def graded(folder: Path, **settings: Any) -> assay.Run:
    """A finished run of such a file."""
    [run] = assay.run(run_file(folder, **settings))
    return run


def lines(run: assay.Run, name: str = "predictions.jsonl") -> list[dict[str, Any]]:
    """Lines of an artifact."""
    return [json.loads(line) for line in (Path(run.run_dir) / name).read_text(encoding="utf-8").splitlines()]


def metrics(run: assay.Run, name: str = "metrics_summary.json") -> dict[str, Any]:
    """An artifact that is one document."""
    found: dict[str, Any] = json.loads((Path(run.run_dir) / name).read_text(encoding="utf-8"))
    return found
