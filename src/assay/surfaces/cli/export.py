"""`assay export`: a finished run as a file that other tools open."""

from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.progress import MofNCompleteColumn

from assay import api
from assay.core.errors import UsageProblem
from assay.surfaces.cli import exits
from assay.surfaces.cli.meter import Meter
from assay.surfaces.cli.run_options import RUN, finished_run, json_option, runs_dir_option, write_json
from assay.surfaces.cli.streams import (
    STANDARD,
    check_writable,
    refuse_overwrite,
    standard_output,
    whole_folder,
    write_file,
    write_stream,
)
from assay.surfaces.exports import EXPORTS, Chunks
from assay.surfaces.exports.csv_table import MARK
from assay.surfaces.exports.hugging_face import is_export, write_folder
from assay.surfaces.exports.json_texts import response_object_chunks
from assay.surfaces.exports.telling import Teller
from assay.surfaces.pages.figures import size
from assay.surfaces.printable import printable
from assay.surfaces.reporters.wording import counted

HELP = """Write the records of a finished run as a file, or a folder, that other tools open.

The ending of -o decides the format, or --format does: csv, xlsx, parquet, json and jsonl have a row for each record with what was
asked, the answer and its scores; hf is a folder that Hugging Face datasets loads; responses has the answers alone, as other runs
take them. No text of a model is evaluated as a formula. RUN is an id, a unique beginning of one, `latest`, or the path of a
run's folder.
"""

EPILOG = """\b
Examples:
  assay export latest -o results.xlsx
  assay export latest --format csv --bom
  assay export nightly-15 -o nightly.parquet
  assay export nightly-15 --format hf -o nightly
  assay export nightly-15 --format responses -o answers.jsonl
  assay export nightly-15 --format jsonl -o - | jq .score

\b
Exit codes:
  0  written, whatever the run came to
  2  could not run: no such run, a run that has not ended, a file that exists or cannot be written"""

FOLDER = "hf"
"""The one format that is a folder."""
FORMATS = (*EXPORTS, FOLDER)
OBJECT = ".json"
"""Answers under this ending are one object of record id and text."""

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
    def write(self) -> Chunks:
        """What makes the bytes of a file."""
        is_object = self.format == "responses" and Path(self.output).suffix.lower() == OBJECT
        return response_object_chunks if is_object else EXPORTS[self.format].write


@click.command("export", help=HELP, epilog=EPILOG)
@RUN
@click.option(
    "-o", "--output", metavar="PATH", help="What to write, whole or not at all; - for standard output.  [default: RUN.ENDING]"
)
@click.option("--format", type=click.Choice(FORMATS), help="The format, where the ending of -o does not say it.")
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
    """Write the file or the folder, and say what it has."""
    run = finished_run(options.run, options.runs_dir)
    target = _target(run, options)
    records = run.result.counts.valid_records
    meter = Meter(amount=MofNCompleteColumn())
    meter.begin("records")
    teller = Teller(lambda done: meter.count(done, records))
    try:
        _write(run, target, teller=teller, has_mark=options.bom)
    finally:
        meter.hide()
    _tell(run, target, notes=teller.notes, is_json=options.is_json)


def _write(run: api.Run, target: Target, *, teller: Teller, has_mark: bool) -> None:
    if target.format == FOLDER:
        with whole_folder(target.output) as folder:
            write_folder(run, folder, teller=teller)
        return
    chunks = chain([MARK] if has_mark else [], target.write(run, teller))
    if target.output == STANDARD:
        write_stream(chunks, standard_output())
    else:
        write_file(target.output, chunks)


def _target(run: api.Run, options: Options) -> Target:
    """What is to be written where; raises UsageProblem before any work."""
    name = options.format or _named_by(options.output)
    output = options.output or f"{run.folders.run_id}{_suffix(name)}"
    if options.bom and name != "csv":
        raise UsageProblem(f"--bom is for CSV, and this is {name}", hint="leave it out")
    if output == STANDARD:
        _check_standard_output(name, options)
    elif name == FOLDER:
        _check_folder(Path(output), is_forced=options.force)
    else:
        check_writable(output, option="--output")
        refuse_overwrite(output, map(str, run.artifacts().values()), option="--output")
        if Path(output).exists() and not options.force:
            raise UsageProblem(f"'{output}' exists", hint="name another file, or replace it with --force")
    return Target(name, output)


def _suffix(name: str) -> str:
    return "-hf" if name == FOLDER else EXPORTS[name].suffix


def _named_by(output: str | None) -> str:
    if output is None:
        raise UsageProblem("nothing says what to write", hint=f"-o FILE, or --format {'|'.join(FORMATS)}")
    suffix = Path(output).suffix.lower()
    if suffix not in _BY_SUFFIX:
        raise UsageProblem(f"the ending of '{output}' names no format", hint=f"--format {'|'.join(FORMATS)}")
    return _BY_SUFFIX[suffix]


def _check_standard_output(name: str, options: Options) -> None:
    if name == FOLDER:
        raise UsageProblem("hf is a folder, which standard output cannot be", hint="name a folder with -o")
    if options.is_json:
        raise UsageProblem("--json and -o - both write to standard output", hint="name a file")
    if not EXPORTS[name].is_text and standard_output().isatty():
        raise UsageProblem(f"{name} is nothing to show on a terminal", hint="-o FILE, or lead it into another command")


def _check_folder(folder: Path, *, is_forced: bool) -> None:
    if not folder.absolute().parent.is_dir():
        raise UsageProblem(f"--output '{folder}': there is no folder '{folder.parent}'")
    if not folder.exists():
        return
    if not folder.is_dir() or not is_export(folder):
        raise UsageProblem(f"'{folder}' exists, and is no earlier export", hint="name another folder: this one stays as it is")
    if not is_forced:
        raise UsageProblem(f"'{folder}' exists", hint="name another folder, or replace it with --force")


def _tell(run: api.Run, target: Target, *, notes: list[str], is_json: bool) -> None:
    records = run.result.counts.valid_records
    if is_json:
        found = {"run_id": run.folders.run_id, "format": target.format, "path": target.output, "records": records}
        write_json({**found, "bytes": _weight(Path(target.output)), "notes": notes})
        return
    for note in notes:
        click.echo(f"assay: {printable(note)}", err=True)
    if target.output != STANDARD:
        click.echo(f"{printable(target.output)} ({size(_weight(Path(target.output)))}, {counted(records, 'record')})")


def _weight(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())
