"""`assay export`: a finished run as a file that other tools open."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import RUN, finished_run, json_option, runs_dir_option, write_json
from assay.surfaces.cli.streams import STANDARD, check_writable, refuse_overwrite, standard_output, write_file, write_stream
from assay.surfaces.exports import EXPORTS, Export
from assay.surfaces.exports.csv_table import MARK
from assay.surfaces.pages.figures import size
from assay.surfaces.printable import printable
from assay.surfaces.reporters.wording import counted

HELP = """Write the records of a finished run as a file that other tools open.

The ending of -o decides the format, or --format does: csv, xlsx, parquet, json and jsonl have a row for each record with what was
asked, the answer and its scores; responses has the answers alone, as `assay run --responses` and other runners take them. No text
of a model is evaluated as a formula. RUN is an id, a unique beginning of one, `latest`, or the path of a run's folder.
"""

EPILOG = """\b
Examples:
  assay export latest -o results.xlsx
  assay export latest --format csv --bom
  assay export nightly-15 -o nightly.parquet
  assay export nightly-15 --format responses -o answers.jsonl
  assay export nightly-15 --format jsonl -o - | jq .score

\b
Exit codes:
  0  written, whatever the run came to
  2  could not run: no such run, a run that has not ended, a file that exists or cannot be written"""

_BY_SUFFIX = {export.suffix: name for name, export in reversed(EXPORTS.items())}
"""Where formats share an ending, the first one has it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The command's arguments as given."""

    run: str
    output: str | None
    format: str | None
    bom: bool
    force: bool
    runs_dir: str
    is_json: bool


class Target(msgspec.Struct, frozen=True):
    """What to write, and where."""

    format: str
    output: str

    @property
    def export(self) -> Export:
        """The format."""
        return EXPORTS[self.format]


@click.command("export", help=HELP, epilog=EPILOG)
@RUN
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="What to write, whole or not at all; - for standard output.  [default: RUN.ENDING]",
)
@click.option("--format", type=click.Choice(tuple(EXPORTS)), help="The format, where the ending of -o does not say it.")
@click.option("--bom", is_flag=True, help="Begin CSV with the mark by which Excel knows UTF-8.")
@click.option("--force", is_flag=True, help="Replace what is already there.")
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Entry of the command; see HELP."""
    write(msgspec.convert(given, Options))
    context.exit(exits.VALID)


def write(options: Options) -> None:
    """Write the file, and say what it has."""
    run = finished_run(options.run, options.runs_dir)
    target = _target(run, options)
    notes: list[str] = []
    chunks = _marked(target.export.write(run, notes), options)
    if target.output == STANDARD:
        write_stream(chunks, standard_output())
    else:
        write_file(target.output, chunks)
    _tell(run, target, notes=notes, is_json=options.is_json)


def _target(run: api.Run, options: Options) -> Target:
    """What is to be written where; raises UsageProblem before any work."""
    name = options.format or _named_by(options.output)
    output = options.output or f"{run.folders.run_id}{EXPORTS[name].suffix}"
    if options.bom and name != "csv":
        raise UsageProblem(f"--bom is for CSV, and this is {name}", hint="leave it out")
    if output == STANDARD:
        _check_standard_output(name, options)
    else:
        check_writable(output, option="--output")
        refuse_overwrite(output, map(str, run.artifacts().values()), option="--output")
        if Path(output).exists() and not options.force:
            raise UsageProblem(f"'{output}' exists", hint="name another file, or replace it with --force")
    return Target(name, output)


def _named_by(output: str | None) -> str:
    if output is None:
        raise UsageProblem("nothing says what to write", hint=f"-o FILE, or --format {'|'.join(EXPORTS)}")
    suffix = Path(output).suffix.lower()
    if suffix not in _BY_SUFFIX:
        raise UsageProblem(f"the ending of '{output}' names no format", hint=f"--format {'|'.join(EXPORTS)}")
    return _BY_SUFFIX[suffix]


def _check_standard_output(name: str, options: Options) -> None:
    if options.is_json:
        raise UsageProblem("--json and -o - both write to standard output", hint="name a file")
    if not EXPORTS[name].is_text and standard_output().isatty():
        raise UsageProblem(f"{name} is nothing to show on a terminal", hint="-o FILE, or lead it into another command")


def _marked(chunks: Iterator[bytes], options: Options) -> Iterable[bytes]:
    if options.bom:
        yield MARK
    yield from chunks


def _tell(run: api.Run, target: Target, *, notes: list[str], is_json: bool) -> None:
    records = run.result.counts.valid_records
    if is_json:
        found = {"run_id": run.folders.run_id, "format": target.format, "path": target.output, "records": records}
        write_json({**found, "bytes": Path(target.output).stat().st_size, "notes": notes})
        return
    for note in notes:
        click.echo(f"assay: {printable(note)}", err=True)
    if target.output != STANDARD:
        click.echo(f"{printable(target.output)} ({size(Path(target.output).stat().st_size)}, {counted(records, 'record')})")
