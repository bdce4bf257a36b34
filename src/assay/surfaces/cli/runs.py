"""`assay runs`, `show`, `cancel`, `verify`, `replay`, `purge`, `publish`, `fetch`: finished and unfinished runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice

import click
import msgspec

from assay import api
from assay.core.artifact_lines import InvalidRecord, RecordDetails
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.text import printable
from assay.presentation.judges import disagreement_sections
from assay.presentation.matrix import unpassed_reasons, unpassed_records, unpassed_section
from assay.presentation.record import record_sections
from assay.presentation.run_list import run_list_sections
from assay.presentation.sections import Cell, Section
from assay.presentation.words import counted
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import verbose_option
from assay.surfaces.cli.remote import cancel_there, remote_of, server_options
from assay.surfaces.cli.run_options import (
    RUN,
    RUN_OR_GROUP,
    OutputOptions,
    command_line,
    json_option,
    runs_dir_option,
    say_empty,
    text_settings,
    write_json,
    write_text,
)
from assay.surfaces.cli.run_reports import report
from assay.surfaces.cli.streams import guarded
from assay.surfaces.reporters.terminal import report_text

RUNS_HELP = """List the runs of a folder, the newest first, finished or not.

The score of a run is the headline of its profile, or else its mean score; the next column shows which, and its scale. A run that
was started and that no process is working on is `interrupted`: continue it with `assay resume`. A run that cannot be read has a
line with the reason. Values that retention has removed are shown as unknown; the manifest stays.
"""

RUNS_EPILOG = """\b
Examples:
  assay runs
  assay runs --limit 5
  assay runs --json

\b
Exit codes:
  0  listed, even if there are none
  2  could not run: the folder cannot be read"""


@click.command("runs", help=RUNS_HELP, epilog=RUNS_EPILOG)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List the newest N runs.")
@runs_dir_option
@json_option
@click.pass_context
def runs_command(context: click.Context, /, limit: int | None, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    # Sliced before it is printed: listing reads a manifest for each run.
    listed = list(islice(api.list_runs(runs_dir), limit))
    if is_json:
        write_json({"runs": msgspec.to_builtins(listed)})
    else:
        write_text(report_text(run_list_sections(listed), text_settings()))
        if not listed:
            say_empty(runs_dir, "--runs-dir names another folder")
    context.exit(exits.VALID)


SHOW_HELP = """Show a run, or one of its records: prompt, answer, scores, justification, every attempt.

