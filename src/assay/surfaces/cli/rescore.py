"""`assay rescore`: a finished run with the official score of a benchmark, as a new run, without any model."""

from __future__ import annotations

from typing import Any

import click

from assay import api
from assay.core.errors import UsageProblem
from assay.core.settings import ProfileId
from assay.core.text import printable
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option
from assay.surfaces.cli.run_options import (
    RUN,
    OutputOptions,
    check_markdown,
    conclude,
    json_option,
    markdown_option,
    runs_dir_option,
    setting_option,
)

HELP = """Score a finished run with a benchmark's official profile, as a new run that refers to the old one.

The command reads only the files of the old run, which do not change; it calls no model and reads no dataset. If the profile does
not fit records of the run, the command fails and lists them. RUN is an id, a unique prefix of an id, `latest`, or the path of a
run's folder.
"""

EPILOG = """\b
Examples:
  assay rescore latest --profile prbench
  assay rescore nightly-2026-11-15 --profile lexam_open --compat --run-id nightly-2026-11-15-official

\b
Exit codes:
  0  every gate is met, or there is none
  1  a gate was missed
  2  could not run: no such run, it is unfinished, was changed, or the profile does not fit its records"""


@click.command("rescore", help=HELP, epilog=EPILOG)
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
@click.option("-v", "--verbose", is_flag=True, help="List every record with its score and reason.")
@click.pass_context
def rescore_command(context: click.Context, /, run: str, runs_dir: str, **given: Any) -> None:
    """Entry of the command; see HELP."""
    check_markdown(given["markdown"], is_json=given["is_json"])
    pipeline = PipelineOptions.of(given)
    profile: ProfileId | None = given["profile"]
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
    """A threshold for one figure says nothing about another; what does not count any more is said."""
    plan = parent.run_manifest.plan
    limit = (plan.get("gates") or {}).get("min_score")
    if limit is not None and min_score is None and plan.get("profile") != profile:
        name = printable(parent.folders.run_id)
        click.echo(
            f"assay: the gate of {name} on its mean score ({limit:g}) is not about {profile}; set one: --min-score", err=True
        )
