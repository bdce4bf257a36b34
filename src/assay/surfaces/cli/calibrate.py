"""`assay calibrate`: a run's judge beside people."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from assay import api
from assay.surfaces.charts import Caption, PlottedEstimate, ScoreBin, reliability_diagram
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.cli.streams import check_writable, write_file
from assay.surfaces.reporters.judge_card import calibration_text

HELP = """Measure the judge of a finished run against labels that people gave to some of its answers.

LABELS is a JSON Lines or CSV file with `record_id`, with `passed` (passed or not passed) or `score` on the run's scale, and with
`rater` for several people; `assay label` writes a file to fill in. Without LABELS, the labels given on the pages of `assay serve`
are used. The report shows the agreement beyond chance, the judge's false negatives and false positives, and the pass rate and mean
corrected for the judge's errors, each with a 95 % interval. A metric that too few labels support is not shown; the report states
how many labels it needs.
"""

EPILOG = """\b
Examples:
  assay calibrate latest labels.csv
  assay calibrate latest
  assay calibrate nightly-14 labels.jsonl --slices tags --chart reliability.svg

\b
Exit codes:
  0  calculated, for any result
  2  could not run: no such run, an unreadable label, or no label for the run"""


class CalibrateOptions(msgspec.Struct, frozen=True, kw_only=True):
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
@click.option("--slices", metavar="NAMES", help="Slices to show, separated by commas.  [default: the plan's]")
@click.option("--chart", metavar="FILE", help="Draw a reliability diagram as an SVG file.")
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    show(msgspec.convert(given, CalibrateOptions))
    context.exit(exits.VALID)


def show(options: CalibrateOptions) -> None:
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
    bins = [ScoreBin(one.given, _drawn(one.observed)) for one in found.reliability]
    note = f"{found.n_records:,} labelled records of {found.run_id}; whiskers are 95 % intervals"
    return reliability_diagram(
        bins, Caption("The judge's score and what people say", note), axes=("judge's score", "share that passes")
    )


def _drawn(estimate: Any) -> PlottedEstimate:
    interval = estimate.interval
    return PlottedEstimate(
        interval.low if interval else None, estimate.value, interval.high if interval else None, estimate.n, is_rate=True
    )
