"""`assay validate`: datasets in, a report and a verdict out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence

import click
import msgspec

from assay import api
from assay.core.contract import CONTRACTS
from assay.core.errors import AssayError, SourceUnreadable, UsageProblem
from assay.core.report import ValidationReport
from assay.core.settings import ColumnSection
from assay.core.text import printable
from assay.core.version import __version__
from assay.presentation.validation import Totals
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import WordChoice, columns_of, setting_option, table_options, verbose_option
from assay.surfaces.cli.pipeline import PipelineOptions, append_summary, check_junit, github_option, junit_option
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
from assay.surfaces.cli.terminal_progress import ProgressMeter
from assay.surfaces.reporters.formats import FORMATS, ReportSettings
from assay.surfaces.reporters.github import report_annotations

MAX_WORKERS = 2
"""More processes than this gain little: the document is split before, and the report written after."""
ALIASES = {"console": "text"}

HELP = """Validate datasets and report every problem.

PATHS are files, quoted globs ('data/**/*.jsonl'), folders, or - for standard input. JSON, JSONL and YAML are read, gzipped or not.
The contract is detected by content; set it with --contract if detection fails or must not vary.
"""

EPILOG = """\b
Examples:
  assay validate answers.json
  assay validate data/ --contract batch_v1 --strict
  assay validate 'data/**/*.jsonl' --format sarif --output assay.sarif
  assay validate talk.yaml --config rules.yaml
  assay validate answers.json --fix corrected.json
  zcat big.jsonl.gz | assay validate - --format json

