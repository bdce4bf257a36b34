"""`assay mlflow`: finished runs into MLflow."""

import sys
import time
from typing import Any

import click
import msgspec
from rich.progress import MofNCompleteColumn

from assay import api
from assay.core.errors import AssayError
from assay.core.text import printable
from assay.integrations.mlflow.exporter import MAX_TRACES, Destination, PushResult, destination, push, read_choice
from assay.integrations.mlflow.tracking import shown_uri
from assay.presentation.words import counted
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, OutputOptions, command_line, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.cli.terminal_progress import ProgressMeter

LINE_EVERY = 5.0
"""Seconds between two plain lines at least."""

HELP = """Push finished runs to MLflow.

Pushing a run again adds what is missing and duplicates nothing. MLflow receives the contents of the artifacts, redacted as they
are, and an error stays an error there.
"""

PUSH_HELP = """Push a finished run to an MLflow server.

MLflow gets parameters, metrics with their intervals, slices, the artifacts, the records as an evaluation dataset, and each record
as a trace with its calls, grades, expectations and the labels of people. Pushing again adds what is missing. Parameters and metrics
have the names of golden_v1 (pass_rate, average_score, ...), the same for every contract, so that runs line up in MLflow's
comparison. RUN is an id, a unique prefix of an id, `latest`, or the path of a run's folder.

Where a server wants a login, MLflow reads it from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or from
MLFLOW_TRACKING_TOKEN.
"""

EPILOG = """\b
Examples:
  assay mlflow push latest --uri http://localhost:5000
  assay mlflow push nightly-15 --experiment assistant --traces failed
  assay mlflow push latest --uri sqlite:///mlflow.db --labels labels.csv
  assay run golden.json --model openai/gpt-6-luna --judge openai/gpt-6-sol --mlflow http://localhost:5000

\b
Exit codes:
  0  pushed, or there already
  2  could not run: no such run, an unfinished run, a server that does not answer or refuses"""


@click.group("mlflow", help=HELP, epilog=EPILOG)
def mlflow_command() -> None:
    """Entry of the command; see HELP."""


@mlflow_command.command("push", help=PUSH_HELP, epilog=EPILOG)
@RUN
@click.option("--uri", metavar="URI", help="The MLflow server.  [default: MLFLOW_TRACKING_URI]")
@click.option(
    "--experiment", metavar="NAME", help="Experiment, created if missing.  [default: MLFLOW_EXPERIMENT_NAME, else the dataset's id]"
)
@click.option(
    "--traces",
    metavar="N|all|failed|none",
    default=str(MAX_TRACES),
    show_default=True,
    help="Records to send as traces: a number, all, those with an error or not passed, or none.",
)
@click.option(
    "--labels", metavar="FILE", help="Human labels, in the format of assay label; labels from the pages are always pushed."
)
@runs_dir_option
@json_option
@click.pass_context
def push_command(context: click.Context, /, **given: Any) -> None:
    """Push one finished run."""
    # Before the run is opened, since an address may be refused without any work.
    place = destination(given["uri"], given["experiment"])
    to = msgspec.structs.replace(place, traces=read_choice(given["traces"]), labels=given["labels"] or "")
    pushed = _push_with_progress(api.open_run(given["run"], runs_dir=given["runs_dir"]), to)
    if given["is_json"]:
        write_json(msgspec.to_builtins(pushed))
    else:
        write_text(f"{printable(line)}\n" for line in _lines(pushed))
    context.exit(exits.VALID)


def push_after_run(run_id: str, shown: OutputOptions) -> None:
    """Push a run that has just ended; when MLflow does not take it, warn with the command that pushes it later."""
    try:
        to = destination(shown.mlflow, shown.experiment)
        pushed = _push_with_progress(api.open_run(run_id, runs_dir=shown.runs_dir), to)
    except AssayError as problem:
        named = ("--experiment", shown.experiment) if shown.experiment else ()
        # Shown without user name and password: the line may end up in a log of a CI system.
        later = command_line("mlflow", "push", run_id, "--uri", shown_uri(shown.mlflow or ""), *named, shown=shown)
        # A warning and not an error: the run itself is complete, and its exit code must not depend on MLflow.
        exits.print_error(f"the run is not in MLflow: {problem.message}", hint=f"the run is unchanged; push it later: {later}")
        return
    if not shown.is_quiet:
        for line in _lines(pushed):
            click.echo(f"assay: {printable(line)}", err=True)


def _push_with_progress(run: api.RunReader, to: Destination) -> PushResult:
    progress = _Progress()
    try:
        return push(run, to, watch=progress.watch)
    finally:
        progress.meter.hide()


class _Progress:
    """Progress of a push: a bar on a terminal, otherwise a plain line now and then."""

    def __init__(self) -> None:
        self.meter = ProgressMeter(amount=MofNCompleteColumn())
        self._what = ""
        self._said = time.monotonic()

    def watch(self, what: str, done: int, total: int) -> None:
        """Show how much of it is sent."""
        if what != self._what:
            self.meter.begin(what)
            self._what = what
        self.meter.count(done, total)
        # A terminal has the bar.
        if not sys.stderr.isatty() and time.monotonic() - self._said >= LINE_EVERY:
            self._said = time.monotonic()
            click.echo(f"MLflow: {done:,} of {total:,} {what}", err=True)


def _lines(pushed: PushResult) -> list[str]:
    sent = f"{counted(pushed.traces_sent, 'trace')} and {counted(pushed.artifacts_sent, 'file')} sent"
    what = f"{counted(pushed.parameters, 'parameter')}, {counted(pushed.metrics, 'metric')}, {sent}"
    place = pushed.url or f"{pushed.uri}, run {pushed.mlflow_run_id}"
    state = "pushed to" if pushed.is_new else "updated in"
    return [f"{pushed.run_id}: {state} MLflow, experiment '{pushed.experiment}': {what}", place, *pushed.notes]
