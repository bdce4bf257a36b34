"""`assay export`: a finished run, or a dataset, as a file that other tools open."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

import click
import msgspec
from rich.progress import MofNCompleteColumn

from assay import api
from assay.core.errors import UsageProblem
from assay.core.text import printable
from assay.presentation.words import counted, size
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import WordChoice
from assay.surfaces.cli.run_options import finished_run, json_option, runs_dir_option, write_json
from assay.surfaces.cli.streams import (
    STANDARD,
    check_writable,
    refuse_overwrite,
    standard_output,
    whole_folder,
    write_file,
    write_stream,
)
from assay.surfaces.cli.terminal_progress import ProgressMeter
from assay.surfaces.exports import EXPORTS
from assay.surfaces.exports.group_tables import GroupTable
from assay.surfaces.exports.parquet import is_export, table_parquet, write_dataset_folder, write_run_folder
from assay.surfaces.exports.text_tables import MARK, ExportProgress, response_object_chunks, table_csv, table_json_lines

HELP = """Write the records of a finished run, a group of runs or a dataset as a file or a folder that other tools open.

The suffix of -o sets the format, or --format does: csv, xlsx, parquet, json and jsonl have a row for each record with the prompt,
the answer and its scores; hf is a folder for Hugging Face datasets; responses has only the answers, for other runs; dataset has the
accepted records in their own contract, to validate and run again; eval-results is the EvalRun of golden_v1 with a number for every
score. Text of a model is never evaluated as a formula. RUN is an id, a unique prefix of an id, `latest`, or the path of a run's
folder; the path of a file is a dataset, which can be csv, parquet, jsonl or hf. A group has a row for each record, with the answer
and the score of each candidate; md is a table for people.
"""

EPILOG = """\b
Examples:
  assay export latest -o results.xlsx
  assay export latest --format csv --bom
  assay export nightly-15 -o nightly.parquet
  assay export build-18 -o candidates.csv
  assay export nightly-15 --format hf -o nightly
  assay export nightly-15 --format responses -o answers.jsonl
  assay export nightly-15 --as eval-results -o eval_results.json
  assay export nightly-15 --as dataset -o repeated.jsonl
  assay export nightly-15 --format jsonl -o - | jq .score
  assay export golden.json --format hf

