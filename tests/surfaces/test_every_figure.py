"""Every figure of a run's metrics is shown by somebody: a report, a page, an export, MLflow."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.integrations.mlflow.run_data import run_data_of
from assay.presentation.run import run_sections
from assay.presentation.run_report import view_of
from assay.surfaces.exports.summary_rows import summary_rows
from assay.surfaces.pages.page_renderer import FileLinks
from assay.surfaces.pages.run import run_page
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text
from tests.engine.run_settings import batch_record, write_batch

NOT_SHOWN = {
    r"(valid|evaluated|failed|cancelled)_records": "the same counts are read from the manifest",
    r"flags\..*": "a flag is seen at the records that have it",
    r".*interval\.level": "every interval is of 95 %, and every report says so",
    r".*(agreement|pass_at_k\.\d|pass_hat_k\.\d)\.interval\.n": "records, as of the run as a whole",
    r"repeats\..*\.standard_error": "its interval is shown",
    r"judges\..*": "a judge has a row, too short for everything",
    r"panel\.quorum": "a setting, shown among them",
    r"repeats\.n_complete": "the records that are not left out, which is shown",
    r"repeats\.passes\.\d\.passes": "counts from 0, shown in that order",
    r"repeats\.variance\..*": "their share, the intraclass correlation, is shown",
    r"tokens\.cached\.n_unknown": "the same as for all tokens",
}
"""Figures that only the file itself has, and why."""


def leaves(found: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The place of every number."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, value in inner:
        yield from leaves(value, *path, name)
    if isinstance(found, int | float) and not isinstance(found, bool):
        yield path


def changed(found: Any, path: tuple[str | int, ...]) -> Any:
    """The same with another number in one place."""
    if not path:
        return found + 1
    copy = found.copy()
    copy[path[0]] = changed(found[path[0]], path[1:])
    return copy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with repeats, clusters, judges and a record that failed."""
    folder = tmp_path_factory.mktemp("figures")
    records = [{**batch_record(name), "metadata": {"book": name[0]}} for name in ("a1", "a2", "b1", "c1")]
    write_batch(folder / "d.json", *records, {"record_id": "broken", "input": {}})
    settings = {
        "datasets": ["d.json"],
        "candidates": ["scripted/echo"],
        "judges": ["scripted/judge-4", "scripted/judge-5"],
        "cluster_key": "book",
        "repeat": 2,
    }
    (folder / "run.json").write_text(json.dumps(settings))
    api.run(folder / "run.json", run_id="x", runs_dir=str(folder / "runs"))
    (folder / "runs" / "x" / "metrics_summary.json").chmod(0o600)
    return folder / "runs"


def shown(runs: Path) -> list[object]:
    """All that is shown of the run."""
    run = api.open_run("x", runs_dir=runs)
    view = view_of(run, is_verbose=True)
    return [
        "".join(report_text(run_sections(view, is_verbose=True), ReportSettings(version="1", is_verbose=True))),
        run_page(view, place=FileLinks(), moments=run.moments, files={}),
        list(summary_rows(run)),
        run_data_of(run).metrics,
    ]


def test_every_figure_is_shown_by_somebody(folder: Path) -> None:
    path = folder / "x" / "metrics_summary.json"
    # What records without a score could change is shown only where there are some.
    metrics = {**json.loads(path.read_text()), "n_unscored": 1}
    path.write_text(json.dumps(metrics))
    before, hidden = shown(folder), []
    for place in leaves(metrics):
        path.write_text(json.dumps(changed(metrics, place)))
        hidden += [".".join(map(str, place))] * (shown(folder) == before)
    assert [name for name in hidden if not any(re.fullmatch(known, name) for known in NOT_SHOWN)] == []
    assert [known for known in NOT_SHOWN if not any(re.fullmatch(known, name) for name in hidden)] == []
