"""Names and addresses of columns, and rows in memory."""

from assay.datasets.tables.table_rows import ObjectTable, cell_address, named_columns


def test_blank_and_repeated_names_of_a_header_become_names_of_their_own() -> None:
    assert named_columns(["Question", "", " Answer ", "Answer", "Answer"]) == [
        "Question",
        "column 2",
        "Answer",
        "Answer (2)",
        "Answer (3)",
    ]


def test_a_name_that_is_taken_by_a_later_column_is_not_given_twice() -> None:
    assert named_columns(["a", "a", "a (2)"]) == ["a", "a (2)", "a (2) (2)"]


def test_cells_have_the_addresses_of_a_spreadsheet() -> None:
    assert [cell_address(column, 7) for column in (0, 25, 26, 51, 52, 701, 702)] == ["A7", "Z7", "AA7", "AZ7", "BA7", "ZZ7", "AAA7"]


def test_rows_in_memory_are_counted_from_1_and_one_without_values_is_empty() -> None:
    table = ObjectTable([{"q": "Why?"}, {"q": None, "a": "  "}, {"a": "Because"}])
    assert list(table.columns) == ["q", "a"]
    assert [(row.number, dict(row.cells)) for row in table.rows()] == [(1, {"q": "Why?"}), (2, {}), (3, {"a": "Because"})]


def test_a_header_of_one_repeated_name_takes_linear_time() -> None:
    assert named_columns(["a"] * 200_000)[-1] == "a (200000)"
