"""`assay show`: a run's report, or one of its records with everything that is known of it."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import RunNotFound, UsageProblem
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, OutputOptions, json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.cli.run_reports import report
from assay.surfaces.cli.streams import guarded
from assay.surfaces.reporters.run_record import record_text
from assay.surfaces.reporters.run_text import disagreement_text

HELP = """Show a run, or one of its records: prompt, answer, scores, justification, every attempt.

RUN is an id, a unique prefix of an id, `latest`, or the path of a run's folder. Of an unfinished run it shows the results so far.
"""

EPILOG = """\b
Examples:
  assay show latest
  assay show latest leap-year
  assay show latest leap-year --sample 2
  assay show latest --disagreements
  assay show runs/nightly-2026-11-15 --json

\b
Exit codes:
  0  shown, for any result of the run
  2  could not run: no such run or record"""


_LOOKED_AT = 5_000
"""Records among which the nearest one is looked for."""


class ShowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command's arguments as given."""

    run: str
    record: str | None
    runs_dir: str
    is_json: bool
    disagreements: bool
    sample: int | None
    verbose: bool


@click.command("show", help=HELP, epilog=EPILOG)
@RUN
@click.argument("record", required=False)
@runs_dir_option
@json_option
@click.option("--disagreements", is_flag=True, help="List the records on which the judges of a panel disagree, with every vote.")
@click.option("--sample", type=click.IntRange(min=0), metavar="N", help="For a record with several answers: answer N, from 0.")
@click.option("-v", "--verbose", is_flag=True, help="List every record; for one record, show long texts in full.")
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    options = msgspec.convert(given, ShowOptions)
    opened = api.open_run(options.run, runs_dir=options.runs_dir)
    if options.sample is not None and options.record is None:
        raise UsageProblem("--sample is an answer to a record", hint="name the record: assay show RUN RECORD --sample N")
    if options.disagreements:
        _show_disagreements(opened, options)
    elif options.record is not None:
        _show_record(opened, options)
    elif options.is_json:
        write_json(opened.result.to_dict())
    else:
        report([opened], OutputOptions(runs_dir=str(opened.folders.runs_dir), is_verbose=options.verbose))
    context.exit(exits.VALID)


def _show_disagreements(run: api.RunReader, options: ShowOptions) -> None:
    if options.record is not None:
        raise UsageProblem("--disagreements are of a whole run", hint="leave the record out")
    found, run_id = run.disagreements(), run.folders.run_id
    if options.is_json:
        write_json({"run_id": run_id, "disagreements": found})
    else:
        write_text(guarded(disagreement_text(run_id, found, text_settings(is_verbose=options.verbose))))


def _show_record(run: api.RunReader, options: ShowOptions) -> None:
    found = _record(run, options)
    if options.is_json:
        write_json(found)
    else:
        write_text(guarded(record_text(found, text_settings(is_verbose=options.verbose))))


def _record(run: api.RunReader, options: ShowOptions) -> dict[str, Any]:
    """What is known of a record; one that broke its contract was never sent anywhere, and is among the failures only."""
    try:
        return run.record(options.record or "", sample=options.sample)
    except RunNotFound as problem:
        failure = next((failure for failure in run.failures() if failure["record_id"] == options.record), None)
        if failure is None:
            known = dict.fromkeys(line["record_id"] for line in islice(run.predictions(), _LOOKED_AT))
            near = get_close_matches(options.record or "", known, n=1)
            raise RunNotFound(problem.message, hint=f"did you mean '{near[0]}'?" if near else problem.hint) from None
        return {"failure": failure}
