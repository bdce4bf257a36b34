"""The folder for Hugging Face, loaded with their library and without a network."""

from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.surfaces.exports.parquet import write_run_folder
from assay.surfaces.exports.text_tables import ExportProgress
from tests.surfaces.exports.exported_runs import FORMULAS, ODD, hostile_run

pytest.importorskip("pyarrow")


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library, with its cache in a folder of the test."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return pytest.importorskip("datasets")


def loaded(datasets: Any, run: api.RunReader, folder: Path) -> Any:
    folder.mkdir()
    write_run_folder(run, folder, ExportProgress())
    return datasets.load_dataset(str(folder), split="test", cache_dir=str(folder.parent / "cache"))


def test_their_library_loads_the_folder_as_it_is(tmp_path: Path, datasets: Any) -> None:
    answers = (*FORMULAS, *ODD, "A", "B")
    records = loaded(datasets, hostile_run(tmp_path, *answers), tmp_path / "folder")
    assert records["model_response"][:] == list(answers)
    assert records["score"][-2:] == [1.0, 0.0]
    assert records[-1]["evaluator_scores"][0]["weight"] == 1.0


def test_the_card_declares_the_features_that_the_file_has(tmp_path: Path, datasets: Any) -> None:
    records = loaded(datasets, hostile_run(tmp_path, "A"), tmp_path / "folder")
    declared = datasets.load_dataset_builder(str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache")).info.features
    plain = datasets.Dataset.from_parquet(str(next((tmp_path / "folder" / "data").iterdir())), cache_dir=str(tmp_path / "other"))
    assert records.features == declared == plain.features


def test_the_card_names_run_figures_and_whole_hashes(tmp_path: Path) -> None:
    run = hostile_run(tmp_path, "A", "B")
    (tmp_path / "folder").mkdir()
    write_run_folder(run, tmp_path / "folder", ExportProgress())
    card = (tmp_path / "folder" / "README.md").read_text(encoding="utf-8")
    assert "| pass_rate | 50.0 % [9.5 %, 90.5 %] | 2 |" in card
    assert run.run_manifest.own_hash in card
