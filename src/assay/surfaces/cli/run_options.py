"""Options and output that commands on runs share: folders, reports, charts, and the exit code."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from assay import api
from assay.core.canonical import json_text
from assay.core.errors import UsageProblem
from assay.core.integrations import load_integration
from assay.core.run_result import RunResult
from assay.core.runs import RUNS_DIR
from assay.core.settings import run_settings
from assay.core.text import printable
from assay.core.version import __version__
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import setting_option
from assay.surfaces.cli.pipeline import PipelineOptions
from assay.surfaces.cli.streams import (
    STANDARD,
    check_writable,
    encoded,
    refuse_overwrite,
    refuse_read_only,
    standard_output,
    write_file,
    write_stream,
)
from assay.surfaces.reporters.formats import ReportSettings

if TYPE_CHECKING:
    from assay.presentation.charts import Chart
    from assay.presentation.run_report import RunReport


RUNS_DIR_VARIABLE = "ASSAY_RUNS_DIR"
_SOURCE_ENDINGS = frozenset({".json", ".jsonl", ".yaml", ".yml", ".gz"})

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def setting_options(after: Mapping[str, Callable[[Decorated], Decorated]]) -> Callable[[Decorated], Decorated]:
    """Make the options of all settings of a run; `after` has further options, each with the setting whose option it follows."""

    def add_all(command: Decorated) -> Decorated:
        # Reversed, since each decorator puts its option before the ones that are there.
        for setting in reversed([setting for setting in run_settings().values() if setting.option]):
            if setting.member in after:
                command = after[setting.member](command)
            command = runs_dir_option(command) if setting.member == "runs_dir" else setting_option(setting.member)(command)
        return command

    return add_all


def runs_dir_option(command: Decorated) -> Decorated:
    """Add `--runs-dir DIR`, the same for every command."""
    return setting_option("runs_dir", default=RUNS_DIR, envvar=RUNS_DIR_VARIABLE, show_default=True)(command)


def json_option(command: Decorated) -> Decorated:
    """Add `--json`, the same for every command."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--json", "is_json", is_flag=True, help="Print one JSON document instead of the text report."
    )
    return option(command)


def markdown_option(command: Decorated) -> Decorated:
    """Add `--markdown [FILE]`, the same for every command that ends a run."""
    option: Callable[[Decorated], Decorated] = click.option(
        # click's form of an option whose value may be left out.
        "--markdown",
        is_flag=False,
        flag_value=STANDARD,
        metavar="[FILE]",
        help="Print the report as Markdown, for a pull request, or write it to FILE.",
    )
    return option(command)


def check_mlflow(uri: str | None, experiment: str | None = None) -> None:
    """Raise UsageProblem, before any work, for an invalid address of MLflow."""
    if uri is not None:
        # Through the integration, so that its address rules are the same as for `assay mlflow push`; without it
        # the error names the extra.
        load_integration("mlflow", "exporter", user="--mlflow").destination(uri, experiment)


