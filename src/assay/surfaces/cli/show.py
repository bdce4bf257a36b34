"""`assay show`: a run's report, or one of its records with everything that is known of it."""

from typing import Any

import click

from assay import api
from assay.core.errors import RunNotFound
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, Shown, json_option, report, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.reporters.run_record import record_text

HELP = """Show a run, or one of its records: prompt, answer, scores, justification, every attempt.

RUN is an id, a unique beginning of one, `latest`, or the path of a run's folder. Of a run that is under way it shows what is
known so far.
"""

EPILOG = """\b
Examples:
  assay show latest
  assay show latest leap-year
  assay show runs/nightly-2026-11-15 --json

\b
Exit codes:
  0  shown, whatever the run came to
  2  could not run: no such run or record"""


@click.command("show", help=HELP, epilog=EPILOG)
@RUN
@click.argument("record", required=False)
@runs_dir_option
@json_option
@click.option("-v", "--verbose", is_flag=True, help="List every record; of one record, show long texts whole.")
@click.pass_context
def command(context: click.Context, /, run: str, record: str | None, *, runs_dir: str, is_json: bool, verbose: bool) -> None:
    """Entry of the command; see HELP."""
    opened = api.open_run(run, runs_dir=runs_dir)
    if record is not None:
        found = _record(opened, record)
        if is_json:
            write_json(found)
        else:
            write_text(record_text(found, text_settings(is_verbose=verbose)))
    elif is_json:
        write_json(opened.result.to_dict())
    else:
        report(opened, Shown(runs_dir=str(opened.folders.runs_dir), is_verbose=verbose))
    context.exit(exits.VALID)


def _record(run: api.Run, record_id: str) -> dict[str, Any]:
    """What is known of a record; one that broke its contract was never sent anywhere, and is among the failures only."""
    try:
        return run.record(record_id)
    except RunNotFound:
        failure = next((failure for failure in run.failures() if failure["record_id"] == record_id), None)
        if failure is None:
            raise
        return {"failure": failure}
