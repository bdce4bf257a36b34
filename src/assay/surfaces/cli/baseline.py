"""`assay baseline`: the runs that others are measured against."""

import click
import msgspec

from assay import api
from assay.presentation.sections import Column
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, say_empty, text_settings, write_json, write_text
from assay.surfaces.printable import printable
from assay.surfaces.reporters.terminal import painter, table

HELP = """Set the baseline run that other runs are compared with, or show it.

A baseline has a name, by default the id of its dataset, so that `assay gate` finds it. The audit log records who set it, when and
why; the run itself does not change.
"""

EPILOG = """\b
Examples:
  assay baseline set nightly-14 --reason "release 2.3"
  assay baseline show

\b
Exit codes:
  0  done
  2  could not run: no such run, it is unfinished, or it evaluated nothing"""


@click.group("baseline", help=HELP, epilog=EPILOG)
def command() -> None:
    """Entry of the command; see HELP."""


@command.command("set")
@RUN
@click.option("--name", default="", metavar="NAME", help="Name of the baseline.  [default: the id of the run's dataset]")
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the audit log.")
@runs_dir_option
@json_option
@click.pass_context
def set_baseline(context: click.Context, /, run: str, *, name: str, reason: str, runs_dir: str, is_json: bool) -> None:
    """Measure later runs against RUN."""
    baseline = api.set_baseline(run, runs_dir=runs_dir, name=name, reason=reason)
    if is_json:
        write_json(msgspec.to_builtins(baseline))
    else:
        write_text([f"{printable(baseline.run_id)} is now the baseline '{printable(baseline.name)}'\n"])
    context.exit(exits.VALID)


@command.command("show")
@runs_dir_option
@json_option
@click.pass_context
def show(context: click.Context, /, *, runs_dir: str, is_json: bool) -> None:
    """List the baselines."""
    found = api.list_baselines(runs_dir)
    if is_json:
        write_json({"baselines": msgspec.to_builtins(found)})
    else:
        if not found:
            write_text(["0 baselines\n"])
            say_empty(runs_dir, "assay baseline set RUN chooses one")
            context.exit(exits.VALID)
        settings = text_settings()
        rows = [[printable(text, limit=60) for text in (one.name, one.run_id, one.at, one.by, one.reason)] for one in found]
        columns = [Column(title) for title in ("baseline", "run", "since", "by", "why")]
        write_text(table(columns, rows, paint=painter(is_coloured=settings.is_coloured), width=settings.width))
    context.exit(exits.VALID)
