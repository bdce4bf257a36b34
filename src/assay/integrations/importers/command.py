"""`assay import`: files of other evaluation tools into a dataset and finished runs, and a report of what stayed behind."""

import sys
from itertools import chain

import click
import msgspec

from assay import api
from assay.core.contract import CONTRACTS, ContractId
from assay.core.errors import EmptyResult, UsageProblem
from assay.core.run_result import RunResult
from assay.integrations.importers import READERS
from assay.integrations.importers.run_file import run_file
from assay.presentation.conversion import empty_import, import_sections
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import Number, WordChoice
from assay.surfaces.cli.run_options import OutputOptions, conclude, json_option, runs_dir_option, text_settings, write_json
from assay.surfaces.cli.streams import (
    STANDARD,
    check_writable,
    encoded,
    refuse_overwrite,
    standard_output,
    write_file,
    write_stream,
)
from assay.surfaces.reporters.terminal import report_text

FORMATS = tuple(READERS)

LABEL_WIDTH = 18
"""Columns of the labels at the left of the report."""
HELP = """Import questions, answers and scores from another evaluation tool.

\b
assay import SOURCES... -o DATASET     the questions, as a dataset that `assay run` takes
assay import SOURCES... --run          answers and scores, as a finished run for each candidate

You can give both; with neither, only the report is shown. No model is called and nothing is graded again: a run keeps the scores of
the other tool, and an answer with an error or without a score stays unscored. The report lists every field that a dataset or a run
cannot hold.

\b
Formats, detected by content; a folder stands for the files in it that one format fits:
  inspect          logs of Inspect AI: .eval and .json
  inspect-samples  datasets of Inspect AI: CSV, JSON, JSONL
  promptfoo        results (JSON) and configs (YAML)
  deepeval         goldens and test cases (JSON, JSONL, CSV), test runs (JSON)
  lm-eval          samples_*.jsonl, best with their results_*.json
  openai-evals     samples of a registry (JSONL), with its YAML if you like
  openai-evals-api hosted evals as the API returns them: eval, runs, output items
  openai-batch     output of the Batch API together with its input: answers without scores
"""

EPILOG = """\b
Examples:
  assay import logs/2026-11-15_capitals.eval -o capitals.jsonl
  assay import logs/2026-11-15_capitals.eval --run --id capitals-inspect
  assay import capitals.eval --run --scorer model_graded_qa --scale 1-10
  assay import promptfooconfig.yaml -o tests.json --run-file tests.run.yaml
  assay import batch_output.jsonl batch_input.jsonl -o asked.json --responses answers.jsonl
  assay import capitals.eval --json

\b
Exit codes:
  0  everything was imported, or skipped for a reason that is listed
  1  some items are invalid, and the others were imported; or there is no record
  2  could not run: bad usage, an unreadable file, no answers for a run"""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Command's arguments as given."""

    sources: tuple[str, ...]
    format: str | None
    contract: ContractId | None
    output: str | None
    responses: str | None
    run_file: str | None
    is_run: bool
    run_id: str | None
    runs_dir: str
    scorer: str | None
    scale: str | None
    candidate: str | None
    pass_threshold: float | None
    with_files: bool
    is_json: bool
    verbose: bool


@click.command("import", help=HELP, epilog=EPILOG)
@click.argument("sources", nargs=-1, metavar="SOURCES...")
@click.option("--from", "format", type=WordChoice(FORMATS), metavar="FORMAT", help="Source format, one of those above.")
@click.option("-o", "--output", metavar="DATASET", help="Write the questions, completely or not at all; - for standard output.")
@click.option("--to", "contract", type=WordChoice(list(CONTRACTS)), help="Contract of the dataset.  [default: the one that fits]")
@click.option("--responses", metavar="FILE", help="Write the answers as a file that `assay run --responses` takes.")
@click.option("--run-file", metavar="FILE", help="Write a run file for the dataset, with the models and checks of the other tool.")
@click.option("--run", "is_run", is_flag=True, help="Create a finished run from the answers, one for each candidate.")
@click.option("--id", "--run-id", "run_id", metavar="ID", help="Run id.")
@runs_dir_option
@click.option("--scorer", metavar="NAME", help="Scorer whose scores become the grades.  [default: the first]")
@click.option("--scale", metavar="LOW-HIGH", help="Scale of the scorer.  [default: 0-1]")
@click.option("--candidate", metavar="NAME", help="Import only the answers of this candidate.")
@click.option(
    "--pass-threshold",
    type=Number(0, 1),
    metavar="SHARE",
    help="Share of the scale from which an answer passes, if the tool has no verdict.  [default: 0.7]",
)
@click.option(
    "--with-files/--without-files",
    default=True,
    help="Read files below its folder that a config names.",
)
@json_option
@click.option("-v", "--verbose", is_flag=True, help="List every note and every value that was not imported.")
@click.pass_context
def import_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    context.exit(import_sources(msgspec.convert(given, ImportOptions)))