RUN is an id, a unique prefix of an id, `latest`, the path of a run's folder, or the name of a group of runs that were started
together: their records are shown side by side, with the score and the answer of each candidate. Of an unfinished run it shows the
results so far.
"""

SHOW_EPILOG = """\b
Examples:
  assay show latest
  assay show nightly-15
  assay show latest leap-year
  assay show latest --not-passed
  assay show latest --not-passed --why incorrect_answer
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
    """Arguments of the command."""

    run: str
    record: str | None
    runs_dir: str
    is_json: bool
    disagreements: bool
    not_passed: bool
    errors: bool
    why: str
    sample: int | None
    verbose: bool

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of records to list; a reason alone may be of either kind."""
        named = [kind for kind, is_named in (("not_passed", self.not_passed), ("error", self.errors)) if is_named]
        return tuple(named) or (("not_passed", "error") if self.why else ())


@click.command("show", help=SHOW_HELP, epilog=SHOW_EPILOG)
@RUN_OR_GROUP
@click.argument("record", required=False)
@runs_dir_option
@json_option
@click.option("--disagreements", is_flag=True, help="List the records on which the judges of a panel disagree, with every vote.")
@click.option("--not-passed", is_flag=True, help="List the records that were graded and did not pass: question, answer, reason.")
@click.option("--errors", is_flag=True, help="List the records that ended in an error.")
@click.option("--why", metavar="REASON", default="", help="List only the records with this reason, such as incorrect_answer.")
@click.option("--sample", type=click.IntRange(min=0), metavar="N", help="For a record with several answers: answer N, from 0.")
@verbose_option("List every record; for one record, show long texts in full.")
@click.pass_context
def show_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    show(msgspec.convert(given, ShowOptions))
    context.exit(exits.VALID)


def show(options: ShowOptions) -> None:
    """Show a run or a group, or what the options choose of it."""
    group = api.open_group(options.run, runs_dir=options.runs_dir)
    if options.sample is not None and options.record is None:
        raise UsageProblem("--sample is an answer to a record", hint="name the record: assay show RUN RECORD --sample N")
    if options.disagreements:
        _show_disagreements(group, options)
    elif options.kinds:
        _show_unpassed(group, options)
    elif options.record is not None:
        _show_record(group, options)
    elif options.is_json:
        _write_document(group, [run.result.to_dict() for run in group.runs])
    else:
        # A run without a record and without --json is the same report as at its end.
        report(group.runs, OutputOptions(runs_dir=str(group.runs[0].folders.runs_dir), is_verbose=options.verbose))


def _write_document(group: api.RunGroup, documents: Sequence[object]) -> None:
    """Write the document of a run, or those of a group as one."""
    write_json({"group": group.name, "runs": documents} if group.is_several else documents[0])


def _check_whole(what: str, options: ShowOptions) -> None:
    """Raise UsageProblem for a list of records next to one record."""
    if options.record is not None:
        raise UsageProblem(f"{what} are of a whole run", hint="leave the record out")


def _show_disagreements(group: api.RunGroup, options: ShowOptions) -> None:
    _check_whole("--disagreements", options)
    found = [(run.folders.run_id, run.disagreements()) for run in group.runs]
    if options.is_json:
        _write_document(group, [{"run_id": run_id, "disagreements": entries} for run_id, entries in found])
    else:
        sections = [
            section for run_id, entries in found for section in disagreement_sections(run_id, entries, is_verbose=options.verbose)
        ]
        write_text(guarded(report_text(sections, text_settings())))


def _show_unpassed(group: api.RunGroup, options: ShowOptions) -> None:
    """List the records that did not pass, or have an error; raises UsageProblem for a reason that no record has."""
    _check_whole("--not-passed, --errors and --why", options)
    found = [(run, list(unpassed_records(run, kinds=options.kinds, reason=options.why))) for run in group.runs]
    if options.why and not any(records for _, records in found):
        known = dict.fromkeys(reason for run in group.runs for reason in unpassed_reasons(run, kinds=options.kinds))
        reasons = f"reasons: {', '.join(known)}" if known else "every record passed"
        raise UsageProblem(f"no record has the reason '{options.why}'", hint=reasons)
    if options.is_json:
        documents = [
            {"run_id": run.folders.run_id, "candidate": run.result.candidate, "records": records} for run, records in found
        ]
        _write_document(group, documents)
    else:
        sections = [unpassed_section(run, records, is_verbose=options.verbose) for run, records in found]
        write_text(guarded(report_text(sections, text_settings(is_verbose=options.verbose))))


def _show_record(group: api.RunGroup, options: ShowOptions) -> None:
    found = _records(group, options)
    if options.is_json:
        documents = [{"run_id": run.folders.run_id, "candidate": run.result.candidate, "record": record} for run, record in found]
        _write_document(group, documents if group.is_several else [found[0][1]])
        return
    sections = [section for run, record in found for section in _record_sections(group, run, record, options)]
    write_text(guarded(report_text(sections, text_settings(is_verbose=options.verbose))))


def _record_sections(
    group: api.RunGroup, run: api.RunReader, record: RecordDetails | InvalidRecord, options: ShowOptions
) -> list[Section]:
    """Return a record; of a group each below the name of its candidate."""
    above = [Section(heading=(Cell(run.result.candidate), Cell(run.folders.run_id)))] if group.is_several else []
    return [*above, *record_sections(record, is_verbose=options.verbose)]


def _records(group: api.RunGroup, options: ShowOptions) -> list[tuple[api.RunReader, RecordDetails | InvalidRecord]]:
    """Return the record in each run that has it; raises RunNotFound when none has."""
    found: list[tuple[api.RunReader, RecordDetails | InvalidRecord]] = []
    missing: list[RunNotFound] = []
    for run in group.runs:
        try:
            found.append((run, _record(run, options)))
        except RunNotFound as problem:
            missing.append(problem)
    if not found:
        raise missing[0]
    return found


def _record(run: api.RunReader, options: ShowOptions) -> RecordDetails | InvalidRecord:
    """Return what is known of a record; one that broke its contract was never sent anywhere, and is among the failures only."""
    try:
        return run.record(options.record or "", sample=options.sample)
    except RunNotFound as problem:
        # Invalid records have no prediction; they are found among the failures.
        failure = next((failure for failure in run.failures() if failure.record_id == options.record), None)
        if failure is None:
            known = dict.fromkeys(line.record_id for line in islice(run.predictions(), _LOOKED_AT))
            # A typo is likely, and reading 50,000 ids to guess it is not worth a second.
            near = get_close_matches(options.record or "", known, n=1)
            raise RunNotFound(problem.message, hint=f"did you mean '{near[0]}'?" if near else problem.hint) from None
        return InvalidRecord(failure=failure)


CANCEL_HELP = """Cancel a run permanently: finished records stay, all others are marked as cancelled, and the artifacts are sealed.

