"""Every import of these tests happens in a folder of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_RUNS_DIR", raising=False)
    return tmp_path
