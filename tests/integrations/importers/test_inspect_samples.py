"""Datasets of Inspect AI: rows with the names of its FieldSpec, read as Inspect itself reads them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.importers.bringing import brought, rows_of


def sample(name: str, *rows: dict[str, Any]) -> Path:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Path(name).absolute()


def test_targets_become_references_and_letters_choices() -> None:
    path = sample(
        "tiny.jsonl",
        {"input": "2+2?", "target": ["4", "four"], "id": 7, "metadata": {"topic": "sums"}},
        {"input": "Smallest?", "target": "A", "choices": ["1", "2"]},
        {"input": "Which two are odd?", "target": "AC", "choices": ["1", "2", "3"], "id": "odd"},
    )
    rows = {row["prompt"]: row for row in rows_of(path).values()}
    assert (rows["2+2?"]["id"], rows["2+2?"]["reference_answers"], rows["2+2?"]["metadata"]) == (
        "7",
        ["4", "four"],
        {"topic": "sums"},
    )
    assert rows["Smallest?"]["choices"] == [{"id": "A", "text": "1"}, {"id": "B", "text": "2"}]
    assert rows["Smallest?"]["correct_choice_ids"] == ["A"]
    assert rows["Which two are odd?"]["correct_choice_ids"] == ["A", "C"]


@pytest.mark.parametrize(("cell", "choices"), [("1, 2,3,", ["1", "2", "3"]), ("yes no", ["yes", "no"])])
def test_choices_in_a_cell_are_cut_as_inspect_cuts_them(cell: str, choices: list[str]) -> None:
    Path("mcq.csv").write_text(f'input,target,choices\nWhich?,B,"{cell}"\n')
    [row] = rows_of(Path("mcq.csv").absolute()).values()
    assert [choice["text"] for choice in row["choices"]] == choices


def test_metadata_in_a_cell_is_json() -> None:
    Path("md.csv").write_text('input,target,metadata\nq,a,"{""age"": 42}"\nr,b,{broken\n')
    report = brought(Path("md.csv").absolute(), options=("-o", "rows.jsonl"))["report"]
    assert json.loads(Path("rows.jsonl").read_text())["metadata"] == {"age": 42}
    assert report["remarks"][0]["reason"].startswith("metadata is not JSON")


def test_input_as_messages_keeps_its_roles_and_a_picture_is_named_in_the_question() -> None:
    picture = [{"type": "text", "text": "How many?"}, {"type": "image", "image": "images/x.png"}]
    path = sample(
        "chat.jsonl",
        {"input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}], "target": "4"},
        {"input": [{"role": "user", "content": picture}], "target": "3"},
    )
    rows = {row["prompt"]: row for row in rows_of(path).values()}
    assert rows["2+2?"]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert rows["How many?\n[picture: images/x.png]"]["reference_answers"] == ["3"]
    assert brought(path)["report"]["left_out"] == {"content of type image": 1}


def test_files_and_sandboxes_of_a_sample_are_listed() -> None:
    path = sample(
        "code.jsonl", {"input": "q", "target": "a", "files": {"a.txt": "x"}, "sandbox": "docker", "setup": "ls", "extra": 1}
    )
    report = brought(path)["report"]
    assert report["left_out"] == {"sample.files": 1, "sample.sandbox": 1, "sample.setup": 1, "sample.extra": 1}
    assert report["status"] == "partial"


def test_a_sample_without_a_question_or_with_a_target_that_is_no_text_is_refused() -> None:
    path = sample("bad.jsonl", {"input": "", "target": "a"}, {"input": "q", "target": {"a": 1}}, {"input": "q", "target": "a"})
    report = brought(path, options=("-o", "rows.jsonl"))["report"]
    assert [remark["reason"] for remark in report["remarks"]] == [
        "the prompt is empty",
        "target is an object, neither text nor a list of texts",
    ]


def test_choices_without_a_letter_among_them_are_listed_and_the_target_is_a_reference() -> None:
    path = sample("free.jsonl", {"input": "q", "target": "Paris", "choices": ["Paris", "Rome"]})
    [row] = rows_of(path).values()
    assert row["reference_answers"] == ["Paris"]
    assert brought(path)["report"]["left_out"] == {"sample.choices without a target among them": 1}