def mlflow_option(command: Decorated) -> Decorated:
    """Add `--mlflow URI`, the same for every command that ends a run."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--mlflow",
        metavar="URI",
        help="Also push the finished run to this MLflow server; if it does not answer, print a warning. See assay mlflow push.",
    )
    return option(command)


def check_markdown(path: str | None, sources: Sequence[str] = (), *, is_json: bool) -> None:
    """Raise UsageProblem, before any call, when the Markdown report could not go where it is wanted."""
    if path is None:
        return
    if path == STANDARD:
        if is_json:
            raise UsageProblem("--json and --markdown both want standard output", hint="write one to a file: --markdown FILE")
        return
    # The name after --markdown is taken as its file, so a dataset that stands there would be overwritten.
    if Path(path).suffix.lower() in _SOURCE_ENDINGS:
        raise UsageProblem(
            f"--markdown '{path}' is named like a dataset or a run file",
            hint="put --markdown last, or name a file that ends in .md",
        )
    check_writable(path, option="--markdown")
    refuse_overwrite(path, sources, option="--markdown")


RUN = click.argument("run", metavar="RUN")
"""A run by its id, a unique prefix of an id, `latest`, or the path of its folder."""
RUN_OR_GROUP = click.argument("run", metavar="RUN|GROUP")
"""A run, or the name of several that were started together."""


class OutputOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the output at the end of a run."""

    runs_dir: str
    is_json: bool = False
    is_verbose: bool = False
    is_quiet: bool = False
    markdown: str | None = None
    """File of the Markdown report, or - for standard output."""
    charts: str | None = None
    """Folder in which charts are saved."""
    mlflow: str | None = None
    """MLflow server that gets the finished runs."""
    experiment: str = ""
    """Of MLflow; empty for the dataset's."""
    pipeline: PipelineOptions = PipelineOptions()
    """Write the output for CI."""
    waiting: tuple[str, ...] = ()
    """Candidates whose turn never came."""
    is_named: bool = False
    """True when the runs have an id, so that the same command resumes them."""
    is_detached: bool = False
    """Batches were handed in and are not waited for."""
    place: str = ""
    """Address of the run, if its local folder is a temporary copy."""


def finished_run(name: str, runs_dir: str) -> api.RunReader:
    """Open a finished run; raises UsageProblem for an unfinished one, with the command that resumes it."""
    run = api.open_run(name, runs_dir=runs_dir)
    result = run.result
    if result.is_finished:
        return run
    counts = result.counts
    done = counts.evaluated_records + counts.failed_records
    resume = command_line("resume", result.run_id, shown=OutputOptions(runs_dir=str(run.folders.runs_dir)))
    raise UsageProblem(
        f"run '{result.run_id}' is unfinished: it is {result.state}, {done:,} of {counts.total_records:,} records are done",
        hint=f"resume it: {resume}",
    )


def conclude(results: Sequence[RunResult], shown: OutputOptions) -> int:
    """Print what became of the runs of one command, and say it as an exit code."""
    outputs = (
        (_write_document, ["--json"]),
        (_write_report, report_options(shown)),
        (_write_for_pipeline, shown.pipeline.options),
    )
    # A list and not a generator: one output that fails must not keep the next from being written.
    written = [_is_written(write, results, shown=shown, options=options) for write, options in outputs]
    for result in results:
        if result.is_resumable:
            resume = command_line("resume", result.run_id, shown=shown)
            exits.print_error(
                f"run '{printable(result.run_id)}' has failed: {result.problem}", hint=f"when that is fixed: {resume}"
            )
        elif not result.is_finished:
            _complain_of_interruption(result, shown)
        elif result.store and not shown.is_json:
            click.echo(f"artifacts also at {printable(result.store)}", err=True)
    # Last, because the server may be away and the run's own outputs are done by then.
    push_finished(results, shown)
    # A run whose report is missing is not a success for a script, regardless of what its gates say.
    if not all(written):
        return exits.COULD_NOT_RUN
    # Batches that were handed in are all that was asked for.
    if shown.is_detached and not any(result.is_finished for result in results):
        return exits.GATES_PASSED
    return exit_code(results)


_Write = Callable[[Sequence[RunResult], OutputOptions], None]


def _is_written(write: _Write, results: Sequence[RunResult], *, shown: OutputOptions, options: Sequence[str]) -> bool:
    """Write it; what cannot be written is complained of, and keeps nothing else from being written. `options` ask for it again."""
    try:
        write(results, shown)
    except OSError as problem:
        kept = [_kept_text(with_public_folder(result, shown)) for result in results]
        exits.complain_of_report(problem, kept=kept, again=_writing_again(results, shown, options=options))
        return False
    return True


def _writing_again(results: Sequence[RunResult], shown: OutputOptions, *, options: Sequence[str]) -> str:
    """Return the command that writes the report again; empty for a run that is not on this machine."""
    if shown.place:
        return ""
    if len(results) == 1:
        return f"write it again: {command_line('resume', results[0].run_id, *options, shown=shown)}"
    if shown.is_named:
        return "repeat the same command: no call is repeated"
    return f"write one for each run: {command_line('resume', 'RUN', *options, shown=shown)}"


