"""Reports on finished runs, for people and for pipelines."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import click
import msgspec

from assay import api
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.core.text import printable
from assay.presentation.decisions import checked_run, word_for
from assay.presentation.matrix import matrix_section
from assay.presentation.run import candidate_sections, run_sections
from assay.presentation.run_report import RunReport, view_of
from assay.presentation.sections import Section
from assay.surfaces.cli.pipeline import write_checks
from assay.surfaces.cli.run_options import (
    NOTHING,
    OutputOptions,
    SavedChart,
    command_line,
    near,
    save_charts,
    text_settings,
    with_public_folder,
    write_text,
)
from assay.surfaces.cli.streams import STANDARD, encoded, standard_output, write_file, write_stream
from assay.surfaces.reporters.comments import run_markdown
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text


def report(runs: Sequence[api.RunReader], shown: OutputOptions) -> None:
    """Write the report on the runs of one command to standard output or a file, and their charts."""
    # Planned candidates count, so that a command which was stopped early has the same layout.
    is_one = len(runs) + len(shown.waiting) == 1
    views = [_view(run, shown, is_one=is_one) for run in runs]
    settings = text_settings(is_verbose=shown.is_verbose)
    saved = save_charts(views, shown.charts) if shown.charts is not None else []
    if shown.markdown is not None:
        _write_markdown(views, settings, shown=shown, charts=saved)
    elif not shown.is_json:
        _write_report(runs, views, settings, shown=shown, is_one=is_one)
    if shown.charts is not None and not saved:
        # Said once at the end, since without scores the option made no file.
        click.echo(NOTHING, err=True)
    for chart in saved:
        click.echo(f"chart in {printable(chart.path)}", err=True)


def _write_report(
    runs: Sequence[api.RunReader], views: Sequence[RunReport], settings: ReportSettings, *, shown: OutputOptions, is_one: bool
) -> None:
    # A run of a server has no folder here that a next command could use.
    if shown.place:
        sections = run_sections(views[0], is_verbose=shown.is_verbose)
    elif is_one:
        commands = [*_next_commands(runs[0], views[0], shown), *_charts_command(views, shown)]
        sections = run_sections(views[0], is_verbose=shown.is_verbose, commands=commands)
    else:
        # Several runs have no single record to look at first.
        commands = [*_group_commands(views, shown), *_charts_command(views, shown)]
        sections = candidate_sections(
            views,
            is_verbose=shown.is_verbose,
            waiting=shown.waiting,
            commands=commands,
            records=_matrix(runs, is_verbose=shown.is_verbose),
        )
    write_text(shown.pipeline.guarded(report_text(sections, settings)))


def _matrix(runs: Sequence[api.RunReader], *, is_verbose: bool) -> Section | None:
    """Return the records of finished runs side by side; None where none can be read."""
    try:
        matrix = api.run_matrix(runs)
        return matrix_section(matrix, is_verbose=is_verbose) if len(matrix) else None
    except (RunNotFound, StoreUnavailable):
        # The report on each run says which artifact is missing.
        return None


def _group_commands(views: Sequence[RunReport], shown: OutputOptions) -> list[str]:
    """Return what takes all runs of a group."""
    names = {view.plan.group for view in views}
    name = names.pop() if len(names) == 1 else msgspec.UNSET
    is_comparable = bool(name) and all(view.result.is_finished and not view.is_ranking for view in views)
    return [command_line(word, str(name), shown=shown) for word in ("compare", "report")] if is_comparable else []


def _write_markdown(
    views: Sequence[RunReport], settings: ReportSettings, *, shown: OutputOptions, charts: Sequence[SavedChart]
) -> None:
    path = shown.markdown or STANDARD
    # Links are read from where the file is.
    place = Path.cwd() if path == STANDARD else Path(path).absolute().parent
    images = {os.path.relpath(chart.path, place): chart.title for chart in charts}
    if path == STANDARD:
        write_stream(encoded(run_markdown(views, settings, waiting=shown.waiting, images=images)), standard_output())
        return
    folder = os.path.relpath(Path.cwd(), place)
    start = "" if folder == "." else folder
    write_file(path, encoded(run_markdown(views, settings, waiting=shown.waiting, folder=start, images=images)))
    for view in views:
        click.echo(f"{printable(view.result.run_id)}: {word_for(view)} · report in {printable(path)}", err=True)


def _view(run: api.RunReader, shown: OutputOptions, *, is_one: bool) -> RunReport:
    # Side by side the same records must stand on the same line, so there the order is the dataset's.
    view = view_of(run, is_verbose=shown.is_verbose, is_worst_first=is_one)
    result = msgspec.structs.replace(view.result, run_dir=near(view.result.run_dir))
    return msgspec.structs.replace(view, result=with_public_folder(result, shown))


def _next_commands(run: api.RunReader, view: RunReport, shown: OutputOptions) -> list[str]:
    result = view.result
    if not result.is_finished:
        return [command_line("resume", result.run_id, shown=shown)]
    if result.is_away:
        return []
    record = _record_to_show(run, view)
    commands = [] if record is None else [_show_command(result.run_id, record, shown)]
    summary = result.summary
    if summary is not None and summary.panel and summary.panel.n_disagree:
        commands.append(command_line("show", result.run_id, "--disagreements", shown=shown))
    counts = result.counts
    # Invalid records stay invalid, and imported answers have no model to ask again.
    if counts.failed_records - counts.invalid_records + counts.skipped_records and view.plan.imported is None:
        commands.append(command_line("retry", result.run_id, shown=shown))
    return commands


def _record_to_show(run: api.RunReader, view: RunReport) -> str | None:
    """Return the record to inspect first: the worst, else one with an error, else the first; None if the run has none."""
    worst = (worst.prediction.record_id for worst in view.worst)
    # An invalid record may have no id, and then no command shows it.
    failed = (failure.record_id for failure in run.failures() if failure.record_id is not None)
    others = (prediction.record_id for prediction in run.predictions())
    try:
        return next(chain(worst, failed, others), None)
    except (RunNotFound, StoreUnavailable):
        # The report says which artifact is missing.
        return None


def _show_command(run_id: str, record: str, shown: OutputOptions) -> str:
    """Format the command that shows a record; an id that looks like an option goes last."""
    if record.startswith("-"):
        return f"{command_line('show', run_id, shown=shown)} {shlex.join(['--', record])}"
    return command_line("show", run_id, record, shown=shown)


def _charts_command(views: Sequence[RunReport], shown: OutputOptions) -> list[str]:
    """Return the command for charts, if there is something to draw that was not drawn."""
    summaries = ((view.result.run_id, view.result.summary) for view in views)
    drawn = [run_id for run_id, summary in summaries if summary is not None and summary.n_scored]
    return [command_line("charts", *drawn, shown=shown)] if drawn and shown.charts is None else []


def write_pipeline(runs: Sequence[api.RunReader], shown: OutputOptions) -> None:
    """Write the output for CI."""

    def summary() -> Iterable[str]:
        is_one = len(runs) + len(shown.waiting) == 1
        views = [_view(run, shown, is_one=is_one) for run in runs]
        # Artifacts of a build are not where a job summary is read, so its links would lead nowhere.
        return run_markdown(views, text_settings(), waiting=shown.waiting, is_linked=False)

    write_checks(shown.pipeline, [checked_run(run) for run in runs], summary=summary)
