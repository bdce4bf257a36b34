"""The cases of the runs that are measured: short questions as batch_v1, every prompt different, so that nothing can be repeated."""

import json
from pathlib import Path
from typing import Any

from generate import CACHE

RECIPE = 1
"""Part of every file's name: a change of what is written changes it."""
REFERENCE = "Four: two at first and two more; the pears do not count."
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
    path = CACHE / f"cases_{count}.{RECIPE}.json"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            file.write('{"dataset_id": "cases", "dataset_version": "1", "schema_version": "1.0", "records": [\n')
            file.writelines(f"{json.dumps(case(number))}{',' * (number < count - 1)}\n" for number in range(count))
            file.write("]}\n")
        partial.rename(path)
    return path