\b
Exit codes:
  0  written, for any result of the run
  2  could not run: no such run, an unfinished run, an invalid dataset, a file that exists or cannot be written"""

FOLDER = "hf"
"""One format that is a folder."""
MARKDOWN = "md"
FORMATS = (*EXPORTS, MARKDOWN, FOLDER)
RESPONSES, RESPONSE_OBJECT = "responses", "responses, as one object"

# Reversed, so that of two formats with one suffix the first in EXPORTS wins.
_BY_SUFFIX = {".md": MARKDOWN, **{export.suffix: name for name, export in reversed(EXPORTS.items())}}
"""Format of each suffix; the first of those that share one."""


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    source: str
    output: str | None
    format: str | None
    bom: bool
    force: bool
    runs_dir: str
    is_json: bool


class ExportSubject(msgspec.Struct, frozen=True, kw_only=True):
    """Run or dataset to export, with a writer for each format."""

    name: str
    records: int
    invalid: int = 0
    """Records of a run that broke their contract, and are not rows of a table."""
    origins: tuple[str, ...]
    """Files that must not be overwritten."""
    files: Mapping[str, Callable[[ExportProgress], Iterator[bytes]]]
    """Bytes of a file in each format."""
    write_folder: Callable[[Path, ExportProgress], None]
    suffix: Callable[[str], str]
    """Ending of a file in a format."""
    what: str = "for runs"
    """What a format is that the subject does not have."""


class ExportTarget(msgspec.Struct, frozen=True):
    """Format and path of an export."""

    format: str
    output: str


@click.command("export", help=HELP, epilog=EPILOG)
@click.argument("source", metavar="RUN|GROUP|DATASET")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Output file, written completely or not at all; - for standard output.  [default: RUN.ENDING]",
)
@click.option(
    "--format",
    "--as",
    "format",
    type=WordChoice(FORMATS),
    metavar="FORMAT",
    help=f"Output format: {', '.join(FORMATS)}.  [default: by the suffix of -o]",
)
@click.option("--bom", is_flag=True, help="Write a byte order mark at the start of CSV, for Excel.")
@click.option("--force", is_flag=True, help="Overwrite an existing file or folder.")
@runs_dir_option
@json_option
@click.pass_context
def export_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    write(msgspec.convert(given, ExportOptions))
    context.exit(exits.VALID)


def write(options: ExportOptions) -> None:
    """Write the file or the folder, and say what it has."""
    # A file is a dataset. Runs are folders, so the two cannot be confused.
    subject = _dataset(options.source) if Path(options.source).is_file() else _runs(options)
    target = _target(subject, options)
    meter = ProgressMeter(amount=MofNCompleteColumn())
    meter.begin("records")
    progress = ExportProgress(lambda done: meter.count(done, subject.records))
    try:
        # The bar goes before anything else is printed, also when writing fails.
        _write(subject, target, progress=progress, has_mark=options.bom)
    finally:
        meter.hide()
    # A workbook lists invalid records on its sheet of errors.
    if subject.invalid and target.format != "xlsx":
        progress.notes.append(
            f"left out: {counted(subject.invalid, 'invalid record')}; failures.jsonl of the run says what is wrong"
        )
    _report(subject, target, progress=progress, is_json=options.is_json)


def _runs(options: ExportOptions) -> ExportSubject:
    """Return a finished run, or the finished runs of a group side by side."""
    group = api.open_group(options.source, runs_dir=options.runs_dir)
    # Each is opened again by its id, which refuses an unfinished one with the command that resumes it.
    runs = tuple(finished_run(run.folders.run_id, str(run.folders.runs_dir)) for run in group.runs)
    return _group(api.RunGroup(group.name, runs)) if group.is_several else _run(runs[0])


def _group(group: api.RunGroup) -> ExportSubject:
    found = GroupTable(group)
    files: dict[str, Callable[[ExportProgress], Iterator[bytes]]] = {
        "json": found.json,
        "jsonl": found.json_lines,
        "csv": found.csv,
        "parquet": found.parquet,
        "xlsx": found.workbook,
        "responses": found.responses,
        MARKDOWN: found.markdown,
    }
    return ExportSubject(
        name=group.name,
        records=len(found.matrix),
        origins=tuple(str(path) for run in group.runs for path in (*run.artifacts().values(), *_datasets_of(run))),
        files=files,
        write_folder=found.write_folder,
        suffix=lambda name: "-hf" if name == FOLDER else ".md" if name == MARKDOWN else EXPORTS[name].suffix,
        what="of one run",
    )


def _run(run: api.RunReader) -> ExportSubject:
    writers = {name: export.write for name, export in EXPORTS.items()} | {RESPONSE_OBJECT: response_object_chunks}
    alone = GroupTable(api.RunGroup(run.folders.run_id, (run,)))
    return ExportSubject(
        # A dataset has only those formats that do not need a run.
        name=run.folders.run_id,
        records=run.result.counts.valid_records,
        invalid=run.result.counts.invalid_records,
        origins=(*map(str, run.artifacts().values()), *_datasets_of(run)),
        files={**{name: partial(writer, run) for name, writer in writers.items()}, MARKDOWN: alone.markdown},
        write_folder=partial(write_run_folder, run),
        suffix=lambda name: "-hf" if name == FOLDER else ".md" if name == MARKDOWN else EXPORTS[name].of(run).suffix,
    )


def _datasets_of(run: api.RunReader) -> list[str]:
    """List the dataset files of a run."""
    return [dataset.path for dataset in run.plan.datasets]


def _dataset(path: str) -> ExportSubject:
    table = api.dataset_table(path)
    writers = {"csv": table_csv, "parquet": table_parquet, "jsonl": table_json_lines}
    return ExportSubject(
        name=Path(path).name.partition(".")[0],
        # Counted by reading it once more: a table is a stream, and the progress bar needs its length.
        records=sum(1 for _ in table.rows()),
        origins=(path,),
        files={name: partial(writer, table) for name, writer in writers.items()},
        write_folder=partial(write_dataset_folder, table),
        suffix=lambda name: "-hf" if name == FOLDER else EXPORTS[name].suffix,
    )


def _write(subject: ExportSubject, target: ExportTarget, *, progress: ExportProgress, has_mark: bool) -> None:
    if target.format == FOLDER:
        with whole_folder(target.output) as folder:
            subject.write_folder(folder, progress)
        return
    # `chunks` is lazy, so that a missing extra or a redacted answer is reported before the file is replaced.
    chunks = chain([MARK] if has_mark else [], subject.files[target.format](progress))
    if target.output == STANDARD:
        write_stream(chunks, standard_output())
    else:
        write_file(target.output, chunks)


def _target(subject: ExportSubject, options: ExportOptions) -> ExportTarget:
    """Choose format and path of the export; raises UsageProblem before any work."""
    name = options.format or _named_by(options.output)
    output = options.output or f"{subject.name}{subject.suffix(name)}"
    # Refused rather than ignored: a file without the mark would be opened by Excel in the wrong encoding.
    if options.bom and name != "csv":
        raise UsageProblem(f"--bom is for CSV, and this is {name}", hint="leave it out")
    if name not in (*subject.files, FOLDER):
        hint = f"it can be {', '.join(subject.files)} or {FOLDER}"
        kind = "a group" if subject.what == "of one run" else "a dataset"
        raise UsageProblem(f"{name} is {subject.what}, and '{options.source}' is {kind}", hint=hint)
    if output == STANDARD:
        _check_standard_output(name, options)
    elif name == FOLDER:
        _check_folder(Path(output), is_forced=options.force)
    else:
        check_writable(output, option="--output")
        refuse_overwrite(output, subject.origins, option="--output")
        if Path(output).is_file() and not options.force:
            raise UsageProblem(f"'{output}' exists", hint="name another file, or replace it with --force")
    # The name says that the reader wants one object; `--format responses` alone gives rows.
    is_object = name == RESPONSES and Path(output).suffix.lower() == ".json" and RESPONSE_OBJECT in subject.files
    return ExportTarget(RESPONSE_OBJECT if is_object else name, output)


def _named_by(output: str | None) -> str:
    if output is None:
        raise UsageProblem("no output given", hint=f"use -o FILE or --format {'|'.join(FORMATS)}")
    suffix = Path(output).suffix.lower()
    if suffix not in _BY_SUFFIX:
        raise UsageProblem(f"the ending of '{output}' names no format", hint=f"--format {'|'.join(FORMATS)}")
    return _BY_SUFFIX[suffix]


def _check_standard_output(name: str, options: ExportOptions) -> None:
    if name == FOLDER:
        raise UsageProblem("hf is a folder, which standard output cannot be", hint="name a folder with -o")
    if options.is_json:
        raise UsageProblem("--json and -o - both write to standard output", hint="name a file")
    # Binary data on a terminal may leave it in an unusable state.
    if name in EXPORTS and not EXPORTS[name].is_text and standard_output().isatty():
        raise UsageProblem(f"{name} is nothing to show on a terminal", hint="-o FILE, or lead it into another command")


def _check_folder(folder: Path, *, is_forced: bool) -> None:
    if not folder.absolute().parent.is_dir():
        raise UsageProblem(f"--output '{folder}': there is no folder '{folder.parent}'")
    if not folder.exists():
        return
    # Only what is recognisably an earlier export may be replaced: --force must not remove a folder of something
    # else.
    if not folder.is_dir() or not is_export(folder):
        raise UsageProblem(f"'{folder}' exists, and is not an earlier export", hint="name another folder: this one stays as it is")
    if not is_forced:
        raise UsageProblem(f"'{folder}' exists", hint="name another folder, or replace it with --force")


def _report(subject: ExportSubject, target: ExportTarget, *, progress: ExportProgress, is_json: bool) -> None:
    records = subject.records - progress.left_out
    if is_json:
        found = {"name": subject.name, "format": target.format.partition(",")[0], "path": target.output, "records": records}
        write_json({**found, "bytes": _weight(Path(target.output)), "notes": progress.notes})
        return
    for note in progress.notes:
        click.echo(f"assay: {printable(note)}", err=True)
    # A pipe or a device has no size.
    if Path(target.output).is_file() or Path(target.output).is_dir():
        click.echo(f"{printable(target.output)} ({size(_weight(Path(target.output)))}, {counted(records, 'record')})")


def _weight(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())
