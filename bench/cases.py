"""The cases of the runs that are measured: short questions, every prompt different, so that nothing can be repeated."""

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from generate import CACHE

RECIPE = 1
"""Part of every file's name: a change of what is written changes it."""
REFERENCE = "Four: two at first and two more; the pears do not count."
_LETTERS = "ABCD"
_CONTEXT = (
    "The following exercise is from the fourth chapter of a workbook for the third year at school. Read it to the end before you "
    "begin, leave out whatever does not belong to the question, and answer with the number and one short sentence that says why. "
)


def prompt(number: int) -> str:
    """About 350 characters."""
    pears = number % 89
    return f"{_CONTEXT}Exercise {number:06d}: Anna has 2 apples, buys {pears} pears and 2 apples. How many apples has she now?"


def case(number: int) -> dict[str, Any]:
    """One record; a judge looks at the answer as a whole."""
    return {
        "record_id": f"case-{number:06d}",
        "input": {"prompt": prompt(number)},
        "reference": {"answer": REFERENCE},
        "tags": [f"chapter-{number % 7}", "sums"],
        "expected": {"required_criteria": ["overall"]},
    }


def cases_file(count: int) -> Path:
    """A dataset of so many records, made on first use."""
    head = '{"dataset_id": "cases", "dataset_version": "1", "schema_version": "1.0", "records": [\n'
    records = (f"{json.dumps(case(number))}{',' * (number < count - 1)}\n" for number in range(count))
    return _made(f"cases_{count}.{RECIPE}.json", chain([head], records, ["]}\n"]))


def question(number: int) -> dict[str, Any]:
    """One question of multiple choice, about 480 bytes."""
    return {
        "schema_version": "legal_eval_v1",
        "id": f"question-{number:06d}",
        "dataset": f"exam-{number % 5}",
        "task_type": "mcq",
        "prompt": f"Question {number:06d}: which of the following statements about the law of contracts is right?",
        "choices": [{"id": letter, "text": f"Statement {letter} of question {number:06d}"} for letter in _LETTERS],
        "correct_choice_ids": [_LETTERS[number % 4]],
        "metadata": {"language": ("de", "fr", "en")[number % 3]},
    }


def answer_row(number: int) -> dict[str, Any]:
    """A given answer to a question; half of them are right."""
    chosen = json.dumps({"answer": _LETTERS[number * 7 % 4], "reasoning": "Because of the first article."})
    return {"example_id": f"question-{number:06d}", "candidate_name": "bench", "response_text": chosen}


def given_files(count: int) -> tuple[Path, Path]:
    """So many questions and the answers to them, made on first use."""
    questions = (f"{json.dumps(question(number))}\n" for number in range(count))
    answers = (f"{json.dumps(answer_row(number))}\n" for number in range(count))
    return _made(f"questions_{count}.{RECIPE}.jsonl", questions), _made(f"answers_{count}.{RECIPE}.jsonl", answers)


def _made(name: str, lines: Iterable[str]) -> Path:
    path = CACHE / name
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(lines)
        partial.rename(path)
    return path
