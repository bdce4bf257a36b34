"""Datasets in memory: rows, documents, bytes, frames and datasets of other libraries."""

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from assay import api
from assay.core.case import Case
from assay.core.errors import UsageProblem
from tests.engine.run_settings import mcq_row

ROWS: list[dict[str, Any]] = [
    {"question": "What is 2+2?", "answer": "4", "topic": "math", "points": 3},
    {"question": "Capital of France?", "answer": "Paris", "topic": None, "points": None},
]
FRAMES = {
    "list": list,
    "generator": iter,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy polars": pl.LazyFrame,
    "arrow": pa.Table.from_pylist,
    "arrow batch": pa.RecordBatch.from_pylist,
    "hugging face": datasets.Dataset.from_list,
}


def cases_of(data: object, **options: Any) -> list[Case]:
    report = api.validate(data, **options)
    assert report.is_valid, [issue.message for issue in report.issues]
    return list(report.cases)


@pytest.mark.parametrize("form", FRAMES)
def test_a_table_of_any_library_gives_the_same_cases(form: str) -> None:
    make: Any = FRAMES[form]
    first, second = cases_of(make(ROWS))
    assert (first.prompt, first.references, first.task, first.metadata["topic"]) == ("What is 2+2?", ("4",), "reference", "math")
    # What is missing is no value, whatever the library writes for it.
    assert (second.prompt, second.metadata) == ("Capital of France?", {})
    assert [case.id for case in (first, second)] == [case.id for case in cases_of(ROWS)]


def test_an_object_with_the_interface_of_arrow_is_read_through_it() -> None:
    class Relation:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.Table.from_pylist(ROWS).__arrow_c_stream__(requested_schema)

    assert [case.prompt for case in cases_of(Relation())] == [row["question"] for row in ROWS]


@pytest.mark.parametrize("make", [list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, datasets.Dataset.from_list])
def test_rows_of_a_contract_are_records_and_no_table(make: Any) -> None:
    rows = [mcq_row("a"), mcq_row("b")]
    assert [(case.id, case.task, len(case.choices)) for case in cases_of(make(rows))] == [("a", "mcq", 2), ("b", "mcq", 2)]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, datasets.Dataset.from_list])
def test_what_a_frame_has_as_null_is_absent_from_a_record_of_a_contract(make: Any) -> None:
    open_row = {"schema_version": "legal_eval_v1", "id": "b", "dataset": "law", "task_type": "reference_qa", "prompt": "Why?"}
    rows = [mcq_row("a"), {**open_row, "reference_answers": ["So."]}]
    # A frame has the same members in each row.
    names = dict.fromkeys(name for row in rows for name in row)
    full = [{**names, **row} for row in rows]
    assert [(case.id, case.task) for case in cases_of(make(full))] == [("a", "mcq"), ("b", "reference")]


def test_columns_are_named_by_what_they_hold() -> None:
    rows = [{"Frage": "Wie viel ist 2+2?", "Lösung": "4", "Nr": "7"}]
    (case,) = cases_of(rows, columns={"prompt": "Frage", "reference": "Lösung", "id": "Nr"})
    assert (case.id, case.prompt, case.references) == ("7", "Wie viel ist 2+2?", ("4",))


def test_columns_that_say_nothing_are_one_issue_with_what_to_write() -> None:
    (issue,) = api.validate([{"Qx": "a", "Ax": "b"}]).issues
    assert (issue.code, issue.hint) == ("unknown_columns", 'name it: columns={"prompt": "..."}')
    assert "'Qx', 'Ax'" in issue.message
    found = list(api.stream([{"Qx": "a"}]))
    assert [getattr(one, "code", "") for one in found] == ["unknown_columns"]


def test_a_row_without_a_question_is_named_by_its_number_and_column() -> None:
    report = api.validate([*ROWS, {"question": " ", "answer": "x"}])
    assert report.counts.rejected_records == 1
    (issue,) = report.issues
    assert "row 3, column 'question'" in issue.message


