"""`python -m tests.simulation`: plays thousands of histories of the engine in virtual time and checks what must be true of each."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.history import History, play
from tests.simulation.invariants import problems_of

TWICE = 25
"""Every so-and-so-many-th seed is played twice: the same seed is the same history."""


def main() -> int:
    """0 when nothing is wrong with any history."""
    arguments = _arguments()
    if arguments.seed is not None:
        return _told(arguments.seed)
    begun = time.monotonic()
    first, last = arguments.first, arguments.first + arguments.seeds
    with ProcessPoolExecutor(arguments.jobs) as workers:
        broken = _reported(workers.map(examined, range(first, last), chunksize=10), arguments.seeds, begun)
    _say(f"seeds {first} to {last - 1}: {broken} broken, {time.monotonic() - begun:.0f} s\n")
    return int(bool(broken))


def examined(seed: int) -> tuple[int, list[str], int]:
    """A seed, what is wrong with its history, and how many calls there were in it."""
    history, problems = _played(seed)
    if seed % TWICE == 0 and _played(seed)[0].digest != history.digest:
        problems.append("the_same_seed_is_the_same_history: it was another one the second time")
    return seed, problems, len(history.calls)


def _played(seed: int) -> tuple[History, list[str]]:
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        history = play(seed, Path(folder))
        return history, problems_of(history)


def _told(seed: int) -> int:
    """Everything that happened in one history, and what is wrong with it."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        history = play(seed, Path(folder), is_told=True)
        problems = problems_of(history)
    endings = [ending.how for ending in history.endings]
    _say(f"{history.scenario}\n", *(f"{event}\n" for event in history.events), f"{endings}, trace {history.digest}\n")
    _say(*(f"{problem}\n" for problem in problems or ["nothing is wrong"]))
    return int(bool(problems))


def _reported(results: Iterable[tuple[int, list[str], int]], total: int, begun: float) -> int:
    broken = calls = 0
    for done, (seed, problems, made) in enumerate(results, 1):
        calls += made
        if problems:
            broken += 1
            _say(f"seed {seed}: {problems[0]}{f' (and {len(problems) - 1} more)' if problems[1:] else ''}\n")
            _say(f"  again: python -m tests.simulation --seed {seed}\n")
        if done % 100 == 0 or done == total:
            rate = done / (time.monotonic() - begun)
            _say(f"{done} of {total} histories, {calls} calls, {broken} broken, {rate:.0f} histories a second\n")
    return broken


def _memory() -> str | None:
    """A file system in memory where there is one: thousands of ledgers are forced to the disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _say(*lines: str) -> None:
    sys.stdout.writelines(lines)
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5000, help="how many histories are played")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this history alone, and tell everything that happens in it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes play")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
