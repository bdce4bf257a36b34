"""Issues: their codes in the reference, and paths that lead to one value only."""

import pytest

from assay.core.issue import CODES, MAX_NAME, Path, path_text, shorten
from tests.test_house_rules import sections


def test_every_issue_code_has_its_section_in_the_reference() -> None:
    assert sections("issue-codes.md") == list(CODES)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("records", 1, "input", "prompt"), "records[1].input.prompt"),
        ((0, "message"), "[0].message"),
        (("a.b",), '["a.b"]'),
        (("a", ""), 'a[""]'),
        (("x", "it's [so]"), 'x["it\'s [so]"]'),
    ],
)
def test_a_path_quotes_the_names_that_could_be_read_in_two_ways(path: Path, text: str) -> None:
    assert path_text(path) == text


def test_a_text_that_issues_repeat_keeps_its_ends() -> None:
    assert shorten("x" * MAX_NAME) == "x" * MAX_NAME
    long = shorten("a" + "x" * 1_000_000 + "z")
    assert (len(long), long[0], long[-1], "…" in long) == (MAX_NAME, "a", "z", True)