def test_values_of_python_and_numpy_become_those_of_json() -> None:
    class Level(Enum):
        HARD = "hard"

    row = {
        "question": "What?",
        "answer": "That.",
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        "price": Decimal("1.5"),
        "whole": Decimal(2),
        "id2": UUID(int=7),
        "level": Level.HARD,
        "count": np.int64(5),
        "ratio": np.float32(0.5),
        "vector": np.array([1, 2]),
        "nothing": np.float64("nan"),
    }
    (case,) = cases_of([row])
    assert case.metadata == {
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:00+00:00",
        "price": 1.5,
        "whole": 2,
        "id2": "00000000-0000-0000-0000-000000000007",
        "level": "hard",
        "count": 5,
        "ratio": 0.5,
        "vector": [1, 2],
        "nothing": None,
    }


def test_dataclasses_are_rows() -> None:
    @dataclass
    class Question:
        question: str
        answer: str

    assert [case.prompt for case in cases_of([Question("a?", "b")])] == ["a?"]


def test_missing_values_of_pandas_are_no_values() -> None:
    frame = pd.DataFrame(
        {"question": ["a?", "b?"], "answer": ["x", "y"], "n": [1.0, np.nan], "t": [pd.NaT, pd.Timestamp("2026-01-02")]}
    )
    frame["m"] = pd.array([pd.NA, 4], dtype="Int64")
    first, second = cases_of(frame)
    assert (first.metadata, second.metadata) == ({"n": 1.0}, {"t": "2026-01-02T00:00:00", "m": 4})


REFUSED = {
    "number": (5, "a dataset cannot be an int"),
    "none": (None, "a dataset cannot be a NoneType"),
    "function": (print, "a dataset cannot be a builtin_function_or_method"),
    "set": ({"a"}, "a dataset cannot be a set"),
    "series": (pd.Series([1]), "a dataset cannot be a pandas.Series"),
    "array": (np.array([1]), "a dataset cannot be a numpy.ndarray"),
    "cell": ([{"question": object()}], "row 1, 'question' is an object, which is not JSON"),
    "row": ([object()], "row 1 is an object, which is not JSON"),
    "key": ({(1, 2): 3}, "the value has a tuple as a key, which is not JSON"),
    "splits": (datasets.DatasetDict({"test": datasets.Dataset.from_list(ROWS)}), "the DatasetDict has the splits test"),
    "columns": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "the DataFrame has two columns called 'a'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_dataset_is_refused_in_one_sentence(name: str) -> None:
    data, message = REFUSED[name]
    with pytest.raises(UsageProblem) as raised:
        api.validate(data)
    assert raised.value.message == message
    assert raised.value.hint


@pytest.mark.parametrize("text", ['{"a": 1}', '[{"a": 1}]', "a\nb", "x" * 5_000, "a\0b"])
def test_a_text_that_is_content_is_not_taken_for_a_path(text: str) -> None:
    with pytest.raises(UsageProblem, match="is not the path of a file") as raised:
        api.validate(text)
    assert "bytes (text.encode())" in raised.value.hint


def test_bytes_are_content_whose_name_says_what_they_are() -> None:
    table = b"Question,Answer\nWhat?,That.\n"
    assert [case.prompt for case in cases_of(table, name="faq.csv")] == ["What?"]
    assert api.validate(b'[{"turn_id": 1, "speaker": "user", "message": "Hi"}]').contract == "conversation_v1"


def test_no_rows_are_said_to_be_none() -> None:
    (issue,) = api.validate([]).issues
    assert (issue.message, issue.hint) == ("there are no records", "a dataset has at least one record")


def test_no_library_is_imported_for_plain_data() -> None:
    code = """
import sys, assay
assert assay.validate([{"question": "a?", "answer": "b"}]).is_valid
assert assay.validate({"version": "1.0.0", "cases": []}).contract == "golden_v1"
print([name for name in ("pandas", "polars", "pyarrow", "datasets") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
