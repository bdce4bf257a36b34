"""`assay purge`: removes artifacts whose time of retention is over, and leaves a trace of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.presentation.words import counted
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Remove artifacts whose retention period has ended: raw artifacts after 30 days, aggregates after 180.

The manifest of a run sets the period; ASSAY_RETENTION_RAW_DAYS and ASSAY_RETENTION_AGGREGATE_DAYS can extend it. The manifest is
never removed: it gets a tombstone for each removed file, and `audit.jsonl` records what was removed and why. To remove artifacts
earlier, give the whole id of RUN with --force and a --reason. A cache of replies belongs to no run and stays; the command prints
its path.
"""

EPILOG = """\b
Examples:
  assay purge --dry-run
  assay purge
  assay purge nightly-2026-11-15 --force --reason "erasure request 17"

\b
Exit codes:
  0  done, even if there was nothing to remove
  1  done, but a run could not be read and was skipped
  2  could not run: no such run, too early, or no reason given"""


class PurgeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command's arguments as given."""

    run: str | None
    force: bool
    reason: str
    dry_run: bool
    runs_dir: str
    is_json: bool


@click.command("purge", help=HELP, epilog=EPILOG)
@click.argument("run", required=False)
@click.option("--force", is_flag=True, help="Remove the artifacts of RUN early; needs --reason.")
@click.option("--reason", metavar="TEXT", default="", help="Reason for the early removal, for the audit log.")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    context.exit(purge(msgspec.convert(given, PurgeOptions)))


def purge(options: PurgeOptions) -> int:
    """Remove what the options name, and say what went."""
    _check(options)
    purged = api.purge(options.runs_dir, run_name=options.run, reason=options.reason, is_dry=options.dry_run)
    found = [entry for entry in purged if entry.artifacts]
    unread = [entry for entry in purged if entry.problem]
    if options.is_json:
        runs = [{"run_id": entry.run_id, "artifacts": list(entry.artifacts), "cache_dir": entry.cache_dir} for entry in found]
        problems = [{"run_id": entry.run_id, "problem": entry.problem} for entry in unread]
        write_json({"is_dry_run": options.dry_run, "purged": runs, "problems": problems})
    else:
        write_text(_lines(found, unread, is_dry=options.dry_run))
    return exits.INVALID if unread else exits.VALID


def _check(options: PurgeOptions) -> None:
    if options.force and options.run is None:
        raise UsageProblem("--force needs a run", hint="name the run whose artifacts must go early")
    if options.force and not options.reason.strip():
        raise UsageProblem("--force needs a --reason", hint="it is written to the audit log")
    if options.reason and not options.force:
        raise UsageProblem("--reason is for --force", hint="what has expired is removed without a reason")


def _lines(purged: Iterable[api.PurgeResult], unread: Iterable[api.PurgeResult], *, is_dry: bool) -> Iterator[str]:
    files = runs = 0
    for entry in purged:
        yield f"{printable(entry.run_id)} · {', '.join(map(printable, entry.artifacts))}\n"
        if entry.cache_dir:
            place = printable(entry.cache_dir)
            yield f"  the cache of replies in '{place}' is shared by runs and stays: delete it to be rid of those too\n"
        files, runs = files + len(entry.artifacts), runs + 1
    for entry in unread:
        yield f"{printable(entry.run_id)} · nothing removed: {printable(entry.problem)}\n"
    verb = "would be removed" if is_dry else "removed"
    yield f"{counted(files, 'file')} of {counted(runs, 'run')} {verb}\n"
