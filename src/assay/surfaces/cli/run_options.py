"""What the commands on runs have in common: where runs live, how a report is shown, and the exit code of a run."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from assay import __version__, api
from assay.core.run_result import RunResult
from assay.surfaces.cli import exits
from assay.surfaces.cli.streams import encoded, standard_output, write_stream
from assay.surfaces.reporters.plain_json import json_text
from assay.surfaces.reporters.run_candidates import candidates_text
from assay.surfaces.reporters.run_text import run_text
from assay.surfaces.reporters.run_view import RunView, view_of
from assay.surfaces.reporters.settings import Settings

RUNS_DIR = "runs"
RUNS_DIR_VARIABLE = "ASSAY_RUNS_DIR"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def runs_dir_option(command: Decorated) -> Decorated:
    """`--runs-dir DIR`, the same for every command."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--runs-dir",
        metavar="DIR",
        default=RUNS_DIR,
        envvar=RUNS_DIR_VARIABLE,
        show_default=True,
        help=f"The folder of the runs; {RUNS_DIR_VARIABLE} names it for all commands.",
    )
    return option(command)


def json_option(command: Decorated) -> Decorated:
    """`--json`, the same for every command."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--json", "is_json", is_flag=True, help="Print one JSON document instead of a report for people."
    )
    return option(command)


RUN = click.argument("run", metavar="RUN")
"""A run by its id, a unique beginning of one, `latest`, or the path of its folder."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """How the end of a run is told."""

    runs_dir: str
    is_json: bool = False
    is_verbose: bool = False
    is_quiet: bool = False


def conclude(results: Sequence[RunResult], shown: Shown) -> int:
    """Print what became of the runs of one command, and say it as an exit code."""
    if shown.is_json:
        documents = [result.to_dict() for result in results]
        write_json(documents[0] if len(documents) == 1 else {"runs": documents})
    else:
        _report([api.open_run(result.run_id, runs_dir=shown.runs_dir) for result in results], shown)
    for result in results:
        if not result.is_finished:
            exits.complain("interrupted", hint=f"go on with: {command_line('resume', result.run_id, shown=shown)}")
    return exit_code(results)


def report(run: api.Run, shown: Shown) -> None:
    """The report on one run."""
    _report([run], shown)


def _report(runs: Sequence[api.Run], shown: Shown) -> None:
    views = [_view(run, shown) for run in runs]
    settings = text_settings(is_verbose=shown.is_verbose)
    if len(views) == 1:
        write_text(run_text(views[0], settings, commands=_next_commands(views[0], shown)))
    else:
        write_text(candidates_text(views, settings))


def _view(run: api.Run, shown: Shown) -> RunView:
    view = view_of(run, is_verbose=shown.is_verbose)
    return msgspec.structs.replace(view, result=msgspec.structs.replace(view.result, run_dir=_near(view.result.run_dir)))


def _near(path: str) -> str:
    """The path as one would type it here."""
    folder = Path(path)
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else path


def exit_code(results: Sequence[RunResult]) -> int:
    """0 every gate was reached, 1 one was not, 2 nothing could be evaluated, 130 stopped before the end."""
    if any(not result.is_finished or result.state == "cancelled" for result in results):
        return exits.INTERRUPTED
    if any(not result.counts.evaluated_records for result in results):
        return exits.COULD_NOT_RUN
    return exits.GATES_PASSED if all(result.gate.passed for result in results) else exits.GATE_FAILED


def _next_commands(view: RunView, shown: Shown) -> list[str]:
    result = view.result
    if not result.is_finished:
        return [command_line("resume", result.run_id, shown=shown)]
    named = [*(record_id for group in view.failures for record_id in group.record_ids), *(case["record_id"] for case in view.cases)]
    record = next((record_id for record_id in named if not record_id.startswith("-")), "RECORD")
    commands = [command_line("show", result.run_id, record, shown=shown)]
    counts = result.counts
    if counts.failed_records - counts.invalid_records + counts.skipped_records:
        commands.append(command_line("retry", result.run_id, shown=shown))
    return commands


def command_line(*words: str, shown: Shown) -> str:
    """A command that the reader can copy."""
    usual = Path(os.environ.get(RUNS_DIR_VARIABLE) or RUNS_DIR)
    is_usual = Path(shown.runs_dir).absolute() == usual.absolute()
    return shlex.join(["assay", *words, *([] if is_usual else ["--runs-dir", _near(shown.runs_dir)])])


def text_settings(*, is_verbose: bool = False) -> Settings:
    """How text looks on standard output."""
    is_terminal = standard_output().isatty()
    return Settings(
        version=__version__,
        width=shutil.get_terminal_size().columns if is_terminal else None,
        is_coloured=is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        is_verbose=is_verbose,
    )


def write_text(chunks: Iterable[str]) -> None:
    """A report on standard output."""
    stream = standard_output()
    write_stream(encoded(chunks, stream.encoding), stream)


def write_json(value: Any) -> None:
    """One JSON document on standard output."""
    write_stream([json_text(value, indent=2).encode(), b"\n"], standard_output())
