"""`assay verify`: whether every file of a run is as it was published."""

import click

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Verify the files of a finished run against their hashes and list those that differ.

The command verifies the hash, size and line count of each artifact, the manifest's own hash, the hash chain of the attempt log and
the Merkle root of the records. Files removed by `assay purge` are listed and are not an error. RUN is an id, a unique prefix of an
id, `latest`, the path of a run's folder, or its address in an object store, such as s3://BUCKET/PREFIX/RUN (needs the extra `s3`).
"""

EPILOG = """\b
Examples:
  assay verify latest
  assay verify archive/nightly-2026-11-15
  assay verify s3://evaluations/nightly/run_20261115_101500_ab12cd

\b
Exit codes:
  0  every file is as it was published
  1  a file was changed, is missing, or does not belong to the run
  2  could not run: no such run, or it is unfinished"""


@click.command("verify", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    problems = api.verify(run, runs_dir=runs_dir)
    run_id, removed = (run, []) if "://" in run else _local(run, runs_dir)
    if is_json:
        write_json({"run_id": run_id, "is_unchanged": not problems, "problems": problems, "removed": removed})
    else:
        write_text(f"{printable(line)}\n" for line in _lines(run_id, problems, removed))
    context.exit(exits.INVALID if problems else exits.VALID)


def _local(run: str, runs_dir: str) -> tuple[str, list[dict[str, str]]]:
    """The id of a run of this machine, and what retention has removed from it."""
    removed = api.removed(run, runs_dir=runs_dir)
    told = [{"name": gone.name, "purged_at": gone.purged_at, "reason": gone.reason} for gone in removed]
    return api.run_id_of(run, runs_dir=runs_dir), told


def _lines(run_id: str, problems: list[str], removed: list[dict[str, str]]) -> list[str]:
    left = "every file that is left" if removed else "every file"
    found = f"{len(problems):,} not as published" if problems else f"{left} is as it was published"
    gone = [f"  {one['name']}: was removed by retention, {one['purged_at']} ({one['reason']})" for one in removed]
    return [f"{run_id} · {found}", *(f"  {problem}" for problem in problems), *gone]
