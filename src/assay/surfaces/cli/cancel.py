"""`assay cancel`: ends a run for good, also one that another process works on."""

import click

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """End a run for good; what is finished stays, everything else is marked as cancelled, and the evidence is sealed.

A process that works on the run stops by itself within a moment. To pause a run instead, press Ctrl-C where it works. RUN is an
id, a unique beginning of one, or `latest`.
"""

EPILOG = """\b
Examples:
  assay cancel latest
  assay cancel nightly-2026-11-15

\b
Exit codes:
  0  the run is cancelled, or will be within a moment
  2  could not run: no such run, or it has ended already"""


@click.command("cancel", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    result = api.cancel(run, runs_dir=runs_dir)
    if is_json:
        write_json(result.to_dict())
    else:
        counts = result.counts
        done = f"{counts.evaluated_records + counts.failed_records:,} of {counts.total_records:,} records are done"
        state = result.state if result.is_finished else "the process that works on it will stop"
        write_text([f"{printable(result.run_id)} · {state} · {done}\n"])
    context.exit(exits.VALID)
