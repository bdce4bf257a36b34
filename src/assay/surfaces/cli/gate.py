"""`assay gate`: a verdict on a finished run, as words and as an exit code."""

from __future__ import annotations

import click
import msgspec

from assay import api
from assay.core.settings import Gates
from assay.presentation.words import gate_word
from assay.surfaces.cli import exits
from assay.surfaces.cli.numbers import Number
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option
from assay.surfaces.cli.run_options import (
    RUN,
    check_markdown,
    json_option,
    markdown_option,
    runs_dir_option,
    setting_option,
    text_settings,
    write_json,
    write_markdown,
    write_text,
)
from assay.surfaces.cli.run_pipeline import tell_runs
from assay.surfaces.cli.words import WordChoice
from assay.surfaces.reporters.comparison import verdict_markdown, verdict_text
from assay.surfaces.reporters.run_checks import gated_run

HELP = """Check a finished run against thresholds and a baseline, and report every reason.

Options replace the thresholds that the run was started with. The baseline (by default that of the run's dataset, see `assay
baseline`) is compared record by record. `--mode absolute` misses on a significant loss; `superiority` requires a significant gain;
`non-inferiority` requires that a loss of more than `--delta` is excluded. The audit log records every decision.
"""

EPILOG = """\b
Examples:
  assay gate latest
  assay gate latest --baseline nightly-14 --mode non-inferiority --delta 0.02
  assay gate latest --pass-rate 0.8 --max-error-rate 0.02 --baseline none

\b
Exit codes:
  0  the gate is met
  1  the gate is missed: a threshold, a significant loss, or a requirement that is not shown to be met
  2  could not run: no such run or baseline, it is unfinished or was changed, or nothing can be compared"""


class GateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    run: str
    runs_dir: str
    baseline: str
    mode: str
    delta: float | None
    measure: str
    cluster: str | None
    gates: Gates
    is_json: bool
    junit: str | None
    is_github: bool
    markdown: str | None


@click.command("gate", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@click.option(
    "--baseline", metavar="NAME|RUN|previous|none", default="", help="Baseline to compare with.  [default: its dataset's]"
)
@click.option(
    "--mode",
    type=WordChoice(("absolute", "superiority", "non-inferiority")),
    default="absolute",
    show_default=True,
    help="What the comparison must show.",
)
@click.option("--delta", type=Number(min=0), metavar="D", help="Acceptable loss, for non-inferiority.")
@click.option(
    "--measure", type=WordChoice(("pass_rate", "score")), default="pass_rate", show_default=True, help="What is compared."
)
@click.option("--cluster", metavar="KEY", help="Metadata key whose records form clusters.  [default: the plan's]")
@setting_option("pass_rate", help="Minimum pass rate of graded records.")
@setting_option("min_score", help="Minimum mean score on the dataset's scale, or headline of the profile.")
@setting_option("max_error_rate", help="Maximum share of records with an error or cancelled.")
@json_option
@junit_option
@github_option
@markdown_option
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    gates = {name: given.pop(name) for name in Gates.__struct_fields__}
    context.exit(decide(msgspec.convert({**given, "gates": gates}, GateOptions)))


def decide(options: GateOptions) -> int:
    """Decide, show it, and say it as an exit code."""
    check_markdown(options.markdown, is_json=options.is_json)
    pipeline = PipelineOptions.of(msgspec.structs.asdict(options))
    # Without a threshold those of the plan count.
    gates = None if options.gates == Gates() else options.gates
    demand = msgspec.convert(
        {"mode": options.mode, "delta": options.delta, "measure": options.measure, "gates": gates}, api.GateSpec
    )
    verdict = api.gate(options.run, demand, runs_dir=options.runs_dir, baseline=options.baseline, cluster=options.cluster)
    try:
        _tell(verdict, options, pipeline)
    except OSError as problem:
        kept = f"{gate_word(passed=verdict.passed)} is decided, and in the audit log"
        return exits.complain_of_report(problem, kept=[kept], again="give the same command again")
    return exits.GATES_PASSED if verdict.passed else exits.GATE_FAILED


def _tell(verdict: api.GateDecision, options: GateOptions, pipeline: PipelineOptions) -> None:
    if options.is_json:
        write_json(verdict.to_dict())
    if options.markdown is not None:
        write_markdown(verdict_markdown(verdict), options.markdown)
    elif not options.is_json:
        write_text(pipeline.guarded(verdict_text(verdict, text_settings())))
    if pipeline.is_wanted:
        run = api.open_run(options.run, runs_dir=options.runs_dir)
        tell_runs(pipeline, [gated_run(run, verdict)], summary=lambda: verdict_markdown(verdict))
