"""Names of layouts."""

from assay.datasets.tables.known_layouts import layout_of


def test_the_layout_with_the_most_columns_is_named() -> None:
    columns = ("input", "target", "choices")
    assert layout_of(columns, columns, {"prompt": "input", "choices": ("choices",), "answer": "target"}) == "Inspect samples"


def test_a_layout_needs_its_roles_and_not_its_names_alone() -> None:
    columns = ("instruction", "input", "output")
    assert layout_of(columns, columns, {"prompt": "instruction"}) == "questions"