A process that is running the run stops within seconds. To pause a run instead, press Ctrl-C in its terminal. RUN is an id, a unique
prefix of an id, or `latest`; for a run of a server it is the whole id.
"""

CANCEL_EPILOG = """\b
Examples:
  assay cancel latest
  assay cancel nightly-2026-11-15
  assay cancel run_01J8Q4ER9Z7Y5V5K6F4A1P2M3N --server https://assay.example.org

\b
Exit codes:
  0  the run is cancelled, or will be within seconds
  2  could not run: no such run, or it has ended already"""


@click.command("cancel", help=CANCEL_HELP, epilog=CANCEL_EPILOG)
@RUN
@runs_dir_option
@json_option
@server_options
@click.pass_context
def cancel_command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool, **given: object) -> None:
    """Entry of the command; see HELP."""
    remote = remote_of(given)
    # RUN of a server is not opened: its id is all that is known here.
    result = api.cancel(run, runs_dir=runs_dir) if remote is None else cancel_there(remote, run)
    if is_json:
        write_json(result.to_dict())
    else:
        counts = result.counts
        done = f"{counts.evaluated_records + counts.failed_records:,} of {counts.total_records:,} records are done"
        # Cancelling a run in progress is a request to its driver, which drains and seals.
        stopping = "the workers will stop" if result.is_elsewhere else "the process that works on it will stop"
        state = result.state if result.is_finished else stopping
        write_text([f"{printable(result.run_id)} · {state} · {done}\n"])
    context.exit(exits.VALID)


VERIFY_HELP = """Verify the files of a finished run against their hashes and list those that differ.

The command verifies the hash, size and line count of each artifact, the manifest's own hash, the hash chain of the attempt log and
the Merkle root of the records. Files removed by `assay purge` are listed and are not an error. RUN is an id, a unique prefix of an
id, `latest`, the path of a run's folder, or its address in an object store, such as s3://BUCKET/PREFIX/RUN (needs the extra `s3`).
"""

VERIFY_EPILOG = """\b
Examples:
  assay verify latest
  assay verify archive/nightly-2026-11-15
  assay verify s3://evaluations/nightly/run_20261115_101500_ab12cd

\b
Exit codes:
  0  every file is as it was published
  1  a file was changed, is missing, or does not belong to the run
  2  could not run: no such run, or it is unfinished"""


@click.command("verify", help=VERIFY_HELP, epilog=VERIFY_EPILOG)
@RUN
@runs_dir_option
@json_option
@click.pass_context
def verify_command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    problems = api.verify(run, runs_dir=runs_dir)
    # An address in a store has no folder here, so there is nothing to look up.
    run_id, removed = (run, []) if "://" in run else _local(run, runs_dir)
    if is_json:
        write_json({"run_id": run_id, "is_unchanged": not problems, "problems": problems, "removed": removed})
    else:
        write_text(f"{printable(line)}\n" for line in _verify_lines(run_id, problems, removed))
    context.exit(exits.INVALID if problems else exits.VALID)


def _local(run: str, runs_dir: str) -> tuple[str, list[dict[str, str]]]:
    """Return the id of a local run, and the artifacts that retention has removed."""
    removed = api.removed(run, runs_dir=runs_dir)
    members = [{"name": gone.name, "purged_at": gone.purged_at, "reason": gone.reason} for gone in removed]
    return api.run_id_of(run, runs_dir=runs_dir), members


def _verify_lines(run_id: str, problems: list[str], removed: list[dict[str, str]]) -> list[str]:
    left = "every file that is left" if removed else "every file"
    found = f"{len(problems):,} not as published" if problems else f"{left} is as it was published"
    gone = [f"  {one['name']}: was removed by retention, {one['purged_at']} ({one['reason']})" for one in removed]
    return [f"{run_id} · {found}", *(f"  {problem}" for problem in problems), *gone]


MAX_DIFFERENCES = 20

REPLAY_HELP = """Recompute every metric of a finished run from its records, and list those that differ from the published ones.

