"""Parquet, and datasets that were saved to disk."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

from assay.core.errors import SourceUnreadable
from assay.datasets.dataset_paths import open_dataset
from assay.datasets.parsing.source import open_source
from assay.datasets.tables.arrow_tables import parquet_table, plain_value, saved_dataset
from assay.datasets.tables.column_roles import ColumnsUnclear

ROWS = {"question": ["Why?", "Who?"], "choices": [["a", "b"], ["c", "d"]], "answer": [0, 1]}
FEATURES = Features({"question": Value("string"), "choices": List(Value("string")), "answer": ClassLabel(names=["A", "B"])})
CELLS = [{"question": "Why?", "choices": ["a", "b"], "answer": "A"}, {"question": "Who?", "choices": ["c", "d"], "answer": "B"}]


@pytest.fixture
def dataset() -> Dataset:
    return Dataset.from_dict(ROWS, features=FEATURES)


def test_a_saved_dataset_is_read_with_the_names_of_its_labels(dataset: Dataset, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "d")
    table = saved_dataset(tmp_path / "d", "")
    assert [dict(row.cells) for row in table.rows()] == CELLS
    assert list(table.columns) == ["question", "choices", "answer"]


def test_of_several_splits_one_is_named(dataset: Dataset, tmp_path: Path) -> None:
    DatasetDict(train=dataset, test=dataset).save_to_disk(tmp_path / "d")
    with pytest.raises(ColumnsUnclear, match="several splits: 'train', 'test'") as refused:
        saved_dataset(tmp_path / "d", "")
    assert refused.value.hint == "name it: --sheet train or --sheet test"
    assert len(list(saved_dataset(tmp_path / "d", "test").rows())) == 2
    with pytest.raises(ColumnsUnclear, match=r"no split '\.\./d'"):
        saved_dataset(tmp_path / "d", "../d")


def test_the_hash_of_a_saved_dataset_is_that_of_its_files(dataset: Dataset, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "d")
    before = open_dataset(tmp_path / "d").sha256()
    assert open_dataset(tmp_path / "d").sha256() == before
    (tmp_path / "d" / "state.json").write_bytes((tmp_path / "d" / "state.json").read_bytes() + b"\n")
    assert open_dataset(tmp_path / "d").sha256() != before


def test_a_saved_dataset_reads_no_file_outside_its_folder(dataset: Dataset, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "d")
    (tmp_path / "d" / "state.json").write_text('{"_data_files": [{"filename": "../secret.arrow"}]}')
    with pytest.raises(SourceUnreadable, match="another folder"):
        saved_dataset(tmp_path / "d", "")


def test_parquet_of_datasets_keeps_the_names_of_labels(dataset: Dataset, tmp_path: Path) -> None:
    dataset.to_parquet(tmp_path / "d.parquet")
    assert [dict(row.cells) for row in parquet_table(open_source(tmp_path / "d.parquet")).rows()] == CELLS


def test_a_cell_that_is_no_text_costs_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"q": ["Why?", "Who?"], "image": pa.array([None, b"\x89PNG"])}), tmp_path / "d.parquet")
    rows = list(parquet_table(open_source(tmp_path / "d.parquet")).rows())
    assert [row.problem[:23] for row in rows] == ["", "a cell holds bytes, suc"]


def test_what_is_no_parquet_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceUnreadable, match="cannot read"):
        parquet_table(open_source(tmp_path / "d.parquet"))


def test_values_without_a_form_in_json_get_one() -> None:
    assert plain_value({"when": date(2026, 11, 16), "share": float("nan"), "list": (1, 2)}) == {
        "when": "2026-11-16",
        "share": None,
        "list": [1, 2],
    }
