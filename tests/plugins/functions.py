"""Functions that the tests give to runs, in a module of their own, so that another process finds them too."""

import asyncio
import threading
from collections.abc import Generator, Sequence
from typing import Any

import assay

Messages = Sequence[dict[str, str]]
THREADS: set[str] = set()


def last_word(messages: Messages) -> str:
    """A model that says the last word of what it is asked."""
    THREADS.add(threading.current_thread().name)
    return messages[-1]["content"].split()[-1].strip("?")


async def slow_echo(prompt: str) -> str:
    """A model that waits without blocking."""
    await asyncio.sleep(0.01)
    return prompt


def is_reference(record: assay.Case, answer: str) -> bool:
    """A grader that compares texts."""
    return answer == record.references[0]


def by_judge(record: assay.Case, answer: str) -> Generator[str, str, assay.Judgement]:
    """A grader that asks the judge twice, and takes the better of what it says."""
    first = yield f"From 0 to 1, how good is {answer!r} as an answer to {record.prompt!r}?"
    second = yield "And on second thought?"
    return assay.Judgement(score=max(float(first), float(second)), justification=f"{first} and {second}")


def asks_side_by_side(_record: assay.Case, _answer: str) -> Generator[Any, Any, float]:
    """A grader that asks two things at once."""
    low, high = yield ("low?", "high?")
    return (float(low) + float(high)) / 2