The command reads only the artifacts: it calls no model and reads no dataset. RUN is an id, a unique prefix of an id, `latest`, or
the path of a run's folder.
"""

REPLAY_EPILOG = """\b
Examples:
  assay replay latest
  assay replay archive/nightly-2026-11-15 --json

\b
Exit codes:
  0  every metric is the same
  1  a metric differs
  2  could not run: no such run, it is unfinished, or its records were purged"""


@click.command("replay", help=REPLAY_HELP, epilog=REPLAY_EPILOG)
@RUN
@runs_dir_option
@json_option
@click.pass_context
def replay_command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    run_id = api.open_run(run, runs_dir=runs_dir).folders.run_id
    differences = api.replay(run, runs_dir=runs_dir)
    if is_json:
        write_json({"run_id": run_id, "is_same": not differences, "differences": differences})
    else:
        write_text(f"{printable(line)}\n" for line in _replay_lines(run_id, differences))
    context.exit(exits.INVALID if differences else exits.VALID)


def _replay_lines(run_id: str, differences: list[str]) -> list[str]:
    if not differences:
        return [f"{run_id} · every metric comes out the same"]
    shown = [f"  {difference}" for difference in differences[:MAX_DIFFERENCES]]
    more = len(differences) - len(shown)
    return [f"{run_id} · {len(differences):,} figures differ", *shown, *([f"  … and {more:,} more"] if more else [])]


PURGE_HELP = """Remove artifacts whose retention period has ended: raw artifacts after 30 days, aggregates after 180.

The manifest of a run sets the period; ASSAY_RETENTION_RAW_DAYS and ASSAY_RETENTION_AGGREGATE_DAYS can extend it. The manifest is
never removed: it gets a tombstone for each removed file, and `audit.jsonl` records what was removed and why. To remove artifacts
earlier, give the whole id of RUN with --force and a --reason. A cache of replies belongs to no run and stays; the command prints
its path.
"""

PURGE_EPILOG = """\b
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
    """Arguments of the command."""

    run: str | None
    force: bool
    reason: str
    dry_run: bool
    runs_dir: str
    is_json: bool


@click.command("purge", help=PURGE_HELP, epilog=PURGE_EPILOG)
@click.argument("run", required=False)
@click.option("--force", is_flag=True, help="Remove the artifacts of RUN early; needs --reason.")
@click.option("--reason", metavar="TEXT", default="", help="Reason for the early removal, for the audit log.")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@runs_dir_option
@json_option
@click.pass_context
def purge_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    context.exit(purge(msgspec.convert(given, PurgeOptions)))


def purge(options: PurgeOptions) -> int:
    """Remove what the options name, and say what went."""
    _check(options)
    # Without RUN every run is examined, and what has expired goes.
    purged = api.purge(options.runs_dir, run_name=options.run, reason=options.reason, is_dry=options.dry_run)
    found = [entry for entry in purged if entry.artifacts]
    unread = [entry for entry in purged if entry.problem]
    if options.is_json:
        runs = [{"run_id": entry.run_id, "artifacts": list(entry.artifacts), "cache_dir": entry.cache_dir} for entry in found]
        problems = [{"run_id": entry.run_id, "problem": entry.problem} for entry in unread]
        write_json({"is_dry_run": options.dry_run, "purged": runs, "problems": problems})
    else:
        write_text(_purge_lines(found, unread, is_dry=options.dry_run))
    return exits.INVALID if unread else exits.VALID


