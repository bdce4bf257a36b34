"""golden_v1: what its rules say of a document, its cases and their texts."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import validate
from assay.testing import example_dataset
from tests.datasets.findings import LISTED, QUOTES, changed, errors_of, issue_of
from tests.datasets.parsing.test_checks import CASE
from tests.datasets.test_fixes import changes_of, fixed_copy


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ((), [], 'write it like {"version": "1.0.0", "cases": [...]}'),
        (("version",), 1.0, 'write it like "1.0.0"'),
        (("version",), None, 'write it like "1.0.0"'),
        (("cases",), {}, f"write it like [{CASE}, ...]"),
        (("cases", 0), "What is 2+2?", f"write it like {CASE}"),
        (("cases", 0, "id"), 7, QUOTES),
        (("cases", 0, "id"), None, ""),
        (("cases", 0, "rubric"), ["Says 4 and nothing else."], "write the text itself, not a list with it"),
        (("cases", 0, "tags"), "maths", LISTED),
    ],
)
def test_a_wrong_type_in_golden_v1(tmp_path: Path, path: tuple[str | int, ...], value: Any, hint: str) -> None:
    document = changed(json.loads(example_dataset("golden_v1")), path, value)
    assert issue_of(tmp_path, "golden_v1", document).hint == hint


def test_the_number_of_golden_cases_has_a_hint_for_either_side() -> None:
    cases = [{"id": f"c-{number}", "user_prompt": "p", "rubric": "Says what it is."} for number in range(21)]
    few, many = (validate({"version": "1.0.0", "cases": some}, "golden_v1").issues for some in (cases[:4], cases))
    assert (few[0].hint.split(",")[0], many[0].hint.split(",")[0]) == ("add cases", "split the file")


@pytest.mark.parametrize(("field", "size"), [("user_prompt", 8000), ("rubric", 2000)])
def test_golden_texts_may_have_as_many_characters_as_the_limit(field: str, size: int) -> None:
    cases = [{"id": f"c-{number}", "user_prompt": "p", "rubric": "r" * 10} for number in range(5)]
    cases[2][field] = "é" * size
    assert validate({"version": "1.0.0", "cases": cases}, "golden_v1").outcome == "accepted"
    cases[2][field] = "é" * (size + 1)
    assert errors_of(validate({"version": "1.0.0", "cases": cases}, "golden_v1")) == [("string_too_long", f"cases[2].{field}")]


def test_the_id_of_a_golden_case_is_not_trimmed_into_that_of_another(tmp_path: Path) -> None:
    cases = [{"id": name, "user_prompt": "p", "rubric": "r" * 10} for name in ("a", "a ", "b ", "b  ", "c")]
    corrected, report = fixed_copy(json.dumps({"version": "1.0.0", "cases": cases}), tmp_path)
    assert [case["id"] for case in json.loads(corrected)["cases"]] == ["a", "a ", "b", "b  ", "c"]
    assert changes_of(report) == [(1, "cases[2].id", "removed white space at the end")]
