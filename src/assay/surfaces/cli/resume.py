"""`assay resume`: goes on with a run that was interrupted, under the settings that it was started with."""

from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.surfaces.cli.chart_files import charts_option, check_charts
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option
from assay.surfaces.cli.progress import RunProgress
from assay.surfaces.cli.remote import remote_of, resume_there, server_options
from assay.surfaces.cli.run_options import (
    RUN,
    OutputOptions,
    check_markdown,
    check_mlflow,
    command_line,
    conclude,
    json_option,
    markdown_option,
    mlflow_option,
    runs_dir_option,
)
from assay.surfaces.cli.telemetry import (
    TelemetryOptions,
    check_local,
    metrics_file_option,
    open_observers,
    telemetry_of,
    telemetry_options,
)

HELP = """Resume an interrupted run with the settings that it was started with.

RUN is an id, a unique prefix of an id, `latest`, or the path of a run's folder. Finished records are not repeated, and answers that
were paid for are kept; only missing calls are made. A finished run is shown unchanged. With --server, RUN is the whole id of a run
there; the command follows it to its end and fetches its artifacts.
"""

EPILOG = """\b
Examples:
  assay resume latest
  assay resume nightly-2026-11-15 --json
  assay resume run_01J8Q4ER9Z7Y5V5K6F4A1P2M3N --server https://assay.example.org

\b
Exit codes:
  0    every gate is met, or there is none
  1    a gate was missed
  2    could not run, or nothing could be evaluated
  130  interrupted again, or cancelled"""


@click.command("resume", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@json_option
@junit_option
@github_option
@markdown_option
@charts_option
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@click.option("-v", "--verbose", is_flag=True, help="List every record with its score and reason.")
@mlflow_option
@metrics_file_option
@telemetry_options
@click.option("--store", metavar="ADDRESS", default="", help="Publish the artifacts to this store instead.  [default: the run's]")
@server_options
@click.pass_context
def resume_command(context: click.Context, /, run: str, runs_dir: str, **given: Any) -> None:
    """Entry of the command; see HELP."""
    remote, telemetry = remote_of(given), telemetry_of(given)
    if remote is not None:
        check_local(telemetry)
        if given["store"]:
            raise UsageProblem("--store cannot be used with --server", hint="publish the run when it is here: assay publish")
        if given["mlflow"] is not None:
            raise UsageProblem("--mlflow cannot be used with --server", hint="push the run when it is here: assay mlflow push RUN")
    check_mlflow(given["mlflow"])
    check_markdown(given["markdown"], is_json=given["is_json"])
    check_charts(given["charts"])
    shown = OutputOptions(
        runs_dir=runs_dir,
        is_json=given["is_json"],
        is_verbose=given["verbose"],
        is_quiet=given["quiet"] or telemetry.fills_standard_error,
        markdown=given["markdown"],
        pipeline=PipelineOptions.of(given),
        charts=given["charts"],
        mlflow=given["mlflow"],
    )
    if remote is None:
        context.exit(resume(run, shown, telemetry, placement=RunBackend(store=given["store"])))
    context.exit(resume_there(remote, run, shown=shown))


def resume(run: str, shown: OutputOptions, telemetry: TelemetryOptions, *, placement: RunBackend = LOCAL_BACKEND) -> int:
    """Bring the run to its end and say how it went as an exit code."""
    found = api.open_run(run, runs_dir=shown.runs_dir)
    opened, shown = found.result, msgspec.structs.replace(shown, runs_dir=str(found.folders.runs_dir))
    again = command_line("resume", opened.run_id, shown=shown)
    with open_observers(telemetry) as tellers, RunProgress(opened.run_id, is_quiet=shown.is_quiet, resume=again) as progress:
        if not opened.is_finished:
            progress.announce(f"{opened.counts.total_records:,} records · {opened.candidate}")
        tellers.run_started(opened.run_id)
        result = api.resume(
            opened.run_id,
            runs_dir=shown.runs_dir,
            watch=progress.watch,
            on_busy=progress.wait_for_other,
            observe=tellers.observer,
            takes_signals=True,
            placement=placement,
        )
        tellers.run_ended(result)
    return conclude([result], shown)