def _kept_text(result: RunResult) -> str:
    words = f"has ended ({result.state}), and its artifacts are" if result.is_finished else f"is {result.state}, and is stored"
    return f"run '{result.run_id}' {words} in {near(result.run_dir)}"


def _write_document(results: Sequence[RunResult], shown: OutputOptions) -> None:
    if shown.is_json:
        # The address of a server's run is what its readers know; the temporary folder is gone in a moment.
        documents = [with_public_folder(result, shown).to_dict() for result in results]
        # The number of planned runs decides, so that a reader finds the same shape whenever the command was stopped.
        write_json(documents[0] if len(documents) + len(shown.waiting) == 1 else {"runs": documents})


def _write_report(results: Sequence[RunResult], shown: OutputOptions) -> None:
    if shown.markdown is not None or shown.charts is not None or not shown.is_json:
        # Opened again by id: the report reads artifacts, and the result in hand has none.
        _reports().report([api.open_run(result.run_id, runs_dir=shown.runs_dir) for result in results], shown)


def report_options(shown: OutputOptions) -> list[str]:
    """Return the options for the same report."""
    markdown = [] if shown.markdown is None else ["--markdown"] if shown.markdown == STANDARD else ["--markdown", shown.markdown]
    return [*([] if shown.charts is None else ["--charts", shown.charts]), *markdown]


def _write_for_pipeline(results: Sequence[RunResult], shown: OutputOptions) -> None:
    if shown.pipeline.is_wanted:
        # A detached run has no results before it is collected.
        ended = [result for result in results if result.is_finished or not shown.is_detached]
        _reports().write_pipeline([api.open_run(result.run_id, runs_dir=shown.runs_dir) for result in ended], shown)


def _reports() -> ModuleType:
    """Import the module that writes text reports; a run that ends in JSON does without it."""
    return import_module("assay.surfaces.cli.run_reports")


def push_finished(results: Sequence[RunResult], shown: OutputOptions) -> None:
    """Push finished runs to MLflow if the options ask for it; otherwise MLflow is not loaded."""
    for result in results:
        if shown.mlflow is not None and result.is_finished:
            load_integration("mlflow", "command", user="--mlflow").push_after_run(result.run_id, shown)


def _complain_of_interruption(result: RunResult, shown: OutputOptions) -> None:
    resume = command_line("resume", result.run_id, shown=shown)
    if result.is_elsewhere:
        words = {word: command_line(word, result.run_id, shown=shown) for word in ("show", "cancel")}
        ways = f"follow it: {resume} · show it: {words['show']} · cancel it: {words['cancel']}"
        exits.print_error(f"the workers continue {printable(result.run_id)}", hint=ways)
        return
    if shown.is_detached:
        exits.print_error("the batches are submitted", hint=f"collect them with: {resume}")
        return
    if not shown.waiting:
        exits.print_error("interrupted", hint=f"resume with: {resume}")
        return
    again = "repeat the same command: it resumes this run, then starts the others"
    alone = f"resume with: {resume} (with --run-id, repeating the same command resumes all candidates)"
    exits.print_error(f"interrupted; not started: {printable(', '.join(shown.waiting))}", hint=again if shown.is_named else alone)


def write_markdown(chunks: Iterable[str], path: str) -> None:
    """Write a Markdown report to standard output or a file."""
    if path == STANDARD:
        write_stream(encoded(chunks), standard_output())
    else:
        write_file(path, encoded(chunks))
        click.echo(f"report in {printable(path)}", err=True)


def with_public_folder(result: RunResult, shown: OutputOptions) -> RunResult:
    """Replace the folder of a result by the address that its readers know."""
    return msgspec.structs.replace(result, run_dir=shown.place) if shown.place else result


