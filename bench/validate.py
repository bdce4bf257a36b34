"""What validation costs beside the parsers and validators that people use otherwise; nothing here is asserted.

Every measurement runs in a fresh process; the tools take turns, so that a slow minute of the machine hits all of them, and the
smallest of N results counts. `--quick` takes the 10 MB files only, `--write` renews docs/explanation/speed.md.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from generate import MEGABYTE, dataset
from page import Bar, Page, Target, bars, table, targets_table, write_page

HERE = Path(__file__).parent
PARSERS = ("json.loads", "orjson.loads", "orjson.loads, GC off")
WHOLE = (*PARSERS, "pydantic", "jsonschema-rs", "jsonschema", "assay", "assay, two workers")
LINES = ("orjson per line", "assay", "assay, hashes", "assay, cases and hashes")
AIMS = {"assay": 1.3, "assay, hashes": 2.3}
LINE_FILES = ("legal", "conversation")
YARDSTICKS = {
    "/ orjson, GC off": "orjson.loads, GC off",
    "/ orjson": "orjson.loads",
    "/ json": "json.loads",
    "/ pydantic": "pydantic",
}
NOTHING = "-"


class Cell(NamedTuple):
    """One tool on one file."""

    file: str
    megabytes: int
    tool: str


Cost = dict[str, Any]
"""`cpu`, `own`, `wall`, `memory` and `result` of a measurement, or `absent` or `refused` with the reason."""
Costs = dict[Cell, Cost]

ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
"""Modules are compiled once, as they are for people."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the 10 MB files only")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="the smallest of N measurements counts (default 3)")
    parser.add_argument("--write", action="store_true", help="renew docs/explanation/speed.md with the result")
    options = parser.parse_args()
    sizes = (10,) if options.quick else (10, 50, 100)
    costs = measure_all(cells(sizes, is_quick=options.quick), options.repeat)
    page = report(costs, sizes)
    print(page.text)
    if options.write:
        print(f"wrote {write_page(page, repeat=options.repeat)}")


def cells(sizes: tuple[int, ...], *, is_quick: bool) -> list[Cell]:
    """Everything that is measured."""
    whole = [Cell(file, size, tool) for size in sizes for file in ("clean", "bad") for tool in WHOLE]
    truths = [Cell("bad", size, "truth") for size in sizes]
    streamed = [Cell(file, size, tool) for file, size in zip(LINE_FILES, (100, 70), strict=True) for tool in LINES]
    if is_quick:
        streamed = [cell._replace(megabytes=10) for cell in streamed]
    starts = [Cell("clean", sizes[0], tool) for tool in ("import assay", "assay --version")]
    return [*whole, *truths, *streamed, *starts]


def measure_all(wanted: list[Cell], repeat: int) -> Costs:
    """The smallest cost of each cell over some rounds in which all take turns."""
    for cell in wanted:
        show_progress(f"making {cell.file} {cell.megabytes} MB")
        dataset(cell.file, cell.megabytes)
    costs: Costs = {}
    for turn in range(1, repeat + 1):
        for number, cell in enumerate(wanted, 1):
            show_progress(f"round {turn} of {repeat}, {number} of {len(wanted)}: {cell.tool} on {cell.file} {cell.megabytes} MB")
            costs[cell] = smaller(costs.get(cell), measure(cell))
    show_progress("")
    return costs


