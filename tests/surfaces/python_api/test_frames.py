"""Records as tables of Arrow, pandas and polars."""

from pathlib import Path

import polars
import pyarrow

import assay
from assay import api
from assay.surfaces.python_api.runs import Runs
from tests.engine.run_settings import write_golden
from tests.surfaces.python_api.test_runs import law, with_an_error


def test_a_table_of_arrow_has_typed_columns_and_nested_scores(tmp_path: Path) -> None:
    table = law(tmp_path, "law", 1).to_arrow()
    assert table.column_names == ["run_id", *api.TABLE_COLUMNS]
    assert table.schema.field("score").type == pyarrow.float64()
    assert table.schema.field("first_attempt_at").type == pyarrow.timestamp("us", tz="UTC")
    assert table.column("question").to_pylist()[0] == "Is it?"
    assert table.column("passed").to_pylist() == [True, False, *[True] * 6]
    assert table.column("evaluator_scores")[1].as_py()[0]["score"] == 0.0


def test_a_frame_of_pandas_keeps_what_is_unknown_apart_from_0(tmp_path: Path) -> None:
    frame = with_an_error(tmp_path).to_pandas()
    assert [str(frame[name].dtype) for name in ("score", "passed", "input_tokens", "record_id")] == [
        *("Float64", "boolean", "Int64", "string"),
    ]
    assert frame["score"].isna().all()
    assert set(frame["error_code"]) == {"judge_parse_error"}


def test_a_frame_of_polars_has_the_same_rows_as_one_of_arrow(tmp_path: Path) -> None:
    run = law(tmp_path, "law", 1)
    frame = run.to_polars()
    assert frame.schema["selected_choice_ids"] == polars.List(polars.String)
    assert frame.to_dicts() == run.to_arrow().to_pylist()


def test_runs_of_several_candidates_make_one_table(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    runs = assay.run(dataset, models=("scripted/echo", "scripted/empty"), judge="scripted/judge-5", runs_dir=str(tmp_path / "runs"))
    frame = runs.to_polars()
    assert frame["run_id"].unique(maintain_order=True).to_list() == [run.run_id for run in runs]
    assert len(frame) == sum(run.counts.valid_records for run in runs)


def test_no_runs_make_a_table_with_all_columns_and_no_rows(tmp_path: Path) -> None:
    none, one = Runs().to_arrow(), law(tmp_path).to_arrow()
    assert (none.num_rows, none.schema) == (0, one.schema)
