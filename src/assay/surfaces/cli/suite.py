"""`assay suite`: several run files, run and gated together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from assay import api
from assay.core.run_result import RunResult
from assay.core.runs import RunBackend
from assay.presentation.comparison import suite_sections
from assay.presentation.decisions import CheckedRun, gated_run, optional_run, problem_run
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import placement_of, placement_options, quiet_option, setting_option
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option, write_checks
from assay.surfaces.cli.run import check_observed_here, pushing, run_each
from assay.surfaces.cli.run_options import (
    OutputOptions,
    check_markdown,
    command_line,
    json_option,
    markdown_option,
    push_finished,
    report_options,
    runs_dir_option,
    text_settings,
    write_json,
    write_markdown,
    write_text,
)
from assay.surfaces.cli.telemetry import metrics_file_option, open_observers, telemetry_of, telemetry_options
from assay.surfaces.observers import ObserverGroup
from assay.surfaces.reporters.comments import suite_markdown
from assay.surfaces.reporters.terminal import report_text

HELP = """Run several run files in order, and gate them together.

SUITE is a YAML file: a name and a list of run files, each with its gate. Everything is checked before the first call. The suite is
missed when a required run misses its gate; a missed gate of an optional run is a warning.
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
  0    every required run met its gate
  1    a required run missed its gate
  2    could not run: something is wrong with the suite or a run file, or nothing could be evaluated
  130  interrupted; with --run-id, the same command resumes the runs"""


@click.command("suite", help=HELP, epilog=EPILOG)
@click.argument("suite", metavar="SUITE")
@runs_dir_option
@setting_option("run_id", default="", help="Prefix of the run ids; repeating the command resumes the runs.")
@json_option
@junit_option
@github_option
@markdown_option
@quiet_option
@metrics_file_option
@telemetry_options
@placement_options
@click.pass_context
def suite_command(context: click.Context, /, suite: str, runs_dir: str, *, run_id: str, quiet: bool, **given: Any) -> None:
    """Entry of the command; see HELP."""
    telemetry, placement = telemetry_of(given), placement_of(given)
    check_observed_here(telemetry, placement)
    check_markdown(given["markdown"], [suite], is_json=given["is_json"])
    pipeline = PipelineOptions.of(given, [suite])
    # Everything is planned and checked before the first call of the first run.
    planned = api.plan_suite(suite, runs_dir=runs_dir, run_id=run_id, placement=placement)
    shown = OutputOptions(runs_dir=runs_dir, is_quiet=quiet or telemetry.fills_standard_error, is_named=bool(run_id))
    with open_observers(telemetry) as observers:
        results = _results(planned, shown, observers, placement=placement)
    # Runs that were stopped are part of the decision: the suite is unfinished and not met.
    found = api.decide_suite(planned, results)
    same = ("suite", suite, "--run-id", planned.run_id)
    try:
        _write_result(found, pipeline, runs_dir=runs_dir, is_json=given["is_json"], markdown=given["markdown"])
    except OSError as problem:
        kept = [f"run '{one.run_id}' is in {Path(runs_dir, one.run_id)}" for one in found.runs]
        options = [*report_options(msgspec.structs.replace(shown, markdown=given["markdown"])), *pipeline.options]
        # With the same prefix of ids the finished runs are found again, so that nothing is paid for twice.
        again = command_line(*same, *options, shown=shown)
        context.exit(exits.complain_of_report(problem, kept=kept, again=f"repeat it; no call is repeated: {again}"))
    if not found.is_finished:
        exits.print_error("interrupted", hint=f"resume with: {command_line(*same, shown=shown)}")
        context.exit(exits.INTERRUPTED)
    # A required run without a verdict is not a missed gate.
    if any(one.required and one.problem for one in found.runs):
        context.exit(exits.COULD_NOT_RUN)
    context.exit(exits.GATES_PASSED if found.passed else exits.GATE_FAILED)


def _write_result(found: api.SuiteResult, pipeline: PipelineOptions, *, runs_dir: str, is_json: bool, markdown: str | None) -> None:
    if is_json:
        write_json(found.to_dict())
    if markdown is not None:
        write_markdown(suite_markdown(found), markdown)
    elif not is_json:
        write_text(pipeline.guarded(report_text(suite_sections(found), text_settings())))
    if pipeline.is_wanted:
        write_checks(pipeline, [_checked(one, runs_dir) for one in found.runs], summary=lambda: suite_markdown(found))


def _checked(one: api.SuiteRun, runs_dir: str) -> CheckedRun:
    run = api.open_run(one.run_id, runs_dir=runs_dir)
    checked = problem_run(run, one.problem or "the run has not ended") if one.verdict is None else gated_run(run, one.verdict)
    return checked if one.required else optional_run(checked)


def _results(
    planned: api.PlannedSuite, shown: OutputOptions, observers: ObserverGroup, *, placement: RunBackend
) -> list[list[RunResult]]:
    """Execute the runs of each part, up to the first that is stopped."""
    results: list[list[RunResult]] = []
    # All of them first: an invalid address is reported before any call.
    places = [pushing(shown, plans) for _, plans in planned.parts]
    for (_, plans), place in zip(planned.parts, places, strict=True):
        results.append(run_each(plans, shown, observers, placement=placement))
        push_finished(results[-1], place)
        # After an interruption the next run file is not started; after a failed run it is.
        if not all(result.is_finished or result.is_resumable for result in results[-1]):
            break
    return results
