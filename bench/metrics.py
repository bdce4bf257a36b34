"""What metrics cost: graded rows into a summary with intervals and slices, each size in a process of its own."""

import argparse
import resource
import sys

from assay.metrics.facts import RecordColumns, RecordFacts
from assay.metrics.summary import summarize, summarize_slices
from measure import measure

SIZES = (100_000, 400_000)
TASKS, TOPICS, CONTRACTS = ("read", "reason", "draft"), 40, 5_000
MEGABYTE = 1 << 20


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(prog="bench metrics", description=__doc__)
    parser.add_argument("--rows", type=int, help="measure this many rows in this process")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeat", type=int, default=3, help="the smallest of N measurements counts (default 3)")
    parser.add_argument("--write", action="store_true", help="has no page to renew")
    options = parser.parse_args()
    if options.rows:
        aggregate(options.rows)
        return
    print(f"{'rows':>8}  {'CPU s':>6}  {'aggregation s':>13}  {'peak MB':>7}")
    for rows in (size // 10 if options.quick else size for size in SIZES):
        costs = [measure([sys.executable, __file__, "--rows", rows]) for _ in range(options.repeat)]
        aggregated = min(float(cost["output"]) for cost in costs)
        cpu, memory = (min(cost[figure] for cost in costs) for figure in ("cpu", "memory"))
        print(f"{rows:>8,}  {cpu:>6.2f}  {aggregated:>13.2f}  {memory / MEGABYTE:>7.0f}")


def aggregate(rows: int) -> None:
    """Print the CPU seconds from the columns of a run to its metrics; filling the columns is not counted."""
    columns = RecordColumns()
    for position in range(rows):
        columns.append(facts(position))
    before = used()
    summarize(columns)
    summarize_slices(columns)
    print(used() - before)


def used() -> float:
    """CPU seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def facts(position: int) -> RecordFacts:
    """A graded row: a 1-5 score, latency, tokens, cost, two slices and a cluster."""
    level = (position * 7919) % 5
    return RecordFacts(
        position,
        "evaluated",
        score=level / 4,
        raw_score=level + 1.0,
        scale="1-5",
        passed=level >= 3,
        latency_ms=100.0 + position % 997,
        input_tokens=500 + position % 300,
        output_tokens=100,
        total_tokens=600 + position % 300,
        cost=0.001,
        slices={"task": (TASKS[position % 3],), "topic": (f"topic {position % TOPICS}",)},
        cluster=f"contract {position % CONTRACTS}",
    )


if __name__ == "__main__":
    main()
