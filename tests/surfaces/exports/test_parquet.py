"""Parquet: types, nulls and where it came from."""

import io
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.surfaces.exports import EXPORTS
from assay.surfaces.exports.text_tables import ExportProgress
from tests.engine.graded_runs import question
from tests.engine.run_settings import write_rows
from tests.surfaces.exports.exported_runs import FORMULAS, ODD, hostile_run

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def table(run: api.RunReader) -> Any:
    return parquet.read_table(io.BytesIO(b"".join(EXPORTS["parquet"].write(run, ExportProgress()))))


def test_texts_are_as_they_were(tmp_path: Path) -> None:
    answers = (*FORMULAS, *ODD)
    assert table(hostile_run(tmp_path, *answers))["model_response"].to_pylist() == list(answers)


def test_an_error_is_no_score(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", question("q0"))
    options = {"model": "scripted/fail-authentication_error", "run_id": "failed", "runs_dir": str(tmp_path / "runs")}
    api.run(dataset, **options)
    (row,) = table(api.open_run("failed", runs_dir=tmp_path / "runs")).to_pylist()
    assert (row["score"], row["raw_score"], row["passed"], row["status"]) == (None, None, None, "evaluation_error")


def test_the_schema_says_which_run_it_is_of(tmp_path: Path) -> None:
    run = hostile_run(tmp_path, "A")
    metadata = table(run).schema.metadata
    assert metadata[b"assay.run_id"] == b"hostile"
    assert metadata[b"assay.manifest_sha256"].decode() == run.run_manifest.own_hash
