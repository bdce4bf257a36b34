"""What validation aims at: the ratios, which are measured in turns, and what a fresh process needs at its peak."""

from typing import Any, NamedTuple

from generate import MEGABYTE, dataset
from page import Target
from turns import Measured, ratio_in_turns

ORJSON_LINES = "orjson per line"
LINE_FILES = {"legal": 100, "conversation": 70}
"""Megabytes of the JSONL files."""
LINE_AIMS = {"assay": 1.3, "assay, hashes": 2.3}
TURNS, QUICK_TURNS = 11, 41


class Cell(NamedTuple):
    """One tool on one file."""

    file: str
    megabytes: int
    tool: str

    @property
    def measured(self) -> Measured:
        """What a process is told to measure."""
        return Measured(self.tool, dataset(self.file, self.megabytes))


Cost = dict[str, Any]
"""`cpu`, `own`, `wall`, `memory` and `result` of a measurement, or `absent` or `refused` with the reason."""
Costs = dict[Cell, Cost]


class Aim(NamedTuple):
    """A ratio of two costs and what it should be at most."""

    name: str
    limit: float
    one: Cell
    other: Cell
    figure: str = "cpu"

    def target(self, turns: int) -> Target:
        """The aim beside what is measured now; costs are those of a byte where the files differ in size."""
        ratio = ratio_in_turns(self.one.measured, self.other.measured, turns=turns, figure=self.figure)
        scale = self.other.megabytes / self.one.megabytes
        return Target(self.name, self.limit, None if ratio is None else ratio * scale)


def aims(*, is_quick: bool) -> list[Aim]:
    """All ratios."""
    small, large = 10, 10 if is_quick else 100
    clean = Cell("clean", large, "assay")
    two = clean._replace(tool="assay, two workers")
    size = f"{large} MB"
    whole = [
        Aim(f"clean {size} / orjson.loads with GC off", 3.3, clean, clean._replace(tool="orjson.loads, GC off")),
        Aim(f"clean {size} / orjson.loads", 2.2, clean, clean._replace(tool="orjson.loads")),
        Aim(f"2 % bad records / clean, {size}", 1.3, clean._replace(file="bad"), clean),
    ]
    if not is_quick:
        whole += [
            Aim(f"CPU per byte, {size} / {small} MB", 1.2, clean, clean._replace(megabytes=small)),
            Aim(f"two workers / one, wall, {size}", 0.67, two, clean, "wall"),
            Aim(f"two workers / one, CPU of the first, {size}", 0.67, two, clean, "own"),
        ]
    lines = [Cell(file, small if is_quick else megabytes, tool) for file, megabytes in LINE_FILES.items() for tool in LINE_AIMS]
    return whole + [Aim(_name(cell), LINE_AIMS[cell.tool], cell, cell._replace(tool=ORJSON_LINES)) for cell in lines]


def _name(cell: Cell) -> str:
    return f"{_file(cell)} / {ORJSON_LINES}"


def _file(cell: Cell) -> str:
    return f"{cell.file} {cell.megabytes} MB{cell.tool.removeprefix('assay')}"


def others(costs: Costs) -> list[Target]:
    """Memory and start, from the measurements in fresh processes."""
    large = max(cell.megabytes for cell in costs if cell.file == "clean")
    judged = [cell for cell in costs if (cell.file, cell.megabytes, cell.tool) == ("clean", large, "assay")]
    streamed = [cell for cell in costs if cell.file in LINE_FILES and cell.tool in LINE_AIMS]
    return [
        *[_memory(cell, costs[cell], limit=1.3) for cell in judged],
        *[_memory(cell, costs[cell], limit=0.2) for cell in streamed],
        *[Target("import assay, CPU s", 0.15, cost.get("cpu")) for cell, cost in costs.items() if cell.tool == "import assay"],
        *[Target("assay --version, CPU s", 0.2, cost.get("cpu")) for cell, cost in costs.items() if cell.tool == "assay --version"],
    ]


def _memory(cell: Cell, cost: Cost, *, limit: float) -> Target:
    share = cost["memory"] / cell.megabytes / MEGABYTE if "memory" in cost else None
    return Target(f"{_file(cell)}, peak memory / file", limit, share)
