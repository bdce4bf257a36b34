"""What validation costs beside the parsers and validators that people use otherwise; nothing here is asserted.

Costs are measured in fresh processes, of which the smallest of N counts; the ratios that are aimed at are measured in turns
(`turns.py`), because a minute later the machine is another one. `--quick` takes the 10 MB files only, `--aims` the ratios only,
`--write` renews docs/explanation/speed.md.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from aims import LINE_AIMS, LINE_FILES, ORJSON_LINES, QUICK_TURNS, TURNS, Cell, Cost, Costs, aims, others
from generate import MEGABYTE, dataset
from install import NotInstalled, installed, locked_version
from measure import HERE, measure
from page import Bar, Page, Target, bars, table, targets_table, write_page
from stages import stages_table
from tasks import SCHEMA

CHECK_JSONSCHEMA = "check-jsonschema"
PARSERS = ("json.loads", "orjson.loads", "orjson.loads, GC off")
WHOLE = (*PARSERS, "pydantic", "jsonschema-rs", "jsonschema", CHECK_JSONSCHEMA, "assay", "assay, two workers")
LINES = (ORJSON_LINES, *LINE_AIMS, "assay, with the lint", "assay, cases and hashes")
YARDSTICKS = {
    "/ orjson, GC off": "orjson.loads, GC off",
    "/ orjson": "orjson.loads",
    "/ json": "json.loads",
    "/ pydantic": "pydantic",
}
NOTHING = "-"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the 10 MB files only")
    parser.add_argument("--aims", action="store_true", help="only the ratios that are aimed at")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="the smallest of N measurements counts (default 3)")
    parser.add_argument("--write", action="store_true", help="renew docs/explanation/speed.md with the result")
    options = parser.parse_args()
    ratios = in_turns(is_quick=options.quick)
    if options.aims:
        print(targets_table(ratios))
        return
    sizes = (10,) if options.quick else (10, 50, 100)
    costs = measure_all(cells(sizes, is_quick=options.quick), options.repeat)
    page = report(costs, sizes, [*ratios, *others(costs)])
    print(page.text)
    if options.write:
        checked = {CHECK_JSONSCHEMA: locked_version(CHECK_JSONSCHEMA, CHECK_JSONSCHEMA)}
        print(f"wrote {write_page(page, repeat=options.repeat, others=checked, stages=stages_table())}")


def in_turns(*, is_quick: bool) -> list[Target]:
    """The ratios, one after the other."""
    turns = QUICK_TURNS if is_quick else TURNS
    found = []
    for aim in aims(is_quick=is_quick):
        show_progress(f"in turns: {aim.name}")
        found.append(aim.target(turns))
    show_progress("")
    return found


def cells(sizes: tuple[int, ...], *, is_quick: bool) -> list[Cell]:
    """Everything that is measured."""
    whole = [Cell(file, size, tool) for size in sizes for file in ("clean", "bad") for tool in WHOLE]
    truths = [Cell("bad", size, "truth") for size in sizes]
    streamed = [Cell(file, size, tool) for file, size in LINE_FILES.items() for tool in LINES]
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
            costs[cell] = smaller(costs.get(cell), measure_cell(cell))
    show_progress("")
    return costs


def show_progress(text: str) -> None:
    """One changing line on a terminal, nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def measure_cell(cell: Cell) -> Cost:
    """One measurement in a fresh process."""
    path = dataset(cell.file, cell.megabytes)
    if cell.tool == "assay --version":
        return measure([sys.executable, "-m", "assay", "--version"])
    if cell.tool == CHECK_JSONSCHEMA:
        return measure_check_jsonschema(path)
    cost = measure([sys.executable, HERE / "tasks.py", cell.tool, path])
    return json.loads(cost["output"]) if "output" in cost else cost


def measure_check_jsonschema(path: Path) -> Cost:
    """Its command as people run it, from start to end; who uses it has no other way in."""
    try:
        command = installed(CHECK_JSONSCHEMA) / "bin" / CHECK_JSONSCHEMA
    except NotInstalled as problem:
        return {"absent": str(problem)}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as schema:
        json.dump(SCHEMA, schema)
        schema.flush()
        cost = measure([command, "--schemafile", schema.name, path], {"PYTHONPATH": ""})
    # Its peak begins with that of this process, which has made the files.
    cost.pop("memory", None)
    return cost | ({"result": {"errors": 0}} if "cpu" in cost else {})


def smaller(known: Cost | None, new: Cost) -> Cost:
    """The best of two measurements, each figure for itself."""
    if known is None or "cpu" not in new or "cpu" not in known:
        return new
    figures = [figure for figure in ("cpu", "own", "wall", "memory") if figure in new]
    return new | {figure: min(known[figure], new[figure]) for figure in figures}


def report(costs: Costs, sizes: tuple[int, ...], targets: list[Target]) -> Page:
    """All tables as Markdown."""
    rows = [row(costs, cell) for cell in costs if cell.tool in (*WHOLE, *LINES)]
    headings = ("file", "tool", "CPU s", "MB/s", *YARDSTICKS, f"/ {ORJSON_LINES}", "peak memory / file", "errors found")
    charted = [Cell("clean", sizes[-1], tool) for tool in WHOLE]
    chart = [Bar(cell.tool, costs[cell]["cpu"]) for cell in charted if "cpu" in costs[cell]]
    title = f"CPU seconds, clean {sizes[-1]} MB"
    return Page(targets=targets_table(targets), costs=table(headings, rows), chart=bars(chart, title))


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
    ratios.append(over(cost, costs.get(cell._replace(tool=ORJSON_LINES))))
    shown = [NOTHING if ratio is None else f"{ratio:.2f}" for ratio in ratios]
    memory = f"{cost['memory'] / cell.megabytes / MEGABYTE:.2f}" if "memory" in cost else NOTHING
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


def over(cost: Cost, other: Cost | None, figure: str = "cpu") -> float | None:
    """How many times as much, if both were measured."""
    return float(cost[figure] / other[figure]) if other and figure in cost and figure in other else None


if __name__ == "__main__":
    main()
