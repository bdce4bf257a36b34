"""`assay rank`: judges compare the answers of finished runs, two at a time, and a ranking comes out of it."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.core.settings import run_settings
from assay.core.text import printable
from assay.presentation.words import counted
from assay.surfaces.cli.chart_files import charts_option, check_charts
from assay.surfaces.cli.options import keeping_options, kept_here
from assay.surfaces.cli.run import announced
from assay.surfaces.cli.run_options import (
    OutputOptions,
    check_markdown,
    conclude,
    json_option,
    markdown_option,
    runs_dir_option,
    setting_option,
)

HELP = """Rank finished runs by their answers: judges compare two answers at a time, and no candidate is called.

Every judge sees each record that two runs answered twice, A before B and B before A, without the names of the candidates. An answer
wins only if it wins in both orders; the report shows how often a judge followed the position instead. Strengths come from the
Bradley-Terry model, with 95 % intervals by record. A ranking is a run that you can interrupt, resume, show and verify. RUN is an
id, a unique prefix of an id, `latest`, or the path of a run's folder.
"""

EPILOG = """\b
Examples:
  assay rank small large --judge openai/gpt-5
  assay rank small large next --judge openai/gpt-5 --judge anthropic/claude-sonnet-4-5 --sample 200
  assay rank small large --judge openai/gpt-5 --run-id small-or-large --markdown ranking.md --charts charts

\b
Exit codes:
  0    compared, for any ranking
  2    could not run: no record in common, no such run or judge, or nothing could be compared
  130  interrupted or cancelled; continue an interrupted run with `assay resume RUN`"""


@click.command("rank", help=HELP, epilog=EPILOG)
@click.argument("runs", nargs=-1, metavar="RUN RUN...")
@setting_option("judges", help="Judge model; repeat for a panel that decides by majority.")
@runs_dir_option
@setting_option("run_id")
@setting_option("limit", help="Compare the first N records.")
@setting_option("sample", help="Compare a random sample of N records, the same for the same seed.")
@setting_option("seed", help="Seed of the sample.  [default: 0]")
@setting_option("concurrency")
@setting_option("max_cost")
@json_option
@markdown_option
@charts_option
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@click.option("-v", "--verbose", is_flag=True, help="List every comparison with its result and reasons.")
@keeping_options
@click.pass_context
def rank_command(context: click.Context, /, runs: tuple[str, ...], **given: Any) -> None:
    """Entry of the command; see HELP."""
    check_markdown(given["markdown"], is_json=given["is_json"])
    check_charts(given["charts"])
    if given["run_id"] == "":
        raise UsageProblem("--run-id is empty", hint="leave it out for a new id")
    settings = {name: given[name] for name in run_settings() if given.get(name) is not None}
    request = api.RankRequest(runs=runs, **settings)
    shown = OutputOptions(
        runs_dir=given["runs_dir"],
        is_json=given["is_json"],
        is_verbose=given["verbose"],
        is_quiet=given["quiet"],
        markdown=given["markdown"],
        charts=given["charts"],
        is_named=bool(given["run_id"]),
    )
    context.exit(rank(request, shown, kept_here(given, "a ranking", is_quiet=shown.is_quiet)))


def rank(request: api.RankRequest, shown: OutputOptions, placement: RunBackend = LOCAL_BACKEND) -> int:
    """Compare, show the ranking, and say how it went as an exit code."""
    planned = api.plan_rank(request)
    plan = planned.plan
    shown = msgspec.structs.replace(shown, runs_dir=planned.runs_dir)
    if not shown.is_quiet and plan.comparison is not None:
        for note in plan.comparison.notes:
            click.echo(f"assay: {printable(note)}", err=True)
    calls = counted(2 * planned.n_comparisons * len(plan.judges), "call")
    what = f"{counted(planned.n_comparisons, 'comparison')} of {counted(planned.n_records, 'record')} · {calls}"
    with announced(plan.run_id, f"{what} · {plan.candidate.name}", shown=shown) as progress:
        result = api.rank(planned, watch=progress.watch, on_busy=progress.wait_for_other, takes_signals=True, placement=placement)
    return conclude([result], shown)
