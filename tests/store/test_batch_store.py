"""Batches in the ledger: named before anything leaves."""

from pathlib import Path

import pytest

from assay.core.errors import ServerProblem
from tests.engine.batch_runs import ledger_rows, run, write_run
from tests.models.batch_provider import BatchProvider, Refused


def test_the_ledger_names_batch_and_requests_before_anything_leaves(tmp_path: Path) -> None:
    with BatchProvider(meddle=lambda _, path, __: Refused(401) if path == "/v1/files" else None) as provider:
        run_file = write_run(tmp_path, provider)
        with pytest.raises(ServerProblem, match="unauthorized"):
            run(run_file)
    assert len(ledger_rows(run_file, "SELECT custom_id FROM batch_request")) == 6
