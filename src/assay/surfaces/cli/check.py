"""`assay check`: everything that would keep a run file from running, without running it."""

import click

from assay import api
from assay.core.errors import SourceUnreadable
from assay.core.problem_lines import counted_problems
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Check a run file and report every problem, without evaluating anything.

The command checks settings, datasets, stored answers and attachments as `assay run` does before its first call, and also whether
the API keys of the run's providers are set and the providers can be reached.
"""

EPILOG = """\b
Examples:
  assay check nightly.yaml
  assay check nightly.yaml --json

\b
Exit codes:
  0  ready to run
  2  not ready; every problem is listed"""


@click.command("check", help=HELP, epilog=EPILOG)
@click.argument("run_file", metavar="RUNFILE")
@json_option
@click.pass_context
def command(context: click.Context, /, run_file: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    problems = _problems(run_file)
    if is_json:
        write_json({"run_file": run_file, "is_ready": not problems, "problems": problems})
    else:
        write_text(f"{printable(line)}\n" for line in _lines(run_file, problems))
    context.exit(exits.COULD_NOT_RUN if problems else exits.VALID)


def _problems(run_file: str) -> list[str]:
    """A file that cannot be read at all is no list of problems but one line, as for every command."""
    if run_file == "-":
        raise SourceUnreadable("a run file is not read from standard input", hint="name a file")
    return api.check(run_file)


def _lines(run_file: str, problems: list[str]) -> list[str]:
    if not problems:
        return [f"{run_file} · ready to run"]
    return [f"{run_file} · {counted_problems(problems)}", *(f"  {problem}" for problem in problems)]