def show_progress(text: str) -> None:
    """One changing line on a terminal, nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def measure(cell: Cell) -> Cost:
    """One measurement in a fresh process."""
    if cell.tool == "assay --version":
        return measure_command([sys.executable, "-m", "assay", "--version"])
    command = [sys.executable, str(HERE / "tasks.py"), cell.tool, str(dataset(cell.file, cell.megabytes))]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=ENVIRONMENT)
    if done.returncode:
        return {"refused": done.stderr.strip().splitlines()[-1][:120]}
    cost: Cost = json.loads(done.stdout)
    return cost


def measure_command(command: list[str]) -> Cost:
    """CPU of a whole process, from its start to its end."""
    before = os.times()
    subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"cpu": cpu, "own": cpu, "wall": after.elapsed - before.elapsed, "memory": 0}


def smaller(known: Cost | None, new: Cost) -> Cost:
    """The best of two measurements, each figure for itself."""
    if known is None or "cpu" not in new or "cpu" not in known:
        return new
    figures = [figure for figure in ("cpu", "own", "wall", "memory") if figure in new]
    return new | {figure: min(known[figure], new[figure]) for figure in figures}


def report(costs: Costs, sizes: tuple[int, ...]) -> Page:
    """All tables as Markdown."""
    rows = [row(costs, cell) for cell in costs if cell.tool in (*WHOLE, *LINES)]
    headings = ("file", "tool", "CPU s", "MB/s", *YARDSTICKS, "/ orjson per line", "peak memory / file", "errors found")
    charted = [Cell("clean", sizes[-1], tool) for tool in WHOLE]
    chart = [Bar(cell.tool, costs[cell]["cpu"]) for cell in charted if "cpu" in costs[cell]]
    title = f"CPU seconds, clean {sizes[-1]} MB"
    return Page(targets=targets_table(targets(costs, sizes)), costs=table(headings, rows), chart=bars(chart, title))


def row(costs: Costs, cell: Cell) -> tuple[str, ...]:
    """One line of the table; a dash where there is nothing to compare with."""
    cost = costs[cell]
    start = (f"{cell.file} {cell.megabytes} MB", cell.tool)
    if "cpu" not in cost:
        reason = f"not installed: {cost['absent']}" if "absent" in cost else f"refused the file: {cost['refused']}"
        return (*start, *[NOTHING] * (len(YARDSTICKS) + 4), reason)
    # Peers that refuse the bad file have no time for it, so both files are compared with the clean one.
    clean = [costs.get(Cell("clean", cell.megabytes, tool)) for tool in YARDSTICKS.values()]
    ratios = [None if cell.file in LINE_FILES else over(cost, other) for other in clean]
    ratios.append(over(cost, costs.get(cell._replace(tool="orjson per line"))))
    shown = [NOTHING if ratio is None else f"{ratio:.2f}" for ratio in ratios]
    memory = f"{cost['memory'] / cell.megabytes / MEGABYTE:.2f}"
    return (*start, f"{cost['cpu']:.3f}", f"{cell.megabytes / cost['cpu']:.0f}", *shown, memory, found(costs, cell))


def found(costs: Costs, cell: Cell) -> str:
    """How many errors a tool reports, and for assay how many of those that were put there."""
    result = costs[cell].get("result") or {}
    truth = costs.get(cell._replace(tool="truth"), {}).get("result")
    if cell.tool == "assay" and truth:
        return f"{truth['found']} of {truth['expected']} ({truth['beside']} others)"
    if "first" in result:
        return f"{result['errors']}: {result['first']}"
    return str(result.get("errors", NOTHING))


def targets(costs: Costs, sizes: tuple[int, ...]) -> list[Target]:
    """What was aimed at, beside what was measured."""
    small, large = sizes[0], sizes[-1]
    clean, bad = costs[Cell("clean", large, "assay")], costs[Cell("bad", large, "assay")]
    gc_off, gc_on = (costs[Cell("clean", large, tool)] for tool in ("orjson.loads, GC off", "orjson.loads"))
    return [
        Target(f"clean {large} MB / orjson.loads with GC off", 3.3, over(clean, gc_off)),
        Target(f"clean {large} MB / orjson.loads", 2.2, over(clean, gc_on)),
        Target(f"clean {large} MB, peak memory / file", 1.3, clean["memory"] / large / MEGABYTE),
        Target(f"2 % bad records / clean, {large} MB", 1.3, over(bad, clean)),
        *linearity(costs, small, large),
        *streaming(costs),
        Target("import assay, CPU s", 0.15, costs[Cell("clean", small, "import assay")]["cpu"]),
        Target("assay --version, CPU s", 0.2, costs[Cell("clean", small, "assay --version")]["cpu"]),
    ]


def linearity(costs: Costs, small: int, large: int) -> list[Target]:
    """Cost per byte at both ends, and what a second process saves."""
    if small == large:
        return []
    low, high = costs[Cell("clean", small, "assay")], costs[Cell("clean", large, "assay")]
    two = costs[Cell("clean", large, "assay, two workers")]
    return [
        Target(f"CPU per byte, {large} MB / {small} MB", 1.2, high["cpu"] * small / (low["cpu"] * large)),
        Target(f"two workers / one, wall, {large} MB", 0.67, over(two, high, "wall")),
        Target(f"two workers / one, CPU of the first, {large} MB", 0.67, over(two, high, "own")),
    ]


def streaming(costs: Costs) -> list[Target]:
    """JSONL against orjson on each line."""
    wanted: list[Target] = []
    for cell, cost in costs.items():
        if cell.file in LINE_FILES and cell.tool in AIMS and "cpu" in cost:
            name = f"{cell.file} {cell.megabytes} MB{cell.tool.removeprefix('assay')}"
            ratio = over(cost, costs.get(cell._replace(tool="orjson per line")))
            wanted.append(Target(f"{name} / orjson per line", AIMS[cell.tool], ratio))
            wanted.append(Target(f"{name}, peak memory / file", 0.2, cost["memory"] / cell.megabytes / MEGABYTE))
    return wanted


def over(cost: Cost, other: Cost | None, figure: str = "cpu") -> float | None:
    """How many times as much, if both were measured."""
    return float(cost[figure] / other[figure]) if other and figure in cost and figure in other else None


if __name__ == "__main__":
    main()
