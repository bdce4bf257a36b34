"""`assay charts`: the charts of one run, or of several side by side, as SVG files."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.presentation.run_report import RunReport, view_of
from assay.surfaces.cli import exits
from assay.surfaces.cli.chart_files import NOTHING, check_charts, save_charts
from assay.surfaces.cli.run_options import json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Save charts of finished runs as SVG files, and print their paths.

For one run: the distribution of scores, and the slices with intervals. For several runs: also the candidates side by side. The
files contain no scripts, load nothing, follow the reader's light or dark theme, and can be printed.
"""

EPILOG = """\b
Examples:
  assay charts latest
  assay charts nightly-careful nightly-hasty -o report/charts

\b
Exit codes:
  0  saved, or there is nothing to draw
  2  could not run: no such run, an unfinished run, a folder that cannot be written"""

FOLDER = "charts"


@click.command("charts", help=HELP, epilog=EPILOG)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", "folder", metavar="DIR", default=FOLDER, show_default=True, help="The folder for the files.")
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, runs: Sequence[str], folder: str, *, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    check_charts(folder)
    opened = [api.open_run(run, runs_dir=runs_dir) for run in runs]
    views = [_view(run) for run in {run.folders.run_id: run for run in opened}.values()]
    saved = save_charts(views, folder)
    if is_json:
        write_json({"charts": msgspec.to_builtins(saved)})
    else:
        write_text([f"{printable(chart.path)}\n" for chart in saved] or [f"{NOTHING}\n"])
    context.exit(exits.VALID)


def _view(run: api.RunReader) -> RunReport:
    view = view_of(run)
    name = view.result.run_id
    if not view.result.is_finished:
        raise UsageProblem(f"run '{name}' is unfinished", hint=f"resume it: assay resume {name}")
    if not view.result.metrics:
        raise UsageProblem(f"the metrics of run '{name}' were removed by retention", hint="its manifest still says how it ended")
    return view