def near(path: str) -> str:
    """Shorten a path to a relative one if it is below the working directory."""
    folder = Path(path)
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else path


def exit_code(results: Sequence[RunResult]) -> int:
    """Return 0 if every gate is met, 1 if one was missed, 2 if nothing could be evaluated, 130 if stopped before the end."""
    # The worst counts: interrupted, then could not run, then missed.
    if any(not (result.is_finished or result.is_resumable) or result.state == "cancelled" for result in results):
        return exits.INTERRUPTED
    if any(result.is_resumable or not result.counts.evaluated_records for result in results):
        return exits.COULD_NOT_RUN
    return exits.GATES_PASSED if all(result.gate.passed for result in results) else exits.GATE_FAILED


def command_line(*words: str, shown: OutputOptions) -> str:
    """Format a command that the reader can copy."""
    # Leave --runs-dir out where the command would use the same folder anyway.
    usual = Path(os.environ.get(RUNS_DIR_VARIABLE) or RUNS_DIR)
    is_usual = Path(shown.runs_dir).absolute() == usual.absolute()
    return shlex.join(["assay", *words, *([] if is_usual else ["--runs-dir", near(shown.runs_dir)])])


def text_settings(*, is_verbose: bool = False) -> ReportSettings:
    """Choose width and colours for standard output."""
    is_terminal = standard_output().isatty()
    # Piped output is not cut to the width of a window that does not exist.
    return ReportSettings(
        version=__version__,
        width=shutil.get_terminal_size().columns if is_terminal else None,
        # NO_COLOR (no-color.org) and TERM=dumb are the two ways to ask for none.
        is_coloured=is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        is_verbose=is_verbose,
    )


def write_text(chunks: Iterable[str]) -> None:
    """Write a report to standard output."""
    stream = standard_output()
    write_stream(encoded(chunks, stream.encoding), stream)


def say_empty(runs_dir: str, rest: str) -> None:
    """Print where an empty list was read from, since a wrong folder looks the same, and what may help."""
    where = f"in '{runs_dir}'" if Path(runs_dir).is_dir() else f"there is no folder '{runs_dir}'"
    click.echo(f"hint: {printable(where)}; {rest}", err=True)


def write_json(value: object) -> None:
    """Write one JSON document to standard output."""
    write_stream([json_text(value, indent=2).encode(), b"\n"], standard_output())


NOTHING = "nothing to draw: no record has a score"


class SavedChart(msgspec.Struct, frozen=True):
    """A chart that was written."""

    title: str
    path: str


def charts_option(command: Decorated) -> Decorated:
    """Add `--charts DIR`, the same for every command that ends a run."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--charts", metavar="DIR", help="Save charts (SVG) of scores, slices and candidates in this folder."
    )
    return option(command)


def check_charts(folder: str | None) -> None:
    """Raise UsageProblem, before any call, when charts could not be saved there."""
    if folder == "":
        raise UsageProblem("the folder for charts has no name", hint="name one, such as charts")
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise UsageProblem(f"'{folder}' is a file, and charts need a folder", hint="name another")
    if folder is not None:
        path = Path(folder).absolute()
        # The folder may not exist yet, so the nearest one that does decides whether it can be made.
        refuse_read_only(next(place for place in (path, *path.parents) if place.exists()), f"charts in '{folder}'")


def save_charts(views: Sequence[RunReport], folder: str) -> list[SavedChart]:
    """Write the charts of the runs, replacing older ones of the same names."""
    # Loaded here: most runs are not drawn.
    found: list[Chart] = import_module("assay.presentation.run_details").run_charts(views)
    draw = import_module("assay.surfaces.charts").draw
    if found:
        Path(folder).mkdir(parents=True, exist_ok=True)
    saved = [SavedChart(chart.heading, str(Path(folder, chart.name))) for chart in found]
    for chart, file in zip(found, saved, strict=True):
        write_file(file.path, encoded([draw(chart)]))
    return saved
