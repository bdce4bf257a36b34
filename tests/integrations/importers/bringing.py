"""Imports for tests: fixture files in, a dataset's rows, a run and the report out."""

import json
from pathlib import Path
from typing import Any

from assay import api
from tests.commands import assay

FIXTURES = Path(__file__).parents[3] / "examples" / "imports"


def brought(*sources: str | Path, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON document of `assay import` over files of the fixtures, or of a path."""
    result = assay("import", *(str(FIXTURES / source) for source in sources), *options, "--json")
    assert result.exit_code in (0, 1), result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def rows_of(*sources: str | Path, options: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """The rows of the legal_eval_v1 dataset that an import writes, by id, after validation found nothing wrong with it."""
    brought(*sources, options=("-o", "rows.jsonl", *options))
    report = api.validate("rows.jsonl", "legal_eval_v1")
    assert (report.outcome, report.issues) == ("accepted", ())
    return {row["id"]: row for row in map(json.loads, Path("rows.jsonl").read_text().splitlines())}


def run_of(*sources: str | Path, options: tuple[str, ...] = ()) -> api.RunReader:
    """The only run of an import."""
    [run] = brought(*sources, options=("--run", *options))["runs"]
    return api.open_run(run["run_id"])


def predictions_of(run: api.RunReader) -> dict[tuple[str, int], dict[str, Any]]:
    """The predictions of a run by record and sample."""
    lines = map(json.loads, (run.folders.sealed / "predictions.jsonl").read_text().splitlines())
    return {(line["record_id"], line.get("sample", 0)): line for line in lines}
