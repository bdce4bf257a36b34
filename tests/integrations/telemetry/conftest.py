"""A folder with a dataset, and a run that a collector has heard of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.testing import example_dataset
from tests.integrations.telemetry.collector import Collector, collector
from tests.integrations.telemetry.traced import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a golden dataset."""
    monkeypatch.chdir(tmp_path)
    Path("golden.json").write_bytes(example_dataset("golden_v1"))
    return tmp_path


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """What a collector got of one run."""
    with pytest.MonkeyPatch.context() as patch, collector() as found:
        patch.chdir(tmp_path_factory.mktemp("seen"))
        Path("golden.json").write_bytes(example_dataset("golden_v1"))
        result = run(found.url)
        assert (result.exit_code, result.stderr) == (0, "")
        yield found
