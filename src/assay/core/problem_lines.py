"""Lists of problems: one line each, a heading above some of them, and a line for the omitted ones."""

import re
from collections.abc import Iterable, Sequence

_MORE = "... and {:,} more like these"
_COUNTED = re.compile(r"\.\.\. and ([0-9,]+) more like these\Z")


def heading(text: str) -> str:
    """Build a heading for the problems below it."""
    return f"{text}:"


def is_heading(line: str) -> bool:
    """Tell whether a line only introduces the problems below it."""
    return line.endswith(":")


def listed(problems: Sequence[str], count: int = 0, *, first: int) -> list[str]:
    """List the first problems and the number of others, of these or of a larger count."""
    more = max(count, len(problems)) - first
    return [*problems[:first], _MORE.format(more)] if more > 0 else list(problems)


def in_one_line(lines: Sequence[str]) -> str:
    """Join all problems in one line, with their number if there are several."""
    number = problem_count(lines)
    text = "".join(f"{line} " if is_heading(line) else f"{line}; " for line in lines).removesuffix("; ")
    return f"{number:,} problems: {text}" if number > 1 else text


def counted_problems(lines: Iterable[str]) -> str:
    """Count problems in words: `1 problem`, `12 problems`."""
    number = problem_count(lines)
    return f"{number:,} {'problem' if number == 1 else 'problems'}"


def problem_count(lines: Iterable[str]) -> int:
    """Count the problems in lines: a heading counts 0, and a line for omitted ones counts all of them."""
    return sum(map(_count_of, lines))


def _count_of(line: str) -> int:
    more = _COUNTED.match(line)
    return int(more[1].replace(",", "")) if more else 0 if is_heading(line) else 1
