"""`assay replay`: a run's metrics once more, from its artifacts alone."""

import click

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

MAX_DIFFERENCES = 20

HELP = """Recompute every metric of a finished run from its records, and list those that differ from the published ones.

The command reads only the artifacts: it calls no model and reads no dataset. RUN is an id, a unique prefix of an id, `latest`, or
the path of a run's folder.
"""

EPILOG = """\b
Examples:
  assay replay latest
  assay replay archive/nightly-2026-11-15 --json

\b
Exit codes:
  0  every metric is the same
  1  a metric differs
  2  could not run: no such run, it is unfinished, or its records were purged"""


@click.command("replay", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    run_id = api.open_run(run, runs_dir=runs_dir).folders.run_id
    differences = api.replay(run, runs_dir=runs_dir)
    if is_json:
        write_json({"run_id": run_id, "is_same": not differences, "differences": differences})
    else:
        write_text(f"{printable(line)}\n" for line in _lines(run_id, differences))
    context.exit(exits.INVALID if differences else exits.VALID)


def _lines(run_id: str, differences: list[str]) -> list[str]:
    if not differences:
        return [f"{run_id} · every metric comes out the same"]
    shown = [f"  {difference}" for difference in differences[:MAX_DIFFERENCES]]
    more = len(differences) - len(shown)
    return [f"{run_id} · {len(differences):,} figures differ", *shown, *([f"  … and {more:,} more"] if more else [])]