def _check(options: PurgeOptions) -> None:
    if options.force and options.run is None:
        # The whole id is asked for by the engine: a prefix must not remove another run.
        raise UsageProblem("--force needs a run", hint="name the run whose artifacts must go early")
    if options.force and not options.reason.strip():
        raise UsageProblem("--force needs a --reason", hint="it is written to the audit log")
    if options.reason and not options.force:
        raise UsageProblem("--reason is for --force", hint="what has expired is removed without a reason")


def _purge_lines(purged: Iterable[api.PurgeResult], unread: Iterable[api.PurgeResult], *, is_dry: bool) -> Iterator[str]:
    files = runs = 0
    for entry in purged:
        yield f"{printable(entry.run_id)} · {', '.join(map(printable, entry.artifacts))}\n"
        if entry.cache_dir:
            # The cache belongs to several runs, so purging one of them cannot decide about it.
            place = printable(entry.cache_dir)
            yield f"  the cache of replies in '{place}' is shared by runs and stays: delete it to be rid of those too\n"
        files, runs = files + len(entry.artifacts), runs + 1
    for entry in unread:
        yield f"{printable(entry.run_id)} · nothing removed: {printable(entry.problem)}\n"
    verb = "would be removed" if is_dry else "removed"
    yield f"{counted(files, 'file')} of {counted(runs, 'run')} {verb}\n"


PUBLISH_HELP = """Write the files of a finished run to an object store: s3://BUCKET/PREFIX (also gs:// and az://).

They go to PREFIX/RUN-ID. An existing object is never overwritten (`If-None-Match`), and the manifest is written last, so that
readers never see an incomplete run. You can safely repeat the command. The run stays on this machine. Credentials, region and
endpoint come from the store's own environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL;
AWS_ALLOW_HTTP=true for one without TLS). Needs the extra `s3`.
"""

PUBLISH_EPILOG = """\b
Examples:
  assay publish latest s3://evaluations/nightly
  assay verify s3://evaluations/nightly/run_20261115_101500_ab12cd

\b
Exit codes:
  0  every file is there
  2  could not run: no such run, the store cannot be reached, or another run is there"""


@click.command("publish", help=PUBLISH_HELP, epilog=PUBLISH_EPILOG)
@RUN
@click.argument("address", metavar="ADDRESS")
@runs_dir_option
@json_option
def publish_command(*, run: str, address: str, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    place = api.publish(run, address, runs_dir=runs_dir)
    if is_json:
        write_json({"run": run, "address": place})
    else:
        write_text([printable(f"{place} holds every file of the run; see whether it stays so: assay verify {place}") + "\n"])


FETCH_HELP = """Fetch a finished run from an object store: s3://BUCKET/PREFIX/RUN (also gs:// and az://), where `assay run
--store` or `assay publish` wrote it.

Its files are verified against the manifest before they appear in the folder of runs: hashes, sizes, the hash chain of the attempt
log and the Merkle root of the records. A changed run is refused; a run that is already here stays unchanged. Credentials, region
and endpoint come from the store's own environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
AWS_ENDPOINT_URL; AWS_ALLOW_HTTP=true for one without TLS). Needs the extra `s3`.
"""

FETCH_EPILOG = """\b
Examples:
  assay fetch s3://evaluations/nightly/run_20261115_101500_ab12cd
  assay show run_20261115_101500_ab12cd

\b
Exit codes:
  0  the run is here
  2  could not run: no such run, it was changed, the store cannot be reached, or another run has that id here"""


@click.command("fetch", help=FETCH_HELP, epilog=FETCH_EPILOG)
@click.argument("address", metavar="ADDRESS")
@runs_dir_option
@json_option
def fetch_command(*, address: str, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    run = api.fetch(address, runs_dir=runs_dir)
    if is_json:
        write_json({"run_id": run.folders.run_id, "run_dir": str(run.folders.sealed)})
    else:
        show = command_line("show", run.folders.run_id, shown=OutputOptions(runs_dir=runs_dir))
        write_text([printable(f"{run.folders.sealed} holds every file of the run; show it: {show}") + "\n"])
