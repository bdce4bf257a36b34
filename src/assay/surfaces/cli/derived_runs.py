"""`assay retry`, `rescore`, `rank`: commands that make a new run from finished runs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.core.settings import ProfileId, run_settings
from assay.core.text import printable
from assay.presentation.words import counted
from assay.surfaces.cli.options import (
    keeping_options,
    kept_here,
    placement_of,
    placement_options,
    quiet_option,
    setting_option,
    verbose_option,
)
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option
from assay.surfaces.cli.progress import RunProgress
from assay.surfaces.cli.run import announced
from assay.surfaces.cli.run_options import (
    RUN,
    OutputOptions,
    charts_option,
    check_charts,
    check_markdown,
    check_mlflow,
    command_line,
    conclude,
    json_option,
    markdown_option,
    mlflow_option,
    runs_dir_option,
)

RETRY_HELP = """Retry the records that ended in an error, as a new run that refers to the old one.

The new run has the records with an error, and those that were skipped or cancelled; graded answers that did not pass are not
repeated. The old run does not change. RUN is an id, a unique prefix of an id, `latest`, or the path of a run's folder.
"""

RETRY_EPILOG = """\b
Examples:
  assay retry latest
  assay retry nightly-2026-11-15 --run-id nightly-2026-11-15-again

\b
Exit codes:
  0    every gate is met, or there is none
  1    a gate was missed
  2    could not run, or nothing could be evaluated
  130  interrupted or cancelled; continue an interrupted run with `assay resume RUN`"""


@click.command("retry", help=RETRY_HELP, epilog=RETRY_EPILOG)
@RUN
@setting_option("run_id", help="Id of the new run.")
@runs_dir_option
@json_option
@junit_option
@github_option
@markdown_option
@charts_option
@quiet_option
@verbose_option()
@mlflow_option
@placement_options
@click.pass_context
def retry_command(context: click.Context, /, run: str, runs_dir: str, **given: Any) -> None:
    """Entry of the command; see RETRY_HELP."""
    # All destinations are checked before the run is opened: a report that cannot be written should not cost a
    # run.
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
    # RUN may be a path, and the new run belongs into the folder of the old one.
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


RESCORE_HELP = """Score a finished run with a benchmark's official profile, as a new run that refers to the old one.

The command reads only the files of the old run, which do not change; it calls no model and reads no dataset. If the profile does
not fit records of the run, the command fails and lists them. RUN is an id, a unique prefix of an id, `latest`, or the path of a
run's folder.
"""

RESCORE_EPILOG = """\b
Examples:
  assay rescore latest --profile prbench
  assay rescore nightly-2026-11-15 --profile lexam_open --compat --run-id nightly-2026-11-15-official

\b
Exit codes:
  0  every gate is met, or there is none
  1  a gate was missed
  2  could not run: no such run, it is unfinished, was changed, or the profile does not fit its records"""


@click.command("rescore", help=RESCORE_HELP, epilog=RESCORE_EPILOG)
@RUN
@setting_option("profile")
@setting_option("compat")
@setting_option("min_score", help="Gate: minimum headline score of the profile.")
@setting_option("run_id", help="Id of the new run.")
@runs_dir_option
@json_option
@junit_option
@github_option
@markdown_option
@verbose_option()
@click.pass_context
def rescore_command(context: click.Context, /, run: str, runs_dir: str, **given: Any) -> None:
    """Entry of the command; see RESCORE_HELP."""
    check_markdown(given["markdown"], is_json=given["is_json"])
    pipeline = PipelineOptions.of(given)
    profile: ProfileId | None = given["profile"]
    # Checked here and not by click, because the option is shared with commands where it is optional.
    if profile is None:
        raise UsageProblem("--profile is missing", hint="assay rescore RUN --profile prbench; --help lists them all")
    parent = api.open_run(run, runs_dir=runs_dir)
    _note_lost_gate(parent, profile, min_score=given["min_score"])
    result = api.rescore(
        run,
        profile=profile,
        compat=given["compat"],
        min_score=given["min_score"],
        runs_dir=runs_dir,
        run_id=given["run_id"],
    )
    shown = OutputOptions(
        runs_dir=str(parent.folders.runs_dir),
        is_json=given["is_json"],
        is_verbose=given["verbose"],
        markdown=given["markdown"],
        pipeline=pipeline,
    )
    context.exit(conclude([result], shown))


def _note_lost_gate(parent: api.RunReader, profile: str, *, min_score: float | None) -> None:
    """Warn that the parent's threshold for its mean score does not apply to the profile's score."""
    # A threshold for the mean score means nothing on a profile's own scale, and dropping it silently would turn a
    # gate off.
    limit = parent.plan.gates.min_score
    if limit is not None and min_score is None and parent.plan.profile != profile:
        name = printable(parent.folders.run_id)
        click.echo(
            f"assay: the gate of {name} on its mean score ({limit:g}) is not about {profile}; set one: --min-score", err=True
        )


RANK_HELP = """Rank finished runs by their answers: judges compare two answers at a time, and no candidate is called.

Every judge sees each record that two runs answered twice, A before B and B before A, without the names of the candidates. An answer
wins only if it wins in both orders; the report shows how often a judge followed the position instead. Strengths come from the
Bradley-Terry model, with 95 % intervals by record. A ranking is a run that you can interrupt, resume, show and verify. RUN is an
id, a unique prefix of an id, `latest`, or the path of a run's folder.
"""

RANK_EPILOG = """\b
Examples:
  assay rank small large --judge openai/gpt-6-sol
  assay rank small large next --judge openai/gpt-6-sol --judge anthropic/claude-sonnet-5 --sample 200
  assay rank small large --judge openai/gpt-6-sol --run-id small-or-large --markdown ranking.md --charts charts

\b
Exit codes:
  0    compared, for any ranking
  2    could not run: no record in common, no such run or judge, or nothing could be compared
  130  interrupted or cancelled; continue an interrupted run with `assay resume RUN`"""


@click.command("rank", help=RANK_HELP, epilog=RANK_EPILOG)
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
@quiet_option
@verbose_option("List every comparison with its result and reasons.")
@keeping_options
@click.pass_context
def rank_command(context: click.Context, /, runs: tuple[str, ...], **given: Any) -> None:
    """Entry of the command; see RANK_HELP."""
    check_markdown(given["markdown"], is_json=given["is_json"])
    check_charts(given["charts"])
    if given["run_id"] == "":
        raise UsageProblem("--run-id is empty", hint="leave it out for a new id")
    # Options that were not given are left out, so that the defaults of the request apply.
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
    # Every pair is judged in both orders.
    calls = counted(2 * planned.n_comparisons * len(plan.judges), "call")
    what = f"{counted(planned.n_comparisons, 'comparison')} of {counted(planned.n_records, 'record')} · {calls}"
    with announced(plan.run_id, f"{what} · {plan.candidate.name}", shown=shown) as progress:
        result = api.rank(planned, watch=progress.watch, on_busy=progress.wait_for_other, takes_signals=True, placement=placement)
    return conclude([result], shown)
