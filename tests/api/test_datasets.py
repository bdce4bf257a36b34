"""Datasets as tables: every contract in one form, and nothing lost on the way."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import assay
from assay import api
from assay.core.case import Case
from assay.core.contract import CONTRACTS
from assay.surfaces.cli.program import program
from assay.testing import example_dataset

parquet = pytest.importorskip("pyarrow.parquet")

FILES = {name: f"rows.{contract.formats[0]}" for name, contract in CONTRACTS.items()}


def export(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["export", *arguments], prog_name="assay")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(contract: str) -> list[Case]:
    """A dataset of a contract; the cases in it."""
    Path(FILES[contract]).write_bytes(example_dataset(contract))
    return list(assay.validate(FILES[contract]).cases)


def test_every_member_of_a_case_has_a_column() -> None:
    write("golden_v1")
    assert set(Case.__struct_fields__) - {"sample", "open_fields"} == set(api.dataset_table("rows.json").columns)


@pytest.mark.parametrize("contract", FILES)
def test_a_dataset_of_any_contract_is_a_table(contract: str) -> None:
    cases = write(contract)
    result = export(FILES[contract], "-o", "rows.parquet")
    rows = parquet.read_table("rows.parquet").to_pylist()
    assert (result.exit_code, result.stdout.endswith(f", {len(cases)} record{'s' * (len(cases) > 1)})\n")) == (0, True)
    assert [(row["id"], row["prompt"], row["record_sha256"]) for row in rows] == [
        (case.id, case.prompt, case.record_sha256) for case in cases
    ]
    assert [[entry["title"] for entry in row["criteria"]] for row in rows] == [
        [criterion.title for criterion in case.criteria] for case in cases
    ]


def test_csv_and_lines_have_the_same_records() -> None:
    cases = write("batch_v1")
    export("rows.json", "-o", "table.csv")
    export("rows.json", "-o", "table.jsonl")
    with Path("table.csv").open(encoding="utf-8", newline="") as file:
        table = [row["id"] for row in csv.DictReader(file)]
    lines = [json.loads(line)["id"] for line in Path("table.jsonl").read_text(encoding="utf-8").splitlines()]
    assert table == lines == [case.id for case in cases]


def test_their_library_loads_the_folder_of_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets: Any = pytest.importorskip("datasets")
    cases = write("golden_v1")
    assert export("rows.json", "--format", "hf").stdout.startswith("rows-hf (")
    records = datasets.load_dataset(str(tmp_path / "rows-hf"), split="test", cache_dir=str(tmp_path / "cache"))
    assert records["id"][:] == [case.id for case in cases]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rows.json", "-o", "rows.xlsx"), "xlsx is for runs, and 'rows.json' is a dataset"),
        (("rows.json", "--format", "jsonl", "-o", "rows.json", "--force"), "is one of the sources"),
        (("broken.json", "-o", "table.csv"), "'broken.json' is not valid: 1 error"),
    ],
)
def test_what_cannot_be_a_table_is_refused(arguments: tuple[str, ...], said: str) -> None:
    write("golden_v1")
    Path("broken.json").write_text('{"records": [', encoding="utf-8")
    result = export(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
