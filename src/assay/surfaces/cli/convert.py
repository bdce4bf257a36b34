"""`assay convert`: a benchmark's files, or a dataset of another contract, into a dataset and a report of what changed."""

import os
import shutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

import click
import msgspec

from assay import api
from assay.core.canonical import json_text
from assay.core.contract import CONTRACTS
from assay.core.errors import UsageProblem
from assay.core.plugin import declared_plugins
from assay.core.settings import ColumnSection
from assay.core.version import __version__
from assay.presentation.conversion import conversion_sections
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import WordChoice, columns_of, table_options, verbose_option
from assay.surfaces.cli.streams import (
    STANDARD,
    check_writable,
    encoded,
    is_same_file,
    refuse_overwrite,
    standard_output,
    write_file,
    write_stream,
)
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text

BENCHMARKS = ("prbench", "apexv1", "lexam", "includebase", "lar_echr", "bfcl")
TABLE = "table"
"""Word for a table of any columns, in the place of a benchmark."""
NAME_COLUMNS = "name the columns: --prompt COL --reference COL"
ID_STYLES = ("stable", "upstream")

CONVERT_HELP = """Turn a table or a benchmark's files into a dataset, or a dataset of one contract into another.

\b
assay convert prbench|apexv1|lexam|includebase|lar_echr SOURCES... -o OUT
assay convert bfcl QUESTIONS [ANSWERS] -o OUT
assay convert PLUGIN|FILE.py:FUNCTION SOURCES... -o OUT
assay convert table FILE -o OUT [--prompt COL] [--reference COL] ...
assay convert --from CONTRACT --to CONTRACT SOURCE -o OUT

The report lists rows that cannot be converted, rows that are skipped, and every value that is lost or changed.
"""

CONVERT_EPILOG = """\b
Examples:
  assay convert table questions.csv -o questions.jsonl --prompt Question --reference "Expected answer"
  assay convert lexam open.jsonl mcq.jsonl -o lexam.jsonl
  assay convert bfcl BFCL_v4_multiple.json possible_answer/BFCL_v4_multiple.json -o bfcl.json
  assay convert prbench legal.parquet -o prbench.jsonl --report prbench.report.json
  assay convert tickets.py:to_row tickets.jsonl -o tickets.legal.jsonl
  assay convert --from legal_eval_v1 --to batch_v1 rows.jsonl -o batch.json

\b
Exit codes:
  0  every row was converted, or skipped for a reason that is listed
  1  some rows are invalid, and the others were converted; or there is no record
  2  could not run: bad usage, an unreadable file, an output that could not be written"""


class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    words: tuple[str, ...]
    source_contract: str | None
    target_contract: str | None
    output: str | None
    id_style: Literal["stable", "upstream"]
    report: str | None
    verbose: bool
    columns: ColumnSection = ColumnSection()
    sheet: str = ""


class ConversionJob(msgspec.Struct, frozen=True, kw_only=True):
    """Conversion that the arguments describe."""

    sources: tuple[str, ...]
    output: str
    benchmark: str = ""
    """Empty for a conversion between contracts, which has these two instead."""
    source_contract: str = ""
    target_contract: str = ""


@click.command("convert", help=CONVERT_HELP, epilog=CONVERT_EPILOG)
@click.argument("words", nargs=-1, metavar="[BENCHMARK] SOURCES...")
@click.option("--from", "source_contract", type=WordChoice(list(CONTRACTS)), help="The contract of the source.")
@click.option("--to", "target_contract", type=WordChoice(list(CONTRACTS)), help="The contract of the output.")
@click.option("-o", "--output", metavar="OUT", help="Output dataset, written completely or not at all; - for standard output.")
@click.option(
    "--id-style",
    type=WordChoice(ID_STYLES),
    default="stable",
    show_default=True,
    help="Make row and choice ids without line numbers, or as older versions did.",
)
@table_options
@click.option("--report", metavar="FILE", help="Write the conversion report to FILE as JSON.")
@verbose_option("List every note instead of grouping similar ones.")
@click.pass_context
def convert_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    columns = columns_of(given)
    given["sheet"] = given["sheet"] or ""
    context.exit(convert(msgspec.structs.replace(msgspec.convert(given, ConvertOptions), columns=columns)))


def convert(options: ConvertOptions) -> int:
    """Convert what the options name, write dataset and report, and say how it went as an exit code."""
    work = _understand(options)
    # Before the conversion, which may take minutes.
    _check_outputs(options, work)
    if work.benchmark == TABLE:
        return _convert_table(options, work)
    if work.benchmark:
        conversion = api.convert_benchmark(work.benchmark, work.sources, id_style=options.id_style)
    else:
        conversion = api.convert_contract(work.sources[0], source=work.source_contract, target=work.target_contract)
    report = conversion.report
    is_empty = not any(source.emitted for source in report.sources)
    # Without a record nothing is written, and an older file of that name stays.
    if not is_empty:
        _write_conversion(conversion.lines(), work.output)
    if options.report:
        write_file(options.report, [json_text(report.to_dict(), indent=2).encode() + b"\n"])
    _show_conversion(report, options, is_on_error=work.output == STANDARD)
    if is_empty:
        read = sum(source.read for source in report.sources)
        reason = f"none of the {read:,} rows could be converted" if read else "the sources have no rows"
        exits.print_error(f"no record could be converted, and nothing was written: {reason}", hint="the report lists the reasons")
        return exits.INVALID
    # Rows that were skipped for a listed reason are as documented; invalid ones are not.
    return exits.INVALID if any(source.invalid for source in report.sources) else exits.VALID


