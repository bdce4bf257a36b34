"""The dataset that a finished run holds, as a file."""

import shutil
from pathlib import Path

import msgspec
import pytest

from assay import api
from assay.core.contract import CONTRACTS
from assay.core.errors import UsageProblem
from tests.commands import assay
from tests.engine.finalization.test_input_dataset import EARLIER, document, example, run, stored
from tests.engine.run_settings import write_golden


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A run that version 1 of the artifacts was written for, as it was sealed then."""
    shutil.copytree(EARLIER, tmp_path / "runs" / "earlier")
    return tmp_path / "runs"


def test_an_export_names_the_options_that_its_file_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(write_golden(tmp_path / "g.json", 6), "few", limit=2)
    run(tmp_path / "g.json", "all")
    assert "validate and run the file with --allow-size" in assay("export", "few", "--as", "dataset").stderr
    assert assay("validate", "few.json").exit_code == 1
    assert assay("validate", "few.json", "--allow-size").exit_code == 0
    assert "--allow-size" not in assay("export", "all", "--as", "dataset").stderr


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
def test_an_exported_dataset_is_one_of_its_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contract: str) -> None:
    monkeypatch.chdir(tmp_path)
    first = run(example(tmp_path, contract), "first")
    suffix = "jsonl" if contract == "legal_eval_v1" else "json"
    assert assay("export", "first", "--as", "dataset").exit_code == 0
    report = api.validate(tmp_path / f"first.{suffix}")
    assert (report.contract, report.is_valid) == (contract, True)
    if contract == "legal_eval_v1":
        assert (tmp_path / "first.jsonl").read_bytes().splitlines() == [msgspec.json.encode(row) for row in document(first)["rows"]]
    else:
        assert (tmp_path / "first.json").read_bytes() == stored(first).read_bytes()


def test_a_run_of_an_earlier_version_exports_no_dataset_and_says_why(earlier: Path) -> None:
    with pytest.raises(UsageProblem, match="sealed by an earlier version"):
        api.StoredDataset(api.open_run("earlier", runs_dir=earlier))
