"""`assay cancel`: ends a run for good, also one that another process or a server works on."""

import click

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.remote import cancel_there, remote_of, server_options
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Cancel a run permanently: finished records stay, all others are marked as cancelled, and the artifacts are sealed.

A process that is running the run stops within seconds. To pause a run instead, press Ctrl-C in its terminal. RUN is an id, a unique
prefix of an id, or `latest`; for a run of a server it is the whole id.
"""

EPILOG = """\b
Examples:
  assay cancel latest
  assay cancel nightly-2026-11-15
  assay cancel run_01J8Q4ER9Z7Y5V5K6F4A1P2M3N --server https://assay.example.org

\b
Exit codes:
  0  the run is cancelled, or will be within seconds
  2  could not run: no such run, or it has ended already"""


@click.command("cancel", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@json_option
@server_options
@click.pass_context
def command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool, **given: object) -> None:
    """Entry of the command; see HELP."""
    remote = remote_of(given)
    result = api.cancel(run, runs_dir=runs_dir) if remote is None else cancel_there(remote, run)
    if is_json:
        write_json(result.to_dict())
    else:
        counts = result.counts
        done = f"{counts.evaluated_records + counts.failed_records:,} of {counts.total_records:,} records are done"
        stopping = "the workers will stop" if result.is_elsewhere else "the process that works on it will stop"
        state = result.state if result.is_finished else stopping
        write_text([f"{printable(result.run_id)} · {state} · {done}\n"])
    context.exit(exits.VALID)
