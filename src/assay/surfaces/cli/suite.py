"""`assay suite`: several run files, run and gated together."""

from __future__ import annotations

import click

from assay import api
from assay.core.run_result import RunResult
from assay.surfaces.cli import exits
from assay.surfaces.cli.run import run_each
from assay.surfaces.cli.run_options import Shown, command_line, json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.reporters.verdict import suite_text

HELP = """Run several run files one after the other, gate each, and decide about all of them together.

SUITE is a YAML file: a name and a list of run files, each with what is demanded of it. Everything is checked before the first
call. The suite fails when a required run fails its gate; of the others a failure is a warning.
"""

EPILOG = """\b
Example of a suite file:
  suite: nightly
  runs:
    - run: golden.yaml
    - run: legal.yaml
      mode: non-inferiority
      delta: 0.02
    - run: agents.yaml
      required: false

\b
Examples:
  assay suite nightly.yaml
  assay suite nightly.yaml --run-id nightly-2026-11-15

\b
Exit codes:
  0    every required run passed its gate
  1    a required run failed
  2    could not run: something is wrong with the suite or a run file, or nothing could be evaluated
  130  interrupted; with --run-id, the same command goes on"""


@click.command("suite", help=HELP, epilog=EPILOG)
@click.argument("suite", metavar="SUITE")
@runs_dir_option
@click.option(
    "--run-id", metavar="ID", default="", help="Beginning of the ids of the runs; repeating the command goes on with them."
)
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@click.pass_context
def command(context: click.Context, /, suite: str, runs_dir: str, *, run_id: str, is_json: bool, quiet: bool) -> None:
    """Entry of the command; see HELP."""
    planned = api.plan_suite(suite, runs_dir=runs_dir, run_id=run_id)
    shown = Shown(runs_dir=runs_dir, is_quiet=quiet, is_named=bool(run_id))
    found = api.decide_suite(planned, _results(planned, shown))
    if is_json:
        write_json(found.to_dict())
    else:
        write_text(suite_text(found, text_settings()))
    if not found.is_finished:
        again = command_line("suite", suite, "--run-id", planned.run_id, shown=shown)
        exits.complain("interrupted", hint=f"go on with: {again}")
        context.exit(exits.INTERRUPTED)
    if any(one.required and one.problem for one in found.runs):
        context.exit(exits.COULD_NOT_RUN)
    context.exit(exits.GATES_PASSED if found.passed else exits.GATE_FAILED)


def _results(planned: api.PlannedSuite, shown: Shown) -> list[list[RunResult]]:
    """The runs of each part; the first that is stopped is the last."""
    results: list[list[RunResult]] = []
    for _, plans in planned.parts:
        results.append(run_each(plans, shown))
        if not all(result.is_finished for result in results[-1]):
            break
    return results
