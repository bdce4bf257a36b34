"""Columns of records: each of a known kind."""

from pathlib import Path

from assay import api
from assay.core.artifact_lines import PredictionLine
from tests.surfaces.exports.exported_runs import hostile_run
from tests.surfaces.exports.test_parquet import pyarrow, table


def test_columns_are_typed_and_may_be_null(tmp_path: Path) -> None:
    schema = table(hostile_run(tmp_path, "A")).schema
    kinds = {"score": pyarrow.float64(), "passed": pyarrow.bool_(), "index": pyarrow.int64(), "cost": pyarrow.float64()}
    assert {name: schema.field(name).type for name in kinds} == kinds
    assert all(field.nullable for field in schema)
    assert schema.field("evaluator_scores").type.value_type.get_field_index("justification") >= 0


def test_no_member_of_a_prediction_is_left_out() -> None:
    assert set(PredictionLine.__struct_fields__) <= set(api.TABLE_COLUMNS)
