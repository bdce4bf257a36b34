"""Batches that are written column by column are the records that rows make one by one."""

import csv
import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.settings import ColumnSection
from assay.datasets.tables.column_writer import ColumnWriter, RecordIds
from assay.datasets.tables.record_builder import RecordBuilder
from assay.datasets.tables.table_rows import TableRow

CELLS = st.text(st.sampled_from(list('aB "\\,;\n\r\t[{]}é中\u2028\u00a0\x7f')), max_size=6)
NAMES = ("q", "a", "c", "topic", "n")
MAPPINGS = (
    ColumnSection(prompt="q", reference="a"),
    ColumnSection(prompt="q", reference="a", context=("c",), metadata=("topic",)),
    ColumnSection(prompt="q", reference="a", id="n"),
    ColumnSection(prompt="q", choices=("a", "c"), answer="n"),
)


def built(rows: list[tuple[str, ...]], columns: ColumnSection) -> tuple[list[Any], int]:
    """The records of rows one by one, and how many are none."""
    builder = RecordBuilder(columns, contract="legal_eval_v1", dataset="d")
    made = [builder.build(TableRow(row, dict(zip(NAMES, cells, strict=True)))) for row, cells in enumerate(rows, 2)]
    return [record.record for record in made], sum(record.problem is not None for record in made)


@pytest.mark.parametrize("columns", MAPPINGS)
@given(rows=st.lists(st.tuples(*[CELLS] * 4, st.sampled_from(["A", "B", "1", "x y"])), min_size=1, max_size=6))
def test_clean_batches_become_the_records_of_the_builder(columns: ColumnSection, rows: list[tuple[str, ...]]) -> None:
    writer = ColumnWriter(columns, NAMES, contract="legal_eval_v1", dataset="d")
    cells = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
    batch = writer.clean(cells, len(rows))
    records, problems = built(rows, columns)
    if batch is None:
        return
    assert problems == 0
    lines = writer.lines(cells, batch, RecordIds()).decode().removesuffix("\n").split("\n")
    assert [msgspec.json.decode(line) for line in lines] == records
    assert batch.with_metadata == sum("metadata" in record for record in records)


@pytest.mark.parametrize("columns", MAPPINGS)
def test_usual_batches_are_clean(columns: ColumnSection) -> None:
    rows = [("Why?", "Because, as we say", "A text", "x", "A"), ('Who "is"\nit?', "  Me  ", "Another", "", "B")]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    read = list(csv.reader(io.StringIO(text.getvalue())))
    writer = ColumnWriter(columns, NAMES, contract="legal_eval_v1", dataset="d")
    assert writer.is_usable
    assert writer.clean(dict(zip(NAMES, zip(*read, strict=True), strict=True)), 2) is not None


@pytest.mark.parametrize(
    "columns",
    [ColumnSection(prompt="q", rubric="a"), ColumnSection(messages="q"), ColumnSection(prompt="q", choices=("c",), answer="a")],
)
def test_columns_that_need_thought_are_left_to_the_builder(columns: ColumnSection) -> None:
    assert not ColumnWriter(columns, NAMES, contract="legal_eval_v1", dataset="d").is_usable


@given(texts=st.lists(st.binary(max_size=2), min_size=1, max_size=30))
def test_ids_are_unique_and_those_of_the_questions(texts: list[bytes]) -> None:
    single, several, quick = RecordIds(), RecordIds(), RecordIds(is_exact=False)
    ids = [single.of(text) for text in texts]
    assert len(set(ids)) == len(ids)
    assert [name.decode() for name in several.of_all(texts)] == ids
    plain = [name.decode() for name in quick.of_all(texts)]
    assert quick.are_unique() == (len(set(plain)) == len(plain)) == (plain == ids)


def test_ids_stay_unique_over_many_batches() -> None:
    ids = RecordIds()
    batches = [[b"%d" % number for number in range(start, start + 300)] for start in (0, 200, 1000, 900)]
    names = [name for batch in batches for name in ids.of_all(batch)] + [ids.of(b"5").encode() for _ in range(5000)]
    assert len(set(names)) == len(names)
    assert names[:2] == RecordIds().of_all([b"0", b"1"])
