"""The folders of the code and what they import, as a picture: `docs/images/house.svg`, written by `make schema`."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "assay"
WIDTH, ROW, BOX_HEIGHT, GAP, MARGIN, CHARACTER = 1160, 78, 30, 14, 20, 7.4
STYLESHEET = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}rect{fill:#eef2f6;stroke:#8c959f}"
    "path{fill:none;stroke:#8c959f;stroke-opacity:.75}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#1c2530;stroke:#6e7681}}"
)

Edges = Mapping[str, frozenset[str]]


def folder_imports() -> Edges:
    """For each folder of the package the other folders that it imports from when it is loaded; a module at the top is a folder."""
    modules = {_module_name(path): path for path in SOURCE.rglob("*.py")}
    edges: dict[str, set[str]] = defaultdict(set)
    for module, path in modules.items():
        source = _folder(module, modules)
        edges[source] |= {_folder(target, modules) for target in _imports(path, modules)}
    return {folder: frozenset(targets - {folder, "assay"}) for folder, targets in edges.items() if folder != "assay"}


def _module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _folder(module: str, modules: Mapping[str, Path]) -> str:
    """The folder of a module, two levels below the package at most; that of `assay.golden` is itself."""
    parts = module.split(".")
    is_package = modules[module].name == "__init__.py"
    folder = parts if is_package or len(parts) == 2 else parts[:-1]
    return ".".join(folder[1:3]) or "assay"


def _imports(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom) and statement.module and statement.module.startswith("assay"):
            for name in statement.names:
                inner = f"{statement.module}.{name.name}"
                yield inner if inner in modules else statement.module


def direct_only(edges: Edges) -> dict[str, frozenset[str]]:
    """The imports without those that another import implies: what is left can be read."""

    @cache
    def reached(folder: str) -> frozenset[str]:
        return edges.get(folder, frozenset()).union(*(reached(target) for target in edges.get(folder, ())))

    return {
        folder: frozenset(one for one in targets if not any(one in reached(other) for other in targets - {one}))
        for folder, targets in edges.items()
    }


def levels(edges: Edges) -> list[list[str]]:
    """The folders in rows, each above everything that it imports; `core` is in the last one."""

    @cache
    def height(folder: str) -> int:
        return 1 + max((height(target) for target in edges.get(folder, ())), default=-1)

    rows: dict[int, list[str]] = defaultdict(list)
    for folder in sorted(edges):
        rows[height(folder)].append(folder)
    return [rows[number] for number in sorted(rows, reverse=True)]


def house_svg() -> str:
    """The picture: a box for each folder, a line to each folder that it imports from."""
    edges = folder_imports()
    rows = _untangled(levels(edges), direct := direct_only(edges))
    boxes = dict(_boxes(rows))
    height = MARGIN + ROW * (len(rows) - 1) + BOX_HEIGHT + MARGIN
    lines = "".join(_line(boxes[folder], boxes[target]) for folder in sorted(direct) for target in sorted(direct[folder]))
    shapes = "".join(_box(folder, *place) for folder, place in boxes.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        "<title>Folders of assay: each imports only from folders below it</title>"
        f"<style>{STYLESHEET}</style>{lines}{shapes}</svg>\n"
    )


def _untangled(rows: list[list[str]], edges: Edges) -> list[list[str]]:
    """Order each row by the average position of the neighbours in the row before, so that fewer lines cross."""
    for _ in range(8):
        for above, row in pairwise(rows):
            at = {folder: number / len(above) for number, folder in enumerate(above)}
            before = {one: [at[folder] for folder in above if one in edges[folder]] for one in row}
            row.sort(key=lambda one: (sum(before[one]) / len(before[one]) if before[one] else 0.5, one))
        rows.reverse()
        edges = {folder: frozenset(one for one in edges if folder in edges[one]) for folder in edges}
    return rows


def _boxes(rows: list[list[str]]) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Each folder with the left edge, the top and the width of its box."""
    for number, row in enumerate(rows):
        widths = [len(folder) * CHARACTER + 18 for folder in row]
        space = (WIDTH - sum(widths)) / (len(row) + 1)
        left = max(space, GAP)
        for folder, width in zip(row, widths, strict=True):
            yield folder, (round(left, 1), MARGIN + ROW * number, round(width, 1))
            left += width + max(space, GAP)


def _box(folder: str, left: float, top: float, width: float) -> str:
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{BOX_HEIGHT}" rx="5"/>'
        f'<text x="{left + width / 2:.1f}" y="{top + 20}" text-anchor="middle">{escape(folder)}</text>'
    )


def _line(source: tuple[float, float, float], target: tuple[float, float, float]) -> str:
    x, y, u, v = source[0] + source[2] / 2, source[1] + BOX_HEIGHT, target[0] + target[2] / 2, target[1]
    return f'<path d="M{x:.1f} {y}C{x:.1f} {y + 26} {u:.1f} {v - 26} {u:.1f} {v}"/>'
