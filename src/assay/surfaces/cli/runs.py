"""`assay runs`: the runs of a folder, the newest first."""

from itertools import islice

import click
import msgspec

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, runs_dir_option, say_empty, text_settings, write_json, write_text
from assay.surfaces.reporters.run_list import runs_text

HELP = """List the runs of a folder, the newest first, finished or not.

The score of a run is the headline of its profile, or else its mean score; the next column shows which, and its scale. A run that
was started and that no process is working on is `interrupted`: continue it with `assay resume`. A run that cannot be read has a
line with the reason. Values that retention has removed are shown as unknown; the manifest stays.
"""

EPILOG = """\b
Examples:
  assay runs
  assay runs --limit 5
  assay runs --json

\b
Exit codes:
  0  listed, even if there are none
  2  could not run: the folder cannot be read"""


@click.command("runs", help=HELP, epilog=EPILOG)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List the newest N runs.")
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, limit: int | None, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    listed = list(islice(api.list_runs(runs_dir), limit))
    if is_json:
        write_json({"runs": msgspec.to_builtins(listed)})
    else:
        write_text(runs_text(listed, text_settings()))
        if not listed:
            say_empty(runs_dir, "--runs-dir names another folder")
    context.exit(exits.VALID)
