"""Artifacts read back, or named where they are damaged or missing."""

from pathlib import Path

import pytest

from assay.core.errors import RunNotFound, StoreUnavailable
from assay.store.published_run import open_run_folder
from tests.store.samples import sealed_run


def test_lines_and_documents_are_read_back(tmp_path: Path) -> None:
    run = open_run_folder(sealed_run(tmp_path))
    assert [line["record_id"] for line in run.lines("predictions.jsonl")] == ["q0", "q1", "q2"]
    assert run.document("metrics_summary.json") == {"name": "metrics_summary.json"}
    assert (run.members["run_id"], run.purged()) == ("r1", ())


def test_a_damaged_or_missing_artifact_is_named_when_read(tmp_path: Path) -> None:
    run = open_run_folder(sealed_run(tmp_path))
    (run.path / "failures.jsonl").chmod(0o644)
    (run.path / "failures.jsonl").write_bytes(b"{")
    with pytest.raises(StoreUnavailable, match="is damaged"):
        list(run.lines("failures.jsonl"))
    (run.path / "failures.jsonl").unlink()
    with pytest.raises(RunNotFound, match="is missing"):
        list(run.lines("failures.jsonl"))
