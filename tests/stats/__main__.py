"""`python -m tests.stats`: simulates how often every interval holds the truth and how often every test cries wolf."""

import argparse
import multiprocessing
import sys
from pathlib import Path

from tests.stats.simulate import PAGE, Row, page, scenarios, simulate, text


def main() -> int:
    """0 when every row keeps its target or says why it cannot."""
    arguments = _arguments()
    jobs = [(place, arguments.trials, arguments.seed) for place in range(len(scenarios()))]
    rows: list[Row] = []
    with multiprocessing.Pool() as pool:
        for row in pool.imap(simulate, jobs):
            rows.append(row)
            print(text(row), flush=True)  # noqa: T201
    if arguments.write:
        Path(PAGE).write_text(page(rows, trials=arguments.trials, seed=arguments.seed), encoding="utf-8")
    return int(any(row.verdict == "misses" for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.stats", description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="made-up evaluations per row [10000]")
    parser.add_argument("--seed", type=int, default=1, help="of the numbers drawn [1]")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
