"""`assay report`, `charts`: a run as one HTML file, and its charts as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.progress import MofNCompleteColumn

from assay import api
from assay.core.errors import UsageProblem
from assay.core.text import printable
from assay.presentation.run_report import RunReport, view_of
from assay.presentation.words import moment, size
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import ALL, number_or_all
from assay.surfaces.cli.run_options import (
    NOTHING,
    RUN_OR_GROUP,
    OutputOptions,
    check_charts,
    command_line,
    finished_run,
    json_option,
    runs_dir_option,
    save_charts,
    write_json,
    write_text,
)
from assay.surfaces.cli.streams import (
    STANDARD,
    check_writable,
    encoded,
    refuse_overwrite,
    standard_output,
    write_file,
    write_stream,
)
from assay.surfaces.cli.terminal_progress import ProgressMeter
from assay.surfaces.pages.group import GroupReportFile
from assay.surfaces.pages.report import ReportFile

REPORT_HELP = """Write a finished run as one HTML file that shows the same pages as `assay serve`.

The file contains the page of the run with its charts, the list of its records with search, filters and sorting, and every record
with its verdicts and attempts. It opens from disk in any browser and makes no network requests. Values redacted in the artifacts
are redacted in the file. RUN is an id, a unique prefix of an id, `latest`, or the path of a run's folder. Of a group the file has
the candidates, their comparisons, and every record with the score and the answer of each candidate.
"""

REPORT_EPILOG = """\b
Examples:
  assay report latest
  assay report nightly-15 -o nightly.html
  assay report build-18
  assay report nightly-15 --records all -o - | gzip > nightly.html.gz

\b
Exit codes:
  0  written, for any result of the run
  2  could not run: no such run, an unfinished run, a file that cannot be written"""

MANY = 5_000
"""Default maximum of records in a file: it should open at once, and fit into a mail."""


class ReportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    run: str
    output: str | None
    records: str
    runs_dir: str
    is_json: bool


@click.command("report", help=REPORT_HELP, epilog=REPORT_EPILOG)
@RUN_OR_GROUP
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Output file, written completely or not at all; - for standard output.  [default: RUN.html]",
)
@click.option(
    "--records",
    metavar="N|all",
    default=str(MANY),
    show_default=True,
    help="Maximum number of records in the file: first those that did not pass, then by score, the lowest first.",
)
@runs_dir_option
@json_option
@click.pass_context
def report_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    write(msgspec.convert(given, ReportOptions))
    context.exit(exits.VALID)


def write(options: ReportOptions) -> None:
    """Write the file, and say what it has."""
    limit = number_or_all(options.records, option="--records")
    group = api.open_group(options.run, runs_dir=options.runs_dir)
    if group.is_several:
        _write_group(group, limit, options)
        return
    run = finished_run(options.run, options.runs_dir)
    output = options.output or f"{run.folders.run_id}.html"
    # Two documents on one stream would be neither.
    if options.is_json and output == STANDARD:
        raise UsageProblem("--json and -o - both write to standard output", hint="name a file")
    # Before the report is rendered, which takes seconds for a large run.
    check_writable(output, option="--output")
    refuse_overwrite(output, map(str, run.artifacts().values()), option="--output")
    report = ReportFile(run, limit=limit)
    chunks = encoded(_metered(report))
    if output == STANDARD:
        write_stream(chunks, standard_output())
    else:
        write_file(output, chunks)
    _write_result(report, output, options)


def _write_group(group: api.RunGroup, limit: int | None, options: ReportOptions) -> None:
    """Write the file of several runs."""
    runs = tuple(finished_run(run.folders.run_id, str(run.folders.runs_dir)) for run in group.runs)
    output = options.output or f"{group.name}.html"
    if options.is_json and output == STANDARD:
        raise UsageProblem("--json and -o - both write to standard output", hint="name a file")
    check_writable(output, option="--output")
    refuse_overwrite(output, (str(path) for run in runs for path in run.artifacts().values()), option="--output")
    report = GroupReportFile(api.RunGroup(group.name, runs), limit=limit)
    made = moment(datetime.now(UTC).isoformat(timespec="seconds"))
    assert made is not None
    if output == STANDARD:
        write_stream(encoded(report.chunks(made)), standard_output())
        return
    write_file(output, encoded(report.chunks(made)))
    weight = Path(output).stat().st_size
    if options.is_json:
        ids = [run.folders.run_id for run in runs]
        write_json({"group": group.name, "runs": ids, "report": output, "records": report.shown, "bytes": weight})
    else:
        click.echo(f"{printable(output)} ({size(weight)}, {report.shown:,} records by {len(runs)} candidates)")


def _metered(report: ReportFile) -> Iterator[str]:
    """Yield the chunks of a file, with a progress bar if they take long."""
    # In UTC and without fractions: the page shows minutes.
    made = moment(datetime.now(UTC).isoformat(timespec="seconds"))
    assert made is not None
    meter = ProgressMeter(amount=MofNCompleteColumn())
    meter.begin("records")
    try:
        yield from report.chunks(made, meter.count)
    finally:
        meter.hide()


def _write_result(report: ReportFile, output: str, options: ReportOptions) -> None:
    if options.is_json:
        found = {"run_id": report.run_id, "report": output, "records": report.shown, "total_records": report.total}
        write_json({**found, "bytes": Path(output).stat().st_size})
        return
    for problem in filter(None, (report.problem, report.left_out)):
        click.echo(printable(problem), err=True)
    if report.left_out:
        again = command_line(
            "report", report.run_id, "--records", ALL, shown=OutputOptions(runs_dir=str(report.run.folders.runs_dir))
        )
        click.echo(f"all of them: {printable(again)}", err=True)
    if output != STANDARD:
        click.echo(f"{printable(output)} ({size(Path(output).stat().st_size)}, {report.shown:,} records)")


CHARTS_HELP = """Save charts of finished runs as SVG files, and print their paths.

For one run: the distribution of scores, and the slices with intervals. For several runs: also the candidates side by side. The
files contain no scripts, load nothing, follow the reader's light or dark theme, and can be printed.
"""

CHARTS_EPILOG = """\b
Examples:
  assay charts latest
  assay charts nightly-careful nightly-hasty -o report/charts

\b
Exit codes:
  0  saved, or there is nothing to draw
  2  could not run: no such run, an unfinished run, a folder that cannot be written"""

FOLDER = "charts"


@click.command("charts", help=CHARTS_HELP, epilog=CHARTS_EPILOG)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", "folder", metavar="DIR", default=FOLDER, show_default=True, help="The folder for the files.")
@runs_dir_option
@json_option
@click.pass_context
def charts_command(context: click.Context, /, runs: Sequence[str], folder: str, *, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    check_charts(folder)
    opened = [api.open_run(run, runs_dir=runs_dir) for run in runs]
    # By id, since one run may be named by its id and by `latest` at once.
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
    # Charts need the metrics, which retention removes last.
    if not view.result.metrics:
        raise UsageProblem(f"the metrics of run '{name}' were removed by retention", hint="its manifest still says how it ended")
    return view
