"""`assay retry`: a new run over the records that a finished run could not evaluate."""

from typing import Any

import click
import msgspec

from assay import api
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.surfaces.cli.chart_files import charts_option, check_charts
from assay.surfaces.cli.options import placement_of, placement_options
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option
from assay.surfaces.cli.progress import RunProgress
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

HELP = """Retry the records that ended in an error, as a new run that refers to the old one.

The new run has the records with an error, and those that were skipped or cancelled; graded answers that did not pass are not
repeated. The old run does not change. RUN is an id, a unique prefix of an id, `latest`, or the path of a run's folder.
"""

EPILOG = """\b
Examples:
  assay retry latest
  assay retry nightly-2026-11-15 --run-id nightly-2026-11-15-again

\b
Exit codes:
  0    every gate is met, or there is none
  1    a gate was missed
  2    could not run, or nothing could be evaluated
  130  interrupted or cancelled; continue an interrupted run with `assay resume RUN`"""


@click.command("retry", help=HELP, epilog=EPILOG)
@RUN
@click.option("--run-id", metavar="ID", help="Id of the new run.")
@runs_dir_option
@json_option
@junit_option
@github_option
@markdown_option
@charts_option
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@click.option("-v", "--verbose", is_flag=True, help="List every record with its score and reason.")
@mlflow_option
@placement_options
@click.pass_context
def retry_command(context: click.Context, /, run: str, runs_dir: str, **given: Any) -> None:
    """Entry of the command; see HELP."""
    check_markdown(given["markdown"], is_json=given["is_json"])
    check_charts(given["charts"])
    check_mlflow(given["mlflow"])
    shown = OutputOptions(
        runs_dir=runs_dir,
        is_json=given["is_json"],
        is_verbose=given["verbose"],
        is_quiet=given["quiet"],
        markdown=given["markdown"],
        pipeline=PipelineOptions.of(given),
        charts=given["charts"],
        mlflow=given["mlflow"],
    )
    context.exit(retry(run, given["run_id"], shown=shown, placement=placement_of(given)))


def retry(run: str, run_id: str | None, *, shown: OutputOptions, placement: RunBackend = LOCAL_BACKEND) -> int:
    """Run what the old run could not evaluate, and say how it went as an exit code."""
    found = api.open_run(run, runs_dir=shown.runs_dir)
    parent, shown = found.result, msgspec.structs.replace(shown, runs_dir=str(found.folders.runs_dir))
    again = command_line("resume", run_id or "latest", shown=shown)
    with RunProgress(run_id or f"retry of {parent.run_id}", is_quiet=shown.is_quiet, resume=again) as progress:
        progress.announce(f"the records with an error of {parent.run_id} · {parent.candidate}")
        result = api.retry(
            parent.run_id,
            runs_dir=shown.runs_dir,
            run_id=run_id,
            watch=progress.watch,
            takes_signals=True,
            placement=placement,
        )
    return conclude([result], shown)
