"""`python -m tests.crash`: kills runs at many moments and checks that nothing is lost, nothing doubled, nothing different."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.crash.loops import LEDGER_LOG, Findings, Say, kill_at_random, kill_at_system_calls


def main() -> int:
    """0 when every run came out as it should."""
    arguments = _arguments()
    say: Say = (lambda line: print(f"  {line}", flush=True)) if arguments.verbose else (lambda _: None)  # noqa: T201
    loops: dict[str, Callable[[Path], Findings]] = {
        f"{arguments.kills} kills at random": lambda folder: kill_at_random(
            folder, kills=arguments.kills, records=arguments.records, seed=arguments.seed, say=say
        ),
        f"a kill at every {arguments.step}th changing system call": lambda folder: kill_at_system_calls(
            folder, step=arguments.step, records=arguments.small, say=say
        ),
        f"a kill at every {arguments.step}th write to the ledger": lambda folder: kill_at_system_calls(
            folder, step=arguments.step, records=4 * arguments.small, say=say, on_file=LEDGER_LOG
        ),
    }
    failures = [_reported(name, loop) for name, loop in loops.items()]
    return int(any(failures))


def _reported(name: str, loop: Callable[[Path], Findings]) -> bool:
    if "every" in name and shutil.which("strace") is None:
        print(f"{name}: left out, strace is not installed")  # noqa: T201
        return False
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = loop(Path(folder))
    summary = f"{found.kills} kills, {found.runs} runs, {found.repeated} calls repeated, {len(found.problems)} problems"
    print(f"{name}: {summary}, {time.monotonic() - begun:.0f} s", *found.problems[:20], sep="\n  ")  # noqa: T201
    return bool(found.problems)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="kills at random moments")
    parser.add_argument("--records", type=int, default=150, help="records of the runs that are killed at random")
    parser.add_argument("--step", type=int, default=10, help="kill at every so-and-so-many-th changing system call")
    parser.add_argument("--small", type=int, default=12, help="records of the runs that are killed at system calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
