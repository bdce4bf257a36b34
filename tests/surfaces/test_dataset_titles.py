"""A dataset is called by its id and version wherever a run is shown, with the name of its file next to it."""

import json
from pathlib import Path

import pytest

from assay import api
from assay.integrations.mlflow.run_data import run_data_of
from assay.surfaces.pages.runs import RunsChoice, runs_view
from assay.surfaces.server.server import PLACE
from tests.commands import assay, document
from tests.engine.run_settings import batch_record, write_batch, write_golden

MODELS = ("--model", "scripted/echo", "--judge", "scripted/judge-5", "--quiet")
TITLE = "support v7 (answers.json)"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs over a document whose file is called otherwise than the dataset in it."""
    monkeypatch.chdir(tmp_path)
    write_batch(Path("answers.json"), batch_record("a"))
    for name in ("x", "y"):
        assert assay("run", "answers.json", *MODELS, "--run-id", name).exit_code in (0, 1)
    return tmp_path


def test_reports_name_id_version_contract_and_file() -> None:
    line = "dataset     support · v7 · batch_v1 · answers.json\n"
    assert line in assay("show", "x").stdout
    assert line in assay("run", "answers.json", *MODELS, "--run-id", "z").stdout


def test_lists_and_comparisons_name_id_version_and_file() -> None:
    assert TITLE in assay("runs").stdout
    assert f"dataset     {TITLE}\n" in assay("compare", "x", "y").stdout
    (listed, *_) = document(assay("runs", "--json"))["runs"]
    assert (listed["dataset"], listed["dataset_version"], listed["dataset_file"]) == ("support", "v7", "answers.json")


def test_the_page_of_runs_has_version_and_file_next_to_the_id() -> None:
    view = runs_view(list(api.list_runs("runs")), RunsChoice(), place=PLACE, server_address="http://localhost")
    assert [(row.dataset, row.words.dataset_note) for row in view.rows] == [("support", "v7 (answers.json)")] * 2


def test_lists_say_how_many_datasets_a_run_has_besides_the_first() -> None:
    names = [f"a-file-with-a-long-name-{number}.json" for number in range(4)]
    for name in names:
        write_batch(Path(name), batch_record(name[-6]))
    assert assay("run", *names, *MODELS, "--run-id", "several").exit_code in (0, 1)
    listed = {run["run_id"]: run for run in document(assay("runs", "--json"))["runs"]}
    assert (listed["several"]["dataset_count"], listed["x"]["dataset_count"]) == (4, 1)
    assert listed["several"]["dataset"] == "support"
    (line,) = [line for line in assay("runs").stdout.splitlines() if "several" in line]
    assert " and 3 more" in line
    rows = runs_view(list(api.list_runs("runs")), RunsChoice(), place=PLACE, server_address="http://localhost").rows
    assert {row.run_id: row.words.dataset_note for row in rows} == {
        "several": "v7 (a-file-with-a-long-name-0.json) and 3 more",
        "x": "v7 (answers.json)",
        "y": "v7 (answers.json)",
    }


def test_mlflow_has_the_dataset_as_tags_and_as_a_parameter() -> None:
    found = run_data_of(api.open_run("x", runs_dir="runs"))
    tags = {name.removeprefix("assay."): value for name, value in found.tags.items()}
    assert (tags["dataset"], tags["dataset_id"], tags["dataset_version"]) == (TITLE, "support", "v7")
    assert found.parameters["dataset"] == "support"


def test_a_file_that_is_called_like_its_dataset_is_named_too() -> None:
    write_golden(Path("golden.json"))
    assert "dataset     golden · 1.2.3 · golden_v1 · golden.json\n" in assay("run", "golden.json", *MODELS, "--run-id", "g").stdout


def test_a_run_of_an_earlier_version_is_called_by_the_file_of_its_path(folder: Path) -> None:
    path = folder / "runs" / "x" / "run_manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["plan"]["datasets"][0]["file"]
    path.chmod(0o644)
    path.write_text(json.dumps(manifest))
    assert "support · v7 · batch_v1 · answers.json" in assay("show", "x").stdout