def import_sources(options: ImportOptions) -> int:
    """Import what the options name, write dataset and runs, and report the result; returns the exit code."""
    _check(options)
    # conversation_v1 keeps all turns; the other contracts hold the question alone, and what they leave out has to
    # be counted while reading.
    wants_turns = options.contract == "conversation_v1"
    imported = api.import_files(options.sources, options.format, follows_files=options.with_files, wants_turns=wants_turns)
    rows = imported.dataset(options.contract)
    # Without a run or a file only the report is wanted: the rows are made and dropped, since some problems are found only then.
    if options.output is not None or not options.is_run:
        _write(rows, options.output)
    results = _runs(imported, rows, options)
    if options.responses is not None and rows.count:
        write_file(options.responses, imported.responses(options.candidate))
    if options.run_file is not None and options.output is not None and rows.count:
        write_file(options.run_file, run_file(imported, options.output, place=options.run_file))
    # After the last row was made: counts of what was left out are complete only now.
    report = imported.report(rows)
    _show_results(report, results, options)
    if not rows.count:
        problem = empty_import(report)
        exits.print_error(problem.message, details=problem.details, hint=problem.hint)
        return exits.INVALID
    return exits.INVALID if any(source.invalid for source in report.sources) else exits.VALID


def _show_results(report: api.ImportReport, results: tuple[RunResult, ...], options: ImportOptions) -> None:
    if options.is_json:
        write_json({"report": report.to_dict(), "runs": [result.to_dict() for result in results]})
    else:
        _show(report, options)
        if results:
            conclude(results, OutputOptions(runs_dir=options.runs_dir, is_verbose=options.verbose))


def _check(options: ImportOptions) -> None:
    if not options.sources:
        raise UsageProblem("nothing to import", hint="assay import SOURCES... -o DATASET, or --run; --help lists the formats")
    for output, option in ((options.output, "--output"), (options.responses, "--responses"), (options.run_file, "--run-file")):
        if output is not None:
            check_writable(output, option=option)
            refuse_overwrite(output, options.sources, option=option)
    if options.run_file is not None and options.output in (None, STANDARD):
        raise UsageProblem("--run-file needs the file of the dataset that it names", hint="add -o DATASET")
    if options.run_file == STANDARD:
        raise UsageProblem("--run-file needs the name of a file")
    if options.responses == STANDARD:
        raise UsageProblem("--responses needs the name of a file")
    if options.is_run and options.contract in ("golden_v1", "conversation_v1"):
        raise UsageProblem(f"a run of another tool cannot be kept as {options.contract}", hint="leave --to out, or import twice")
    if options.is_json and options.output == STANDARD:
        raise UsageProblem("--json and -o - both want standard output", hint="name a file for the dataset")
    _check_lonely(options)


def _check_lonely(options: ImportOptions) -> None:
    """Raise UsageProblem for an option that would change nothing."""
    of_run = {
        "--id": options.run_id,
        "--scorer": options.scorer,
        "--scale": options.scale,
        "--pass-threshold": options.pass_threshold,
    }
    lonely = next((name for name, value in of_run.items() if value is not None), None)
    if lonely and not options.is_run:
        raise UsageProblem(f"{lonely} is about a run", hint="add --run")
    if options.candidate is not None and not options.is_run and options.responses is None:
        raise UsageProblem("--candidate is about answers", hint="add --run or --responses")


def _write(rows: api.DatasetRows, output: str | None) -> None:
    """Write the dataset; without a record nothing is written, and an older file of that name stays."""
    lines = rows.lines()
    first = next(lines, None)
    if first is None or output is None:
        for _ in lines:
            pass
    elif output == STANDARD:
        write_stream(chain([first], lines), standard_output())
    else:
        write_file(output, chain([first], lines))


def _runs(imported: api.ImportResult, rows: api.DatasetRows, options: ImportOptions) -> tuple[RunResult, ...]:
    if not options.is_run or not len(imported.intake) or (options.output is not None and not rows.count):
        return ()
    wanted = api.ImportRequest(scorer=options.scorer, scale=options.scale, candidate=options.candidate)
    if options.pass_threshold is not None:
        wanted = msgspec.structs.replace(wanted, pass_threshold=options.pass_threshold)
    kept = options.output if options.output != STANDARD else None
    try:
        return api.import_runs(imported, rows, wanted=wanted, runs_dir=options.runs_dir, run_id=options.run_id, dataset=kept)
    except EmptyResult:
        # The report says why, with an exit code of its own.
        return ()


def _show(report: api.ImportReport, options: ImportOptions) -> None:
    stream = sys.stderr if options.output == STANDARD else standard_output()
    settings = text_settings(is_verbose=options.verbose)
    written = "" if options.output in (None, STANDARD) or not report.records else str(options.output)
    sections = import_sections(report, is_verbose=options.verbose, dataset=written)
    write_stream(encoded(report_text(sections, settings, label=LABEL_WIDTH), stream.encoding), stream)
    # An empty line between the report on the import and the one on its runs.
    if options.is_run and report.records:
        write_stream([b"\n"], stream)
