"""`assay gate`: a verdict on a finished run, as words and as an exit code."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from assay import api
from assay.core.plan import Gates
from assay.surfaces.cli import exits
from assay.surfaces.cli.numbers import Number
from assay.surfaces.cli.pipeline import Pipeline, github_option, junit_option
from assay.surfaces.cli.run_options import (
    RUN,
    check_markdown,
    json_option,
    markdown_option,
    runs_dir_option,
    text_settings,
    write_json,
    write_markdown,
    write_text,
)
from assay.surfaces.cli.run_pipeline import tell_runs
from assay.surfaces.reporters.run_checks import gated_run
from assay.surfaces.reporters.verdict import verdict_markdown, verdict_text
from assay.surfaces.reporters.verdict_words import gate_word

HELP = """Decide whether a finished run meets its gate, and say why.

Thresholds are those that the run was started with, apart from those that are given here. A baseline (by default that of the run's
dataset, see `assay baseline`) is compared record by record. `--mode absolute` misses on a loss that can be shown; `superiority`
demands a gain that can be shown; `non-inferiority` demands that a loss of more than `--delta` is excluded. Every decision goes to
the audit log.
"""

EPILOG = """\b
Examples:
  assay gate latest
  assay gate latest --baseline nightly-14 --mode non-inferiority --delta 0.02
  assay gate latest --pass-rate 0.8 --max-error-rate 0.02 --baseline none

\b
Exit codes:
  0  the gate is met
  1  the gate is missed: a threshold, a loss that is shown, or a demand that is not shown to be met
  2  could not run: no such run or baseline, it has not ended or was changed, or nothing can be compared"""

_RATE = Number(0, 1)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    run: str
    runs_dir: str
    baseline: str
    mode: str
    delta: float | None
    measure: str
    cluster: str | None
    pass_rate: float | None
    min_score: float | None
    max_error_rate: float | None
    is_json: bool
    junit: str | None
    is_github: bool
    markdown: str | None


@click.command("gate", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@click.option(
    "--baseline", metavar="NAME|RUN|previous|none", default="", help="What the run is measured against.  [default: its dataset's]"
)
@click.option(
    "--mode",
    type=click.Choice(("absolute", "superiority", "non-inferiority")),
    default="absolute",
    show_default=True,
    help="What the comparison has to show.",
)
@click.option("--delta", type=Number(min=0), metavar="D", help="The loss that is acceptable, for non-inferiority.")
@click.option(
    "--measure", type=click.Choice(("pass_rate", "score")), default="pass_rate", show_default=True, help="What is compared."
)
@click.option("--cluster", metavar="KEY", help="Member of the metadata whose records hang together; the plan's where not given.")
@click.option("--pass-rate", type=_RATE, metavar="X", help="Share of graded records that must pass.")
@click.option("--min-score", type=Number(0, 100), metavar="X", help="Mean score on the dataset's scale, or the profile's headline.")
@click.option("--max-error-rate", type=_RATE, metavar="X", help="Share of all records that may end in an error or be cancelled.")
@json_option
@junit_option
@github_option
@markdown_option
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Entry of the command; see HELP."""
    context.exit(decide(msgspec.convert(given, Options)))


def decide(options: Options) -> int:
    """Decide, show it, and say it as an exit code."""
    check_markdown(options.markdown, is_json=options.is_json)
    pipeline = Pipeline.of(msgspec.structs.asdict(options))
    demand = msgspec.convert(
        {"mode": options.mode, "delta": options.delta, "measure": options.measure, "gates": _gates(options)}, api.Demand
    )
    verdict = api.gate(options.run, demand, runs_dir=options.runs_dir, baseline=options.baseline, cluster=options.cluster)
    try:
        _tell(verdict, options, pipeline)
    except OSError as problem:
        kept = f"{gate_word(passed=verdict.passed)} is decided, and in the audit log"
        return exits.complain_of_report(problem, kept=[kept], again="give the same command again")
    return exits.GATES_PASSED if verdict.passed else exits.GATE_FAILED


def _tell(verdict: api.Verdict, options: Options, pipeline: Pipeline) -> None:
    if options.is_json:
        write_json(verdict.to_dict())
    if options.markdown is not None:
        write_markdown(verdict_markdown(verdict), options.markdown)
    elif not options.is_json:
        write_text(pipeline.guarded(verdict_text(verdict, text_settings())))
    if pipeline.is_wanted:
        run = api.open_run(options.run, runs_dir=options.runs_dir)
        tell_runs(pipeline, [gated_run(run, verdict)], summary=lambda: verdict_markdown(verdict))


def _gates(options: Options) -> Gates | None:
    """Thresholds that were given here; None leaves those of the plan."""
    given = Gates(pass_rate=options.pass_rate, min_score=options.min_score, max_error_rate=options.max_error_rate)
    return None if given == Gates() else given
