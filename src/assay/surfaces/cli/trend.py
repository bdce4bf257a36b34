"""`assay trend`: runs over one dataset in the order of time."""

from __future__ import annotations

from typing import Literal

import click
import msgspec

from assay import api
from assay.surfaces.charts import Caption, PlottedEstimate, PlottedRun, trend_chart
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.cli.streams import check_writable, write_file
from assay.surfaces.cli.words import WordChoice
from assay.surfaces.reporters.trend import direction_words, trend_text

HELP = """Show the complete runs of a candidate on a dataset over time, and the trend that a test supports.

A direction is shown only if the exact Mann-Kendall test is significant at 5 %, which takes at least five runs. `--dataset` and
`--candidate` default to those of the newest run. Runs on other contents of the dataset, rescored runs and retries are left out and
counted.
"""

EPILOG = """\b
Examples:
  assay trend
  assay trend --dataset assistant --last 20 --chart trend.svg

\b
Exit codes:
  0  shown, for any direction
  2  could not run: no finished run over that dataset"""


class TrendOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    runs_dir: str
    dataset: str
    candidate: str
    any_version: bool
    last: int | None
    measure: Literal["pass_rate", "score"]
    chart: str | None
    is_json: bool


@click.command("trend", help=HELP, epilog=EPILOG)
@runs_dir_option
@click.option("--dataset", default="", metavar="ID", help="The dataset.  [default: that of the newest run]")
@click.option("--candidate", default="", metavar="NAME", help="The candidate.  [default: that of the newest run]")
@click.option("--any-version", is_flag=True, help="Include runs on other contents of the dataset.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N runs.")
@click.option("--measure", type=WordChoice(("pass_rate", "score")), default="pass_rate", show_default=True, help="Metric to show.")
@click.option("--chart", metavar="FILE", help="Draw it as an SVG file.")
@json_option
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    show(msgspec.convert(given, TrendOptions))
    context.exit(exits.VALID)


def show(options: TrendOptions) -> None:
    """Look at the runs, and show them in the way that was asked for."""
    chart = options.chart
    if chart is not None:
        check_writable(chart, option="--chart")
    found = api.trend(
        runs_dir=options.runs_dir,
        dataset=options.dataset,
        candidate=options.candidate,
        last=options.last,
        measure=options.measure,
        is_any_version=options.any_version,
    )
    if chart is not None:
        write_file(chart, [_chart(found).encode()])
    if options.is_json:
        write_json(found.to_dict())
    else:
        write_text(trend_text(found, text_settings(), chart=chart or ""))


def _chart(found: api.RunTrend) -> str:
    is_rate = found.measure == "pass_rate"
    points = [
        PlottedRun(point.run_id, PlottedEstimate(point.low, point.value, point.high, point.n, is_rate)) for point in found.points
    ]
    title = f"{'Pass rate' if is_rate else 'Mean score'} of {found.dataset}"
    domain = (0.0, 1.0) if is_rate else None
    return trend_chart(points, Caption(title, direction_words(found)), domain=domain)
