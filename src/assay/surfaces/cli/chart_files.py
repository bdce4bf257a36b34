"""The charts of runs as files of a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from assay.core.errors import UsageProblem
from assay.surfaces.cli.streams import encoded, refuse_read_only, write_file

if TYPE_CHECKING:
    from assay.presentation.charts import Chart
    from assay.presentation.run_report import RunReport

NOTHING = "nothing to draw: no record has a score"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class SavedChart(msgspec.Struct, frozen=True):
    """A chart that was written."""

    title: str
    path: str


def charts_option(command: Decorated) -> Decorated:
    """`--charts DIR`, the same for every command that ends a run."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--charts", metavar="DIR", help="Save charts (SVG) of scores, slices and candidates in this folder."
    )
    return option(command)


def check_charts(folder: str | None) -> None:
    """Raise UsageProblem, before any call, when charts could not be saved there."""
    if folder == "":
        raise UsageProblem("the folder for charts has no name", hint="name one, such as charts")
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise UsageProblem(f"'{folder}' is a file, and charts need a folder", hint="name another")
    if folder is not None:
        path = Path(folder).absolute()
        refuse_read_only(next(place for place in (path, *path.parents) if place.exists()), f"charts in '{folder}'")


def save_charts(views: Sequence[RunReport], folder: str) -> list[SavedChart]:
    """Write the charts of the runs, replacing older ones of the same names."""
    # Loaded here: most runs are not drawn.
    found: list[Chart] = import_module("assay.presentation.run_details").run_charts(views)
    draw = import_module("assay.surfaces.charts").draw
    if found:
        Path(folder).mkdir(parents=True, exist_ok=True)
    saved = [SavedChart(chart.heading, str(Path(folder, chart.name))) for chart in found]
    for chart, file in zip(found, saved, strict=True):
        write_file(file.path, encoded([draw(chart)]))
    return saved
