"""`assay verify`: whether every file of a run is as it was published."""

import click

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Say whether every file of a finished run is as it was published, and name those that are not.

Checked are the hash, size and lines of each artifact, the manifest's own hash, the hash chain of the attempt log and the Merkle
root of the records. RUN is an id, a unique beginning of one, `latest`, or the path of a run's folder.
"""

EPILOG = """\b
Examples:
  assay verify latest
  assay verify archive/nightly-2026-11-15

\b
Exit codes:
  0  everything is as it was published
  1  something was changed, is missing, or does not belong there
  2  could not run: no such run, or it has not ended"""


@click.command("verify", help=HELP, epilog=EPILOG)
@RUN
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, run: str, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    run_id = api.open_run(run, runs_dir=runs_dir).folders.run_id
    problems = api.verify(run, runs_dir=runs_dir)
    if is_json:
        write_json({"run_id": run_id, "is_unchanged": not problems, "problems": problems})
    else:
        write_text(f"{printable(line)}\n" for line in _lines(run_id, problems))
    context.exit(exits.INVALID if problems else exits.VALID)


def _lines(run_id: str, problems: list[str]) -> list[str]:
    if not problems:
        return [f"{run_id} · every file is as it was published"]
    return [f"{run_id} · {len(problems):,} not as published", *(f"  {problem}" for problem in problems)]
