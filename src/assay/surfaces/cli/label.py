"""`assay label`: a sample of a run's answers for people to label."""

from pathlib import Path
from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, Shown, command_line, runs_dir_option
from assay.surfaces.cli.streams import STANDARD, check_writable, encoded, standard_output, write_file, write_stream
from assay.surfaces.printable import printable
from assay.surfaces.reporters.wording import counted

HELP = """Write a random sample of a run's answers to a file that people fill in; `assay calibrate` reads it back.

The sample has the run's own share of each dataset, so that what the labels say holds for the whole run. Fill in `passed` (passed
or not passed), or `score` on the run's scale, or both; several people copy the rows and put their names into `rater`. What the
judge said is left out unless you ask for it: who has read it tends to agree. A file that ends in .csv is a table for a spreadsheet,
anything else is JSON lines. A file that is there already is left alone, because somebody may have filled it in.
"""

EPILOG = """\b
Examples:
  assay label latest -o labels.csv
  assay label nightly-14 --count 200 --seed 7 -o labels.jsonl

\b
Exit codes:
  0  written
  2  could not run: no such run, it has not ended, it has no graded record, or the file is there already"""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    run: str
    output: str
    count: int
    seed: int
    with_judge: bool
    force: bool
    runs_dir: str


@click.command("label", help=HELP, epilog=EPILOG)
@RUN
@click.option("-o", "--output", metavar="FILE", default=STANDARD, help="The file; standard output where not given.")
@click.option("-n", "--count", type=click.IntRange(min=1), default=100, show_default=True, help="Records in the sample.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same records.")
@click.option("--with-judge", is_flag=True, help="Show what the judge said.")
@click.option("--force", is_flag=True, help="Write over a file that is there already, with the labels in it.")
@runs_dir_option
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Entry of the command; see HELP."""
    export(msgspec.convert(given, Options))
    context.exit(exits.VALID)


def export(options: Options) -> None:
    """Draw the sample and write it."""
    output = options.output
    if output != STANDARD:
        check_writable(output, option="--output")
        if Path(output).is_file() and not options.force:
            raise UsageProblem(f"'{output}' exists, and may hold labels", hint="name another file, or write over it with --force")
    sample = api.label_sample(
        options.run, options.count, runs_dir=options.runs_dir, seed=options.seed, shows_judge=options.with_judge
    )
    text = api.label_text(sample, is_csv=output.lower().endswith(".csv"))
    if output == STANDARD:
        write_stream(encoded([text]), standard_output())
        return
    write_file(output, encoded([text]))
    again = command_line("calibrate", options.run, output, shown=Shown(runs_dir=options.runs_dir))
    noun = "answer" if any(row["sample"] for row in sample.rows) else "record"
    click.echo(f"{counted(len(sample.rows), noun)} in {printable(output)} · when they are labelled: {printable(again)}")
