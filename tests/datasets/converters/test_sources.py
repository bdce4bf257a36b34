"""Source files of converters: every format, and what a bad line costs."""

import gzip
import importlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.converters import UnreadableLine, convert_files, read_source

QUESTION = {
    "question": "Who signs?",
    "option_a": "A judge",
    "option_b": "A clerk",
    "option_c": None,
    "option_d": "Both, or none",
    "answer": 1,
}
CSV = b'question,option_a,option_b,option_c,option_d,answer\nWho signs?,A judge,A clerk,,"Both, or none",1\n'


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def lines(path: Path) -> list[tuple[int, Any]]:
    return [(number, found.reason if isinstance(found, UnreadableLine) else found) for number, found in read_source(path).lines]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", json.dumps(QUESTION).encode()),
        ("rows.ndjson", b"\xef\xbb\xbf" + json.dumps(QUESTION).encode() + b"\r\n\r\n"),
        ("rows.json", json.dumps([QUESTION], indent=1).encode()),
        ("one.json", json.dumps(QUESTION, indent=1).encode()),
        ("lines.json", json.dumps(QUESTION).encode() + b"\n" + b'{"other": 1}\n'),
        ("rows.csv", CSV),
        ("rows.csv", b"\xef\xbb\xbf" + CSV.replace(b"\n", b"\r\n")),
        ("rows.tsv", CSV.replace(b'"', b"").replace(b",", b"\t").replace(b"\t or", b", or")),
        ("rows.jsonl.gz", gzip.compress(json.dumps(QUESTION).encode(), mtime=0)),
        ("rows.csv.gz", gzip.compress(CSV, mtime=0)),
    ],
)
def test_every_format_gives_the_same_row(tmp_path: Path, name: str, content: bytes) -> None:
    (converted, *_) = convert_files("includebase", [written(tmp_path, name, content)]).rows
    assert converted == convert_files("includebase", [written(tmp_path, "plain.jsonl", json.dumps(QUESTION).encode())]).rows[0]


def test_bad_line_of_jsonl_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "rows.jsonl", b'{"a": 1}\n\n{"a": NaN}\n[1]\n{"a": 1, "a": 2}\n\xff\n{"a": 2}')
    assert lines(path) == [
        (1, {"a": 1}),
        (3, "expected a value, found 'NaN' (column 7)"),
        (4, "a row is an object, this is a list"),
        (5, "the name 'a' appears twice in one object (column 10)"),
        (6, "byte 0xff at offset 0 is not UTF-8 (column 1)"),
        (7, {"a": 2}),
    ]


def test_rows_of_a_json_list_have_the_lines_they_start_on(tmp_path: Path) -> None:
    path = written(tmp_path, "rows.json", b'[{"a": 1},\n\n  {"a": "\\ud800"}, 3,\n{"a": 2}]')
    assert lines(path) == [
        (1, {"a": 1}),
        (3, "holds an unpaired surrogate (column 9)"),
        (3, "a row is an object, this is a number"),
        (4, {"a": 2}),
    ]


def test_broken_json_document_is_one_bad_row_at_the_place_of_the_break(tmp_path: Path) -> None:
    assert lines(written(tmp_path, "rows.json", b'[{"a": 1},\n{"a": ]\n')) == [(2, "expected a value, found ']' (column 7)")]


def test_csv_row_has_the_line_it_starts_on_and_empty_cells_are_missing(tmp_path: Path) -> None:
    path = written(tmp_path, "rows.csv", b'a,b\n"x\r\ny",\n\nz,1\n')
    assert lines(path) == [(2, {"a": "x\r\ny", "b": None}), (5, {"a": "z", "b": "1"})]


def test_bad_line_of_csv_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "rows.csv", b'a,b\n1\n"x"y,2\n\xe9,3\n4,5\n')
    assert lines(path) == [
        (2, "1 cells under a header of 2"),
        (3, "not CSV: ',' expected after '\"'"),
        (4, "a cell is not UTF-8"),
        (5, {"a": "4", "b": "5"}),
    ]


def test_csv_field_may_be_far_larger_than_the_limit_of_the_library(tmp_path: Path) -> None:
    (row,) = lines(written(tmp_path, "rows.csv", b"a\n" + b"x" * 500_000 + b"\n"))
    assert len(row[1]["a"]) == 500_000


def test_csv_header_with_one_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="names the column 'a' twice"):
        lines(written(tmp_path, "rows.csv", b"a,b,a\n1,2,3\n"))


def test_unknown_ending_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"rows\.xlsx") as caught:
        convert_files("lexam", [tmp_path / "rows.xlsx"])
    assert ".jsonl" in caught.value.hint
    assert ".parquet" in caught.value.hint


@pytest.mark.parametrize("name", ["none.jsonl", "none.csv"])
def test_missing_file_is_unreadable(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceUnreadable, match="cannot read"):
        convert_files("lexam", [tmp_path / name])


def test_cut_off_gzip_file_is_unreadable(tmp_path: Path) -> None:
    path = written(tmp_path, "rows.jsonl.gz", gzip.compress(json.dumps(QUESTION).encode() * 100)[:-9])
    with pytest.raises(SourceUnreadable, match="cannot unpack"):
        convert_files("includebase", [path])


def test_standard_input_is_read_as_json_lines() -> None:
    assert read_source("-").name == "-"
    code = "from assay.datasets.converters import convert_files as c; print(c('includebase', ['-']).report.to_dict()['totals'])"
    text = json.dumps(QUESTION) + "\n" + json.dumps({**QUESTION, "question": "Who seals?"})
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "{'read': 2, 'emitted': 2, 'invalid': 0, 'skipped': 0}\n"


def test_parquet_without_pyarrow_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from assay.core.errors import MissingExtra; from assay.datasets.converters import convert_files\n"
        "try: convert_files('lexam', ['rows.parquet'])\n"
        "except MissingExtra as problem: print(problem.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pip install 'assay[tables]'\n"


def parquet(rows: list[dict[str, Any]]) -> bytes:
    pytest.importorskip("pyarrow")
    table = importlib.import_module("pyarrow").Table.from_pylist(rows)
    target = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(table, target)
    return target.getvalue()


def test_parquet_rows_are_numbered_and_nan_is_a_missing_value(tmp_path: Path) -> None:
    content = parquet([{"a": 1.5, "b": ["x", None]}, {"a": float("nan"), "b": []}, {"a": float("inf"), "b": []}])
    assert lines(written(tmp_path, "rows.parquet", content)) == [
        (1, {"a": 1.5, "b": ["x", None]}),
        (2, {"a": None, "b": []}),
        (3, "a cell has no JSON form: infinity"),
    ]


def test_parquet_structs_and_dates_become_plain_values(tmp_path: Path) -> None:
    datetime = importlib.import_module("datetime")
    content = parquet([{"a": {"b": datetime.date(2026, 1, 2)}}])
    assert lines(written(tmp_path, "rows.parquet", content)) == [(1, {"a": {"b": "2026-01-02"}})]


def test_file_that_is_not_parquet_is_unreadable(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(SourceUnreadable, match="cannot read"):
        convert_files("lexam", [written(tmp_path, "rows.parquet", b"PAR1 or not")])
