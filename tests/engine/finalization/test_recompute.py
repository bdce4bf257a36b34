"""Figures that are recomputed from the artifacts, compared with those that were published."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.run_result import RunResult
from tests.engine.finalization.test_artifact_lines import PANEL, document, finished, members
from tests.engine.run_settings import batch_record, write_batch


@pytest.fixture
def with_many_figures(tmp_path: Path) -> RunResult:
    path = write_batch(tmp_path / "d.json", batch_record("a"), batch_record("b"), {"record_id": "broken", "input": {}})
    return finished(path, repeat=2, judges=PANEL)


def replayed(result: RunResult, found: dict[str, Any]) -> list[str]:
    """What differs where the run had published these figures."""
    summary = Path(result.run_dir) / "metrics_summary.json"
    summary.chmod(0o600)
    summary.write_text(json.dumps(found))
    return api.replay("x", runs_dir=summary.parents[1])


def without(found: Any, path: tuple[str, ...]) -> Any:
    name, *deeper = path
    rest = {key: value for key, value in found.items() if key != name}
    return {**rest, name: without(found[name], tuple(deeper))} if deeper else rest


def test_a_figure_that_an_earlier_version_did_not_have_is_no_difference(with_many_figures: RunResult) -> None:
    found = document(with_many_figures, "metrics_summary.json")
    paths = members(found)
    assert ("latency_ms", "judge", "p50") in paths
    assert [path for path in paths if replayed(with_many_figures, without(found, path))] == []


def test_a_figure_that_a_run_has_must_be_what_its_records_give(with_many_figures: RunResult) -> None:
    found = document(with_many_figures, "metrics_summary.json")
    found["latency_ms"]["judge"]["p50"] = -1.0
    (line,) = replayed(with_many_figures, found)
    assert line.startswith("metrics_summary.json: latency_ms.judge.p50 is -1.0, but the records give ")


def test_an_error_that_is_not_counted_is_a_difference(with_many_figures: RunResult) -> None:
    found = document(with_many_figures, "metrics_summary.json")
    del found["errors"]["invalid_record"]
    assert replayed(with_many_figures, found) == ["metrics_summary.json: errors.invalid_record is None, but the records give 1"]
