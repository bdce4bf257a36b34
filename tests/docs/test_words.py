"""The page of words: each word has a row, and what is said to define it does."""

import re
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT

PAGE = ROOT / "docs" / "reference" / "glossary.md"
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
DEFINED = [
    (name, (PAGE.parent / target).resolve())
    for word, _, where in ROWS
    if not word.startswith(("word", "---"))
    for name, target in re.findall(r"`(\w+)` (?:in \[[^]]+\]\([^)]+\) and )?in \[[^]]+\]\(([^)]+)\)", where)
]


def words() -> list[str]:
    return [word.strip("`") for words, _, _ in ROWS for word in words.split(", ")]


@pytest.mark.parametrize(("name", "module"), DEFINED, ids=[f"{module.stem}-{name}" for name, module in DEFINED])
def test_a_word_is_defined_where_the_page_says(name: str, module: Path) -> None:
    assert re.search(
        rf"^(class {name}\b|(async )?def {name}\b|{name}\b.*=)", module.read_text(encoding="utf-8"), flags=re.MULTILINE
    )


def test_every_word_has_one_row_and_a_definition() -> None:
    named = [word for word in words() if word not in ("word", "---")]
    assert len(named) == len(set(named))
    assert [word for word, _, where in ROWS if "](" not in where and word not in ("word", "---")] == []


def test_the_words_of_grading_are_all_there() -> None:
    wanted = {
        "task",
        "task_type",
        "kind",
        "grading method",
        "evaluator",
        "policy",
        "template",
        "grader",
        "judgement",
        "grade",
        "score",
        "verdict",
    }
    assert wanted <= set(words())