def _convert_table(options: ConvertOptions, work: ConversionJob) -> int:
    """Write the records of a table; a table without a record writes no file."""
    try:
        conversion = api.convert_table(
            work.sources[0], contract=options.target_contract or "auto", columns=options.columns, sheet=options.sheet
        )
    except api.ColumnsUnclear as unclear:
        # Not a wrong option: the source has no recognizable records.
        exits.print_error(f"{unclear.message}; nothing was written", hint=unclear.hint)
        return exits.INVALID
    report = conversion.report
    if not any(source.emitted for source in report.sources):
        _show_conversion(report, options, is_on_error=True)
        exits.print_error(f"no record can be made of '{work.sources[0]}', and nothing was written", hint=NAME_COLUMNS)
        return exits.INVALID
    _write_conversion(conversion.lines(), work.output)
    if options.report:
        write_file(options.report, [json_text(report.to_dict(), indent=2).encode() + b"\n"])
    _show_conversion(report, options, is_on_error=work.output == STANDARD)
    return exits.INVALID if any(source.invalid for source in report.sources) else exits.VALID


def _understand(options: ConvertOptions) -> ConversionJob:
    if options.output is None:
        raise UsageProblem("no output given", hint="-o OUT names the dataset to write, -o - is standard output")
    source, target = options.source_contract, options.target_contract
    if options.words[:1] == (TABLE,):
        return _table_job(options)
    if options.columns != ColumnSection() or options.sheet:
        raise UsageProblem("columns are for tables", hint=f"assay convert {TABLE} FILE -o OUT --prompt COL")
    if not source and not target:
        return ConversionJob(sources=_benchmark_sources(options.words), output=options.output, benchmark=options.words[0])
    if not source or not target:
        raise UsageProblem("--from and --to belong together", hint="a benchmark's files need neither of them")
    if len(options.words) != 1:
        raise UsageProblem(f"--from and --to take one source, and {len(options.words)} were given")
    return ConversionJob(sources=options.words, output=options.output, source_contract=source, target_contract=target)


def _table_job(options: ConvertOptions) -> ConversionJob:
    if len(options.words) != 2:
        raise UsageProblem(
            f"convert {TABLE} takes one file, and {len(options.words) - 1} were given", hint=f"assay convert {TABLE} FILE -o OUT"
        )
    if options.source_contract:
        raise UsageProblem("--from names a contract, and a table has none", hint="leave --from out")
    return ConversionJob(sources=options.words[1:], output=options.output or "", benchmark=TABLE)


def _benchmark_sources(words: tuple[str, ...]) -> tuple[str, ...]:
    known = f"one of {', '.join(BENCHMARKS)}, or --from CONTRACT --to CONTRACT"
    if not words:
        raise UsageProblem("nothing to convert", hint=f"name {known}, then the source files")
    if words[0] not in BENCHMARKS and not _is_own(words[0]):
        guesses = get_close_matches(words[0], BENCHMARKS, n=1)
        raise UsageProblem(f"unknown benchmark '{words[0]}'", hint=f"did you mean '{guesses[0]}'?" if guesses else f"name {known}")
    if len(words) == 1:
        raise UsageProblem(f"no source files given for '{words[0]}'", hint=f"assay convert {words[0]} SOURCES... -o OUT")
    return words[1:]


def _is_own(name: str) -> bool:
    """Return whether the converter is third-party code: `module:function`, `file.py:function`, or a plugin."""
    # Only declared names are looked at: nothing of a package is imported to recognise a benchmark.
    return ":" in name or any(plugin.kind == "converter" and plugin.is_called(name) for plugin in declared_plugins())


def _check_outputs(options: ConvertOptions, work: ConversionJob) -> None:
    for output, option in ((work.output, "--output"), (options.report, "--report")):
        if output is not None:
            check_writable(output, option=option)
            refuse_overwrite(output, work.sources, option=option)
    if options.report == STANDARD:
        raise UsageProblem("--report needs the name of a file", hint="the report is shown on the terminal anyway")
    if options.report is not None and is_same_file(options.report, work.output):
        raise UsageProblem(f"--report and --output both name '{options.report}'", hint="name two files")


def _write_conversion(lines: Iterable[bytes], output: str) -> None:
    if output == STANDARD:
        write_stream(lines, standard_output())
    else:
        write_file(output, lines)


def _show_conversion(report: api.ConversionReport, options: ConvertOptions, *, is_on_error: bool) -> None:
    # Where the dataset goes to standard output, the report must not be mixed into it.
    stream = sys.stderr if is_on_error else standard_output()
    is_coloured = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    settings = ReportSettings(version=__version__, is_verbose=options.verbose, is_coloured=is_coloured, width=width)
    sections = conversion_sections(report, is_verbose=options.verbose)
    write_stream(encoded(report_text(sections, settings), stream.encoding), stream)