\b
Exit codes:
  0  everything is valid
  1  something is invalid (with --strict also: something has a warning)
  2  could not run: bad usage, an unreadable file, a report that could not be written"""


class ValidateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    paths: tuple[str, ...]
    contract: str
    config: str | None
    format: str
    output: str
    max_issues: int | None
    strict: bool
    allow_size: bool
    null_as_absent: bool
    lint: bool | None
    workers: int | None
    fix: str | None
    verbose: bool
    junit: str | None
    is_github: bool
    columns: ColumnSection = ColumnSection()
    sheet: str = ""

    @property
    def pipeline(self) -> PipelineOptions:
        """Output for CI besides the report."""
        is_text = ALIASES.get(self.format, self.format) == "text"
        return PipelineOptions(junit=self.junit, is_github=self.is_github, is_report_shown=is_text or self.output != STANDARD)


class SourceFiles(msgspec.Struct, frozen=True):
    """Files found by patterns, and problems of patterns without a file."""

    found: tuple[str, ...]
    problems: tuple[AssayError, ...]


@click.command("validate", help=HELP, epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="PATHS...")
@click.option(
    "--contract",
    metavar="CONTRACT",
    default="auto",
    show_default=True,
    help=f"The format of the files: {', '.join(CONTRACTS)}, a plugin, or file.py:function.",
)
@click.option("--config", metavar="FILE", help="Settings in YAML or JSON: limits, speakers, tools, switches of the contracts.")
@click.option(
    "--format",
    type=WordChoice([*FORMATS, *ALIASES]),
    default="text",
    show_default=True,
    metavar="|".join(FORMATS),
    help="How the report is written.",
)
@click.option(
    "-o", "--output", "--report", metavar="FILE", default=STANDARD, help="Write the report to FILE, completely or not at all."
)
@click.option(
    "--max-issues",
    type=click.IntRange(min=0),
    metavar="N",
    help="Issues shown per file; 0 for all.  [default: 20 for text, all for other formats]",
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors; read conversations in strict mode.")
@setting_option("allow_size")
@setting_option("null_as_absent")
@table_options
@click.option(
    "--lint/--no-lint",
    default=None,
    help="Warn of rubrics that repeat or contradict themselves.  [default: lint]",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes for batch_v1 files above 25 MB.  [default: 2 where there are two cores]",
)
@click.option("--fix", metavar="OUT", help="Write a copy of the file with the safe fixes to OUT, and list them.")
@junit_option
@github_option
@verbose_option("Show every issue in full instead of grouping similar ones.")
@click.pass_context
def validate_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    columns = columns_of(given)
    given["sheet"] = given["sheet"] or ""
    context.exit(validate(msgspec.structs.replace(msgspec.convert(given, ValidateOptions), columns=columns)))


def validate(options: ValidateOptions) -> int:
    """Validate what the options name, write the report, and say how it went as an exit code."""
    sources = _find_sources(options.paths)
    _check_outputs(options, sources.found)
    for problem in sources.problems:
        # Each problem is printed when it is known, and the other files are validated nevertheless.
        exits.complain_of(problem)
    if not sources.found:
        return exits.COULD_NOT_RUN
    work = ValidationJob(options)
    if options.fix is None:
        work.write_report(work.reports(sources.found), _settings(options))
    else:
        work.fix(sources.found[0], options.fix)
    # One pattern without a file makes the command fail even if all others are valid: a typo must not pass a check
    # in CI.
    return exits.COULD_NOT_RUN if sources.problems else work.exit_code()


class ValidationJob:
    """One run of the command: the totals so far, and the sources that could not be read."""

    def __init__(self, options: ValidateOptions) -> None:
        self._options = options
        self._config = _config(options)
        self._meter = ProgressMeter()
        self._tally = Totals()
        self._unreadable = 0
        self._kept: list[ValidationReport] = []

    def reports(self, sources: Sequence[str]) -> Iterator[ValidationReport]:
        """Yield a report for each readable source; print a line on standard error for each other one."""
        for source in sources:
            self._meter.begin(source)
            try:
                yield self._validate(source)
            except SourceUnreadable as problem:
                self._unreadable += 1
                # The bar is in the way of the line on standard error.
                self._meter.hide()
                exits.complain_of(problem)

    def _validate(self, source: str) -> ValidationReport:
        options = self._options
        return api.validate(
            source,
            options.contract,
            config=self._config,
            strict=options.strict,
            progress=self._meter.count,
            # The default of the library is 1; only the command may assume that the machine is its own.
            workers=options.workers or min(os.cpu_count() or 1, MAX_WORKERS),
            interface="cli",
            columns=options.columns,
            sheet=options.sheet,
        )

    def fix(self, source: str, target: str) -> None:
        """Write the corrected copy, and the report on it with every change."""
        fixed = api.fix(source, target, self._options.contract, config=self._config)
        settings = msgspec.structs.replace(_settings(self._options), fixed_source=source, fixed_copy=target, changes=fixed.changes)
        self.write_report([fixed.report], settings)

    def write_report(self, reports: Iterable[ValidationReport], settings: ReportSettings) -> None:
        """Write the report in the chosen format to the chosen output."""
        output, name = self._options.output, ALIASES.get(self._options.format, self._options.format)
        chunks = FORMATS[name](map(self._counted, reports), settings)
        if output == STANDARD:
            stream = standard_output()
            # A document for programs contains no commands, and the guard lines would break it.
            shown = self._options.pipeline.guarded(chunks) if name == "text" else chunks
            # A terminal may not be UTF-8, a document always is.
            write_stream(encoded(self._in_the_clear(shown), stream.encoding if name == "text" else "utf-8"), stream)
        else:
            write_file(output, encoded(chunks))
            self._meter.hide()
            click.echo(f"{self._tally.line()} · report in {printable(output)}", err=True)
        self._tell_pipeline(settings)

    def _tell_pipeline(self, settings: ReportSettings) -> None:
        pipeline = self._options.pipeline
        if pipeline.junit is not None:
            # Made from reports that were kept, since the stream of reports has been consumed.
            pipeline.write_junit(FORMATS["junit"](self._kept, settings))
        if pipeline.is_github:
            pipeline.annotate(command for report in self._kept for command in report_annotations(report, settings))
            append_summary(FORMATS["markdown"](self._kept, settings))

    def _counted(self, report: ValidationReport) -> ValidationReport:
        self._tally.add(report)
        if self._options.pipeline.is_wanted:
            # Without its cases: what is kept until the end must not be whole files.
            plain = ValidationReport(
                path=report.path,
                contract=report.contract,
                outcome=report.outcome,
                counts=report.counts,
                issues=report.issues,
                unlisted=report.unlisted,
                fields=report.fields,
            )
            self._kept.append(plain)
        return report

    def _in_the_clear(self, chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            self._meter.hide()
            yield chunk

    def exit_code(self) -> int:
        """Return the exit code for everything that was read."""
        if self._unreadable:
            return exits.COULD_NOT_RUN
        # --strict makes the command fail for warnings that the contract allows.
        is_good = self._tally.is_all_valid and not (self._options.strict and self._tally.warnings)
        return exits.VALID if is_good else exits.INVALID


def _config(options: ValidateOptions) -> api.ValidationConfig:
    config = api.load_config(options.config) if options.config else api.ValidationConfig()
    # False means "not given", so that the file of --config decides.
    switches = {"allow_size": options.allow_size or None, "null_as_absent": options.null_as_absent or None}
    given = {**switches, "lint": options.lint}
    return msgspec.structs.replace(config, **{name: value for name, value in given.items() if value is not None})


def _note_skipped(path: str) -> None:
    click.echo(f"assay: skipped {printable(path)}: it shows no contract; name the file itself to validate it", err=True)


def _find_sources(patterns: Sequence[str]) -> SourceFiles:
    if not patterns:
        raise UsageProblem("no files given", hint="assay validate answers.json, or - for standard input")
    found: dict[str, None] = {}
    problems: list[AssayError] = []
    for pattern in patterns:
        try:
            found |= dict.fromkeys(api.find_sources([pattern], on_skip=_note_skipped))
        except (UsageProblem, SourceUnreadable) as problem:
            problems.append(problem)
    return SourceFiles(tuple(found), tuple(problems))


def _check_outputs(options: ValidateOptions, sources: Sequence[str]) -> None:
    for output, option in ((options.output, "--output"), (options.fix, "--fix")):
        if output is not None:
            # `--fix --strict` would otherwise write a file called `--strict`.
            if output.startswith("-") and output != STANDARD:
                raise UsageProblem(
                    f"{option} needs the name of a file, and '{output}' looks like an option",
                    hint=f"put the name right after {option}; write ./{output} for a file of that name",
                )
            check_writable(output, option=option)
            refuse_overwrite(output, sources, option=option)
    check_junit(options.junit, sources)
    if options.fix is not None and len(sources) > 1:
        raise UsageProblem(f"--fix takes one file, and {len(sources)} were given", hint="run it once for each file")
    if options.fix == STANDARD:
        raise UsageProblem("--fix needs the name of a file", hint="standard output is for the report")
    if options.fix is not None and is_same_file(options.fix, options.output):
        raise UsageProblem(f"--fix and --output both name '{options.fix}'", hint="name two files")


def _settings(options: ValidateOptions) -> ReportSettings:
    is_terminal = options.output == STANDARD and standard_output().isatty()
    return ReportSettings(
        version=__version__,
        max_issues=options.max_issues,
        width=shutil.get_terminal_size().columns if is_terminal else None,
        is_coloured=is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        is_verbose=options.verbose,
        is_strict=options.strict,
    )
