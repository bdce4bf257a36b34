"""`assay label`: a sample of a run's answers for people to label."""

from pathlib import Path

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.presentation.words import counted
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, OutputOptions, command_line, runs_dir_option
from assay.surfaces.cli.streams import STANDARD, check_writable, encoded, standard_output, write_file, write_stream
from assay.surfaces.printable import printable

HELP = """Write a random sample of a run's answers to a file that people fill in; `assay calibrate` reads it back.

The sample has the run's share of each dataset, so that results from the labels hold for the whole run. Fill in `passed` (passed or
not passed), or `score` on the run's scale, or both; several people copy the rows and write their names into `rater`. The judge's
verdicts are left out by default, because they influence the reader. A file name ending in .csv gives a table for a spreadsheet, any
other JSON Lines. An existing file is not overwritten, because it may contain labels.
"""

EPILOG = """\b
Examples:
  assay label latest -o labels.csv
  assay label nightly-14 --count 200 --seed 7 -o labels.jsonl

\b
Exit codes:
  0  written
  2  could not run: no such run, it is unfinished, it has no graded record, or the file exists already"""


class LabelOptions(msgspec.Struct, frozen=True, kw_only=True):
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
@click.option("-o", "--output", metavar="FILE", default=STANDARD, help="Output file.  [default: standard output]")
@click.option("-n", "--count", type=click.IntRange(min=1), default=100, show_default=True, help="Records in the sample.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--with-judge", is_flag=True, help="Include the judge's verdicts.")
@click.option("--force", is_flag=True, help="Overwrite an existing file and the labels in it.")
@runs_dir_option
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    export(msgspec.convert(given, LabelOptions))
    context.exit(exits.VALID)


def export(options: LabelOptions) -> None:
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
    again = command_line("calibrate", options.run, output, shown=OutputOptions(runs_dir=options.runs_dir))
    noun = "answer" if any(row["sample"] for row in sample.rows) else "record"
    click.echo(f"{counted(len(sample.rows), noun)} in {printable(output)} · when they are labelled: {printable(again)}")
