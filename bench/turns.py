"""Ratios that hold on a busy machine: two tasks take turns, each in a process of its own that stays warm.

What the neighbours take away changes from second to second, and inflates CPU time as well, by a third and more. Two turns that
follow each other meet nearly the same neighbours, so the median of their ratios varies by two to seven percent where the smallest
of each task, measured a minute apart, varies by twenty.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

TASKS = Path(__file__).parent / "tasks.py"


class Measured(NamedTuple):
    """A task and the file that it is given."""

    task: str
    path: Path


def ratio_in_turns(one: Measured, other: Measured, *, turns: int, figure: str = "cpu") -> float | None:
    """How many times as much one costs as the other; None when one of them cannot be measured."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(_standing(measured)) for measured in (one, other))
        if not first.is_ready or not second.is_ready:
            return None
        costs = [_turn(first, second, number) for number in range(turns)]
    if figure == "wall":
        # Waiting for a core only ever adds, and may add to one turn alone.
        return float(min(cost[0]["wall"] for cost in costs) / min(cost[1]["wall"] for cost in costs))
    return median(cost[0][figure] / cost[1][figure] for cost in costs)


class _Standing(NamedTuple):
    """A process that measures its task whenever it is told to."""

    process: "subprocess.Popen[str]"
    is_ready: bool

    def measure(self) -> dict[str, Any]:
        """What the task costs now."""
        assert self.process.stdin
        assert self.process.stdout
        print(file=self.process.stdin, flush=True)
        cost: dict[str, Any] = json.loads(self.process.stdout.readline())
        return cost


def _turn(first: _Standing, second: _Standing, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """One measurement of each; who begins changes, so that a machine that slows down favours neither."""
    if number % 2:
        later = second.measure()
        return first.measure(), later
    return first.measure(), second.measure()


@contextmanager
def _standing(measured: Measured) -> Iterator[_Standing]:
    command = [sys.executable, str(TASKS), measured.task, str(measured.path), "turns"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout
        # The first measurement is made unasked and warms everything up.
        warm = json.loads(process.stdout.readline() or "{}")
        yield _Standing(process, "cpu" in warm)
