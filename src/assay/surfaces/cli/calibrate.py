"""`assay calibrate`: a run's judge beside people."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from assay import api
from assay.surfaces.charts import Bin, Caption, Estimate, reliability_diagram
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.cli.streams import check_writable, write_file
from assay.surfaces.reporters.calibration import calibration_text

HELP = """Say how far the judge of a finished run can be trusted, by labels that people gave to a part of its answers.

LABELS is JSON lines or CSV: `record_id`, and `passed` (passed or not passed) or `score` on the run's scale, and `rater` where there
are several; `assay label` writes a file to fill in. Without it the labels count that people gave on the pages of `assay serve`.
Shown are agreement beyond chance, what the judge misses and what it lets
through, and the pass rate and mean with its errors counted in, each with a 95 % interval. Where the labels cannot support a
figure it is refused, and how many would is said.
"""

EPILOG = """\b
Examples:
  assay calibrate latest labels.csv
  assay calibrate latest
  assay calibrate nightly-14 labels.jsonl --slices tags --chart reliability.svg

\b
Exit codes:
  0  calculated, whatever came out
  2  could not run: no such run, a label that cannot be read, or none that belongs to the run"""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    run: str
    labels: str | None
    slices: str | None
    chart: str | None
    runs_dir: str
    is_json: bool


@click.command("calibrate", help=HELP, epilog=EPILOG)
@RUN
@click.argument("labels", metavar="[LABELS]", required=False)
@click.option("--slices", metavar="NAMES", help="Slices to look at, separated by commas; the plan's where not given.")
@click.option("--chart", metavar="FILE", help="Draw a reliability diagram as an SVG file.")
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Entry of the command; see HELP."""
    show(msgspec.convert(given, Options))
    context.exit(exits.VALID)


def show(options: Options) -> None:
    """Calibrate, and show it in the way that was asked for."""
    if options.chart is not None:
        check_writable(options.chart, option="--chart")
    names = None if options.slices is None else tuple(name.strip() for name in options.slices.split(",") if name.strip())
    found = api.calibrate(options.run, options.labels, runs_dir=options.runs_dir, slices=names)
    if options.chart is not None:
        write_file(options.chart, [_chart(found).encode()])
    if options.is_json:
        write_json(found.to_dict())
    else:
        write_text(calibration_text(found, text_settings(), chart=options.chart or ""))


def _chart(found: api.Calibration) -> str:
    bins = [Bin(one.given, _drawn(one.observed)) for one in found.reliability]
    note = f"{found.n_records:,} labelled records of {found.run_id}; whiskers are 95 % intervals"
    return reliability_diagram(
        bins, Caption("The judge's score and what people say", note), axes=("judge's score", "share that passes")
    )


def _drawn(estimate: Any) -> Estimate:
    interval = estimate.interval
    return Estimate(
        interval.low if interval else None, estimate.value, interval.high if interval else None, estimate.n, is_rate=True
    )
