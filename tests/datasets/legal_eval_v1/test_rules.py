"""The rules of legal_eval_v1: types, fields of each task, and unknown fields."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import validate
from tests.datasets.findings import ABSENT, issue_of

RUBRIC = {"schema_version": "legal_eval_v1", "id": "r1", "dataset": "law", "task_type": "rubric_qa", "prompt": "Advise."}


@pytest.mark.parametrize(
    ("members", "hint"),
    [
        ({"task_type": 1}, 'write it like "rubric_qa", "reference_qa" or "mcq"'),
        ({"rubric": "Says no."}, 'write it like [{"id": "c1", "title": "...", "weight": 1}, ...]'),
        ({"rubric": ["Says no."]}, 'write it like {"id": "c1", "title": "...", "weight": 1}'),
        ({"rubric": [{"id": "c1", "title": "Says no.", "weight": "2"}]}, "leave the quotes out"),
        ({"messages": "Advise."}, 'write it like [{"role": "user", "content": "..."}, ...]'),
        ({"attachments": ["a/b.pdf"]}, 'write it like {"path": "a/b.pdf"}'),
        ({"metadata": None}, ABSENT),
        (
            {"task_type": "mcq", "choices": {"A": "yes"}, "correct_choice_ids": ["A"]},
            'write it like [{"id": "A", "text": "..."}, ...]',
        ),
    ],
)
def test_a_wrong_type_in_legal_eval_v1(tmp_path: Path, members: dict[str, Any], hint: str) -> None:
    rubric = {} if "choices" in members else {"rubric": [{"id": "c1", "title": "Says no."}]}
    assert issue_of(tmp_path, "legal_eval_v1", {**RUBRIC, **rubric, **members}).hint == hint


def test_a_line_of_legal_eval_v1_that_is_no_object(tmp_path: Path) -> None:
    hint = 'write it like {"schema_version": "legal_eval_v1", ...}, one object on each line'
    assert issue_of(tmp_path, "legal_eval_v1", [RUBRIC]).hint == hint


@pytest.mark.parametrize(("member", "hint"), [("reviewer", "move it into metadata"), ("contxt", "did you mean 'context'?")])
def test_an_unknown_field_of_legal_eval_v1(tmp_path: Path, member: str, hint: str) -> None:
    row = {**RUBRIC, "rubric": [{"id": "c1", "title": "Says no."}], member: "x"}
    assert issue_of(tmp_path, "legal_eval_v1", row, code="unsupported_field").hint == hint


@pytest.mark.parametrize(
    ("value", "hint"), [(None, "set null_as_absent: true if an export wrote nulls"), ([], "remove it or change task_type")]
)
def test_a_field_of_another_task_type_says_how_it_goes(tmp_path: Path, value: Any, hint: str) -> None:
    row = {**RUBRIC, "rubric": [{"id": "a", "title": "A"}], "choices": value}
    assert issue_of(tmp_path, "legal_eval_v1", row, code="unsupported_field").hint == hint


MB = 1 << 20


def test_a_legal_row_has_no_limit_of_its_own() -> None:
    row = {"schema_version": "legal_eval_v1", "id": "i" * 1000, "dataset": "d", "task_type": "reference_qa", "prompt": "p" * 3 * MB}
    content = json.dumps({**row, "reference_answers": ["x"] * 20_000, "metadata": {"n": [1] * 100_000}}).encode()
    assert validate(content, "legal_eval_v1").outcome == "accepted"
