"""Rows into records."""

from typing import Any

import pytest

from assay.core.settings import ColumnSection
from assay.datasets.tables.record_builder import RecordBuilder
from assay.datasets.tables.table_rows import TableRow


def build(cells: dict[str, object], *, contract: str = "legal_eval_v1", **columns: Any) -> Any:
    return RecordBuilder(ColumnSection(**columns), contract=contract, dataset="t").build(TableRow(2, cells))


def test_only_the_question_and_its_context_are_for_the_candidate() -> None:
    cells: dict[str, object] = {"q": "Why?", "c": "A text.", "a": "Because", "topic": "x"}
    record, problem = build(cells, prompt="q", context=("c",), reference="a")
    assert problem is None
    assert {name: record[name] for name in ("prompt", "context", "reference_answers", "metadata")} == {
        "prompt": "Why?",
        "context": "A text.",
        "reference_answers": ["Because"],
        "metadata": {"topic": "x"},
    }


def test_several_columns_of_context_are_named() -> None:
    cells: dict[str, object] = {"inputs": {"question": "Why?", "now": "2026", "place": "Bern"}}
    record, _ = build(cells, prompt="inputs.question", context=("inputs.now", "inputs.place"), contract="batch_v1")
    assert record["input"] == {"prompt": "Why?", "context": "now: 2026\n\nplace: Bern"}


def test_named_metadata_is_the_only_metadata() -> None:
    record, _ = build({"q": "Why?", "a": "b", "x": 1, "y": 2}, prompt="q", reference="a", metadata=("y",))
    assert record["metadata"] == {"y": 2}


def test_metadata_in_an_object_and_unused_members_are_kept() -> None:
    cells: dict[str, object] = {"inputs": {"question": "Why?", "user": 7}, "a": "b", "metadata": '{"topic": "x"}'}
    record, _ = build(cells, prompt="inputs.question", reference="a")
    assert record["metadata"] == {"inputs": {"user": 7}, "topic": "x"}


def test_a_row_without_a_question_keeps_its_id_and_its_metadata() -> None:
    record, problem = build({"n": 7.0, "q": " ", "a": "b", "topic": "x"}, prompt="q", reference="a", id="n")
    assert (record["id"], record["metadata"], "prompt" in record) == ("7", {"topic": "x"}, False)
    assert (problem.code, problem.column) == ("missing_required_field", "q")


def test_an_id_comes_from_the_question_and_outlives_a_changed_reference() -> None:
    first, changed = (build({"q": "Why?", "a": answer}, prompt="q", reference="a").record["id"] for answer in ("x", "y"))
    assert first == changed
    assert first != build({"q": "Who?", "a": "x"}, prompt="q", reference="a").record["id"]


def test_the_same_question_twice_has_two_ids() -> None:
    builder = RecordBuilder(ColumnSection(prompt="q", reference="a"), contract="legal_eval_v1", dataset="t")
    ids = [builder.build(TableRow(row, {"q": "Why?", "a": "b"})).record["id"] for row in (2, 3, 4)]
    assert ids == [ids[0], f"{ids[0]}-2", f"{ids[0]}-3"]


def test_the_last_answer_of_a_conversation_is_its_reference_and_is_not_sent() -> None:
    chat = [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
    record, _ = build({"conversations": chat}, messages="conversations")
    assert record["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (record["prompt"], record["reference_answers"]) == ("Hi", ["Hello"])


def test_a_conversation_of_one_question_is_a_question() -> None:
    record, _ = build({"m": [{"role": "user", "content": "Hi"}], "a": "Hello"}, messages="m", reference="a")
    assert (record["prompt"], "messages" in record) == ("Hi", False)


def test_choices_are_graded_by_their_key() -> None:
    record, _ = build({"q": "Which?", "o": ["x", "y"], "k": "B"}, prompt="q", choices=("o",), answer="k")
    assert (record["task_type"], record["correct_choice_ids"]) == ("mcq", ["B"])
    assert [choice["text"] for choice in record["choices"]] == ["x", "y"]


def test_the_right_answer_in_a_column_of_its_own_is_not_always_the_first_choice() -> None:
    firsts = set()
    for number in range(20):
        cells: dict[str, object] = {"q": "Which?", "right": f"r{number}", "wrong": f"w{number}"}
        record, _ = build(cells, prompt="q", choices=("right", "wrong"), answer="right")
        (correct,) = record["correct_choice_ids"]
        assert next(choice["text"] for choice in record["choices"] if choice["id"] == correct) == f"r{number}"
        firsts.add(correct)
    assert firsts == {"A", "B"}


def test_a_question_without_choices_among_others_is_compared_with_its_answer() -> None:
    record, _ = build({"q": "Why?", "A": "", "B": None, "k": "Because"}, prompt="q", choices=("A", "B"), answer="k")
    assert (record["task_type"], record["reference_answers"]) == ("reference_qa", ["Because"])


@pytest.mark.parametrize(
    ("cells", "column"),
    [({"q": "Which?", "o": ["x"], "k": "A"}, "o"), ({"q": "Which?", "o": ["x", "y"], "k": ""}, "k")],
)
def test_what_keeps_a_row_with_choices_from_being_a_record_names_the_column(cells: dict[str, object], column: str) -> None:
    _, problem = build(cells, prompt="q", choices=("o",), answer="k")
    assert problem.column == column


def test_a_plain_question_is_a_record_of_batch_v1() -> None:
    record, _ = build({"q": "Why?"}, contract="batch_v1", prompt="q")
    assert record["input"] == {"prompt": "Why?"}
