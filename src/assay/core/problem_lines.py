"""The lines in which problems are listed: a line each, a heading above some of them, and a line for those left out."""

import re
from collections.abc import Iterable, Sequence

_MORE = "... and {:,} more like these"
_COUNTED = re.compile(r"\.\.\. and ([0-9,]+) more like these\Z")


def heading(text: str) -> str:
    """A line about what the problems below it have in common."""
    return f"{text}:"


def is_heading(line: str) -> bool:
    """True for a line that only introduces the problems below it."""
    return line.endswith(":")


def listed(problems: Sequence[str], count: int = 0, *, first: int) -> list[str]:
    """The first problems and how many more there are, of all of these or of a larger count."""
    more = max(count, len(problems)) - first
    return [*problems[:first], _MORE.format(more)] if more > 0 else list(problems)


def in_one_line(lines: Sequence[str]) -> str:
    """All problems in one line, with their number where there are several."""
    number = problem_count(lines)
    text = "".join(f"{line} " if is_heading(line) else f"{line}; " for line in lines).removesuffix("; ")
    return f"{number:,} problems: {text}" if number > 1 else text


def counted_problems(lines: Iterable[str]) -> str:
    """`1 problem`, `12 problems`."""
    number = problem_count(lines)
    return f"{number:,} {'problem' if number == 1 else 'problems'}"


def problem_count(lines: Iterable[str]) -> int:
    """How many problems the lines list: a heading is none, and a line for those left out stands for all of them."""
    return sum(map(_count_of, lines))


def _count_of(line: str) -> int:
    more = _COUNTED.match(line)
    return int(more[1].replace(",", "")) if more else 0 if is_heading(line) else 1
