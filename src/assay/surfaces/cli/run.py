"""`assay run`, `resume`: start runs or continue one, from planning to the report and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.exposure import ExposedSetting
from assay.core.run_result import RunResult
from assay.core.runs import LOCAL_BACKEND, RUNS_DIR, RunBackend
from assay.core.settings import run_settings
from assay.core.text import printable
from assay.presentation.words import batch_text, counted
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import check_no_placement, placement_of, placement_options, quiet_option, verbose_option
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option
from assay.surfaces.cli.progress import RunProgress
from assay.surfaces.cli.remote import RemoteOptions, RemoteRunFollower, remote_of, resume_there, say_left_out, server_options
from assay.surfaces.cli.run_options import (
    RUN,
    OutputOptions,
    charts_option,
    check_charts,
    check_markdown,
    check_mlflow,
    command_line,
    conclude,
    json_option,
    markdown_option,
    mlflow_option,
    runs_dir_option,
    setting_options,
    text_settings,
    write_json,
    write_text,
)
from assay.surfaces.cli.telemetry import (
    TelemetryOptions,
    check_local,
    metrics_file_option,
    open_observers,
    telemetry_of,
    telemetry_options,
)
from assay.surfaces.observers import ObserverGroup

HELP = """Run models on a dataset, grade the answers, and write all artifacts to a folder.

\b
assay run DATASET... --model PROVIDER/MODEL [--judge PROVIDER/MODEL]
assay run RUNFILE

DATASET is a file, a folder of files or a quoted pattern ('data/*.jsonl'), gzipped or not, of any size. A run file (YAML) holds all
settings of a run; options take precedence over it. All problems with the settings are reported together, before any call. Ctrl-C
waits for the calls in flight and leaves a run that can be resumed; a second Ctrl-C stops immediately.

With --server the dataset is sent to a server, which runs it. Progress, report and exit code are the same; the artifacts are fetched
to this machine, and after Ctrl-C the run continues on the server.
"""

EPILOG = """\b
Examples:
  assay run golden.json --model openai/gpt-6-luna --judge openai/gpt-6-sol --pass-rate 0.8 --min-score 3.5
  assay run questions.jsonl --model local/smollm2 --limit 20
  assay run data/ --model openai/gpt-6-luna --judge openai/gpt-6-sol
  assay run answers.json --responses responses.jsonl --judge anthropic/claude-sonnet-5
  assay run questions.jsonl --model openai/gpt-6-luna --grader graders.py:exact
  assay run nightly.yaml --run-id nightly-2026-11-15 --json
  assay run nightly.yaml --run-id build-17 --charts charts --markdown summary.md
  assay run nightly.yaml --mlflow http://localhost:5000
  assay run nightly.yaml --dry-run
  assay run questions.jsonl --model openai/gpt-6-luna --batch --detach
  assay run golden.json --model openai/gpt-6-luna --server https://assay.example.org

\b
Exit codes:
  0    every gate is met, or there is none
  1    a gate was missed
  2    could not run, or nothing could be evaluated
  130  interrupted or cancelled; continue an interrupted run with `assay resume RUN`"""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    sources: tuple[str, ...]
    contract: str
    settings: dict[str, Any]
    """Settings of a run that were given, by their names in a request."""
    detach: bool
    dry_run: bool
    is_json: bool
    junit: str | None
    is_github: bool
    markdown: str | None
    charts: str | None
    mlflow: str | None
    quiet: bool
    verbose: bool
    no_download: bool
    remote: RemoteOptions | None = None
    telemetry: TelemetryOptions = TelemetryOptions()
    placement: RunBackend


_CONTRACT = click.option(
    "--contract",
    metavar="CONTRACT",
    default="",
    help="Contract of the datasets, built-in or custom.  [default: detected by content]",
)
_DETACH = click.option(
    "--detach", is_flag=True, help="With --batch or --engine temporal: submit and exit; assay resume follows the run."
)


@click.command("run", help=HELP, epilog=EPILOG)
@click.argument("sources", nargs=-1, metavar="DATASET...|RUNFILE")
@setting_options(after={"judges": _CONTRACT, "batch_fallback": _DETACH})
@click.option("--dry-run", is_flag=True, help="Check everything and show the plan; call no model.")
@json_option
@junit_option
@github_option
@markdown_option
@charts_option
@mlflow_option
@quiet_option
@verbose_option()
@metrics_file_option
@telemetry_options
@placement_options
@server_options
@click.option("--no-download", is_flag=True, help="With --server: do not fetch the artifacts.")
@click.pass_context
def run_command(context: click.Context, /, **given: Any) -> None:
    """Entry of the command; see HELP."""
    # The default of --runs-dir must not win over the run file; a folder that was named, on the line or in the environment, does.
    if context.get_parameter_source("runs_dir") is click.core.ParameterSource.DEFAULT:
        given["runs_dir"] = None
    remote, telemetry, placement = remote_of(given), telemetry_of(given), placement_of(given)
    if remote is not None:
        check_no_placement(context)
    values = {setting.member: given.pop(setting.member) for setting in run_settings().values() if setting.option}
    # Without its option the run file decides about a setting.
    # click gives every option a value: None, False or an empty tuple where it was not on the line.
    settings = {member: value for member, value in values.items() if value is not None and value is not False and value != ()}
    given |= {"settings": settings, "remote": remote, "telemetry": telemetry, "placement": placement}
    options = msgspec.convert(given, RunOptions)
    context.exit(run(options))


def run(options: RunOptions) -> int:
    """Plan and run what the options name, show it, and say how it went as an exit code."""
    # Before the server is asked, since reports are written on this machine.
    _check_markdown(options)
    if options.remote is not None:
        return _run_there(options, options.remote)
    if options.no_download:
        raise UsageProblem("--no-download is for a server", hint="name one with --server URL")
    check_observed_here(options.telemetry, options.placement)
    planned = api.plan_runs(_request(options))
    _check_batch(options, planned)
    # Settings of MLflow may be in the run file, which is only read by the planning above.
    shown = pushing(_shown(options, planned.runs_dir), planned)
    if options.dry_run:
        _show_plan(planned, options)
        return exits.GATES_PASSED
    if not options.quiet:
        # Notes say what a reader may not expect (a plugin, fields that are not sent); --quiet is for readers who
        # know.
        for note in planned.notes:
            click.echo(f"assay: {printable(note)}", err=True)
        for line in batch_lines(planned):
            click.echo(f"assay: {printable(line)}", err=True)
    with open_observers(options.telemetry) as observers:
        results = run_each(planned, shown, observers, placement=options.placement)
    # Candidates after one that was stopped have no run, and the report lists them as not started.
    waiting = tuple(plan.candidate.name for plan in planned.plans[len(results) :])
    return conclude(results, msgspec.structs.replace(shown, waiting=waiting))


def _show_plan(planned: api.PlannedRuns, options: RunOptions) -> None:
    estimate = api.estimate_cost(planned)
    # Loaded here: a run that is made shows no plan.
    plan = import_module("assay.presentation.subject")
    if options.is_json:
        write_json(plan.plan_document(planned, estimate))
    else:
        report_text = import_module("assay.surfaces.reporters.terminal").report_text
        write_text(report_text([plan.plan_section(planned, estimate)], text_settings()))


def check_observed_here(telemetry: TelemetryOptions, placement: RunBackend) -> None:
    """Raise UsageProblem when the command line asks for telemetry of records that workers evaluate."""
    if placement.temporal is not None:
        check_local(telemetry, "--engine temporal", who="the workers report their records: assay worker")


def _check_batch(options: RunOptions, planned: api.PlannedRuns) -> None:
    """Raise UsageProblem for batch options without batches."""
    for name, is_given in (("--batch-fallback", "batch_fallback" in options.settings), ("--detach", options.detach)):
        # With Temporal --detach hands the run to workers, which needs no batches.
        is_handed_over = name == "--detach" and options.placement.temporal is not None
        if is_given and not is_handed_over and not any(plan.batch for plan in planned.plans):
            raise UsageProblem(f"{name} is for batches", hint="add --batch")


def batch_lines(planned: api.PlannedRuns) -> list[str]:
    """Describe the cost of the batches, before anything is sent."""
    if not any(plan.batch for plan in planned.plans):
        return []
    return [batch_text(model) for model in api.estimate_cost(planned).models if model.batches]


def _shown(options: RunOptions, runs_dir: str) -> OutputOptions:
    return OutputOptions(
        runs_dir=runs_dir,
        is_json=options.is_json,
        is_verbose=options.verbose,
        # Lines of JSON on standard error would be mixed with lines of progress.
        is_quiet=options.quiet or options.telemetry.fills_standard_error,
        markdown=options.markdown,
        pipeline=_pipeline(options),
        charts=options.charts,
        mlflow=options.mlflow,
        is_named=bool(options.settings.get("run_id")),
        is_detached=options.detach,
    )


def pushing(shown: OutputOptions, planned: api.PlannedRuns) -> OutputOptions:
    """Add the MLflow settings of the run file unless an option has them; raises UsageProblem for an invalid address."""
    if shown.mlflow is None and planned.mlflow is not None:
        shown = msgspec.structs.replace(shown, mlflow=planned.mlflow.uri, experiment=planned.mlflow.experiment)
    check_mlflow(shown.mlflow, shown.experiment)
    return shown


def _run_there(options: RunOptions, remote: RemoteOptions) -> int:
    """Run the dataset on a server."""
    check_local(options.telemetry)
    _check_sendable(options)
    request, client = _request(options), remote.client()
    exposed = run_settings()
    sent = {exposed[name].parameter_name: value for name, value in options.settings.items() if exposed[name].parameter}
    taken = client.start(
        str(request.datasets[0]),
        # Checked before: a server runs one candidate.
        model="".join(sent.pop("model", ())),
        # A name for the run is the server's to give; under the same one the same run is found again.
        idempotency_key=request.run_id,
        **sent,
    )
    # Counts of invalid records, which a local run would have said as a note of its plan.
    if not options.quiet:
        say_left_out(taken.summary.rejected_records, taken.summary.total_records)
    shown = _shown(options, str(Path(options.settings.get("runs_dir") or RUNS_DIR).absolute()))
    return RemoteRunFollower(
        remote=remote, client=client, shown=shown, keeps=not options.no_download, records=taken.summary.accepted_records
    ).to_end(taken.run_id)


def _check_sendable(options: RunOptions) -> None:
    """Raise UsageProblem for options that a server does not support."""
    exposed = run_settings()
    local = [exposed[name] for name, value in options.settings.items() if value and not exposed[name].parameter]
    unusable = {
        "a run file": any(map(_is_run_file, options.sources)),
        "several datasets": len(options.sources) > 1,
        "standard input": "-" in options.sources,
        "several candidates": len(options.settings.get("models", ())) > 1,
        "--contract": bool(options.contract),
        # The folder is for the artifacts that are fetched, and the id becomes the idempotency key.
        **{_section_option(setting): setting.member not in ("runs_dir", "run_id") for setting in local},
        "--mlflow": options.mlflow is not None,
        "--dry-run": options.dry_run,
        "--batch": options.detach or any(setting.path[0] == "batch" for setting in local),
        "--no-download with --markdown, which links to the artifacts,": options.no_download and options.markdown is not None,
    }
    # The first of them is enough: the hint holds for all.
    for what in (what for what, is_wanted in unusable.items() if is_wanted):
        hint = "a server takes one dataset and one candidate; leave it out, or run it here, without --server"
        raise UsageProblem(f"{what} cannot be used with --server", hint=hint)


def _section_option(setting: ExposedSetting) -> str:
    """Return the option named in an error; for a batch setting, `--batch`."""
    return "--batch" if setting.path[0] == "batch" else setting.option_name


def _check_markdown(options: RunOptions) -> None:
    if options.markdown is not None and options.dry_run:
        raise UsageProblem("--markdown reports on a run, and --dry-run makes none", hint="leave one of them out")
    check_markdown(options.markdown, _read(options), is_json=options.is_json)
    _pipeline(options)
    check_charts(options.charts)


def _read(options: RunOptions) -> tuple[str, ...]:
    """List the input files, which must not be overwritten."""
    # A report must not replace a file that the run reads.
    return (*options.sources, *filter(None, map(options.settings.get, ("config", "responses"))))


def _pipeline(options: RunOptions) -> PipelineOptions:
    given = {name: getattr(options, name) for name in ("junit", "is_github", "is_json", "markdown")}
    return PipelineOptions.of(given, _read(options))


def _request(options: RunOptions) -> api.RunRequest:
    run_files, datasets = _split_sources(options.sources)
    if len(run_files) > 1:
        raise UsageProblem(f"two run files are named: '{run_files[0]}' and '{run_files[1]}'", hint="run them one after the other")
    # An empty id is a shell variable that was not set; a random id would hide that the run cannot be resumed by
    # name.
    if options.settings.get("run_id") == "":
        raise UsageProblem("--run-id is empty", hint="leave it out for a new id")
    if not options.sources:
        raise UsageProblem("nothing to run", hint="assay run DATASET --model PROVIDER/MODEL, or assay run RUNFILE")
    return api.RunRequest(
        run_file=run_files[0] if run_files else "",
        datasets=tuple(datasets),
        contract=options.contract,
        interface="cli",
        **options.settings,
    )


def _split_sources(sources: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split sources into run files and datasets; an unreadable one counts as a dataset, whose reader reports the reason."""
    run_files: list[str] = []
    datasets: list[str] = []
    # Only the contents tell: both kinds may be YAML.
    for source in sources:
        (run_files if _is_run_file(source) else datasets).append(source)
    return run_files, datasets


def _is_run_file(source: str) -> bool:
    try:
        return source != "-" and api.is_run_file(source)
    except SourceUnreadable:
        return False


def run_each(
    planned: api.PlannedRuns, shown: OutputOptions, observers: ObserverGroup, *, placement: RunBackend = LOCAL_BACKEND
) -> list[RunResult]:
    """Execute the runs in order, up to the first that is stopped."""
    results: list[RunResult] = []
    for plan in planned.plans:
        # One plan at a time: each candidate is a run with its own progress and its own end.
        one = msgspec.structs.replace(planned, plans=(plan,))
        times = f", {plan.repeat} times each" if plan.repeat > 1 else ""
        records = counted(planned.valid_records, "record") + times
        with announced(plan.run_id, f"{records} · {plan.candidate.name}", shown=shown) as progress:
            observers.run_started(plan.run_id)
            results += api.run(
                one,
                watch=progress.watch,
                on_busy=progress.wait_for_other,
                observe=observers.observer,
                takes_signals=True,
                is_detached=shown.is_detached,
                placement=placement,
            )
        observers.run_ended(results[-1])
        # A run that failed can be resumed by itself, so the next candidate is still started; an interruption
        # means all of them.
        if not (results[-1].is_finished or results[-1].is_resumable or shown.is_detached):
            break
    return results


def announced(run_id: str, what: str, *, shown: OutputOptions) -> RunProgress:
    """Create the progress display of a run; outside a terminal it prints the run's id first."""
    # Before anything is planned or called: a log must have the id of a run that dies early.
    progress = RunProgress(run_id, is_quiet=shown.is_quiet, resume=command_line("resume", run_id, shown=shown))
    progress.announce(what)
    return progress


RESUME_HELP = """Resume an interrupted run with the settings that it was started with.

RUN is an id, a unique prefix of an id, `latest`, or the path of a run's folder. Finished records are not repeated, and answers that
were paid for are kept; only missing calls are made. A finished run is shown unchanged. With --server, RUN is the whole id of a run
there; the command follows it to its end and fetches its artifacts.
"""

RESUME_EPILOG = """\b
Examples:
  assay resume latest
  assay resume nightly-2026-11-15 --json
  assay resume run_01J8Q4ER9Z7Y5V5K6F4A1P2M3N --server https://assay.example.org

\b
Exit codes:
  0    every gate is met, or there is none
  1    a gate was missed
  2    could not run, or nothing could be evaluated
  130  interrupted again, or cancelled"""


@click.command("resume", help=RESUME_HELP, epilog=RESUME_EPILOG)
@RUN
@runs_dir_option
@json_option
@junit_option
@github_option
@markdown_option
@charts_option
@quiet_option
@verbose_option()
@mlflow_option
@metrics_file_option
@telemetry_options
@click.option("--store", metavar="ADDRESS", default="", help="Publish the artifacts to this store instead.  [default: the run's]")
@server_options
@click.pass_context
def resume_command(context: click.Context, /, run: str, runs_dir: str, **given: Any) -> None:
    """Entry of the command; see RESUME_HELP."""
    remote, telemetry = remote_of(given), telemetry_of(given)
    if remote is not None:
        # From the environment these settings are for runs made here; on the command line they contradict
        # --server.
        check_local(telemetry)
        if given["store"]:
            raise UsageProblem("--store cannot be used with --server", hint="publish the run when it is here: assay publish")
        if given["mlflow"] is not None:
            raise UsageProblem("--mlflow cannot be used with --server", hint="push the run when it is here: assay mlflow push RUN")
    check_mlflow(given["mlflow"])
    check_markdown(given["markdown"], is_json=given["is_json"])
    check_charts(given["charts"])
    shown = OutputOptions(
        runs_dir=runs_dir,
        is_json=given["is_json"],
        is_verbose=given["verbose"],
        is_quiet=given["quiet"] or telemetry.fills_standard_error,
        markdown=given["markdown"],
        pipeline=PipelineOptions.of(given),
        charts=given["charts"],
        mlflow=given["mlflow"],
    )
    if remote is None:
        context.exit(resume(run, shown, telemetry, placement=RunBackend(store=given["store"])))
    context.exit(resume_there(remote, run, shown=shown))


def resume(run: str, shown: OutputOptions, telemetry: TelemetryOptions, *, placement: RunBackend = LOCAL_BACKEND) -> int:
    """Bring the run to its end and say how it went as an exit code."""
    # Opened first: the counts of a run that is resumed are announced, and a finished one is only shown.
    found = api.open_run(run, runs_dir=shown.runs_dir)
    opened, shown = found.result, msgspec.structs.replace(shown, runs_dir=str(found.folders.runs_dir))
    again = command_line("resume", opened.run_id, shown=shown)
    with open_observers(telemetry) as observers, RunProgress(opened.run_id, is_quiet=shown.is_quiet, resume=again) as progress:
        if not opened.is_finished:
            progress.announce(f"{opened.counts.total_records:,} records · {opened.candidate}")
        observers.run_started(opened.run_id)
        result = api.resume(
            opened.run_id,
            runs_dir=shown.runs_dir,
            watch=progress.watch,
            on_busy=progress.wait_for_other,
            observe=observers.observer,
            takes_signals=True,
            placement=placement,
        )
        observers.run_ended(result)
    return conclude([result], shown)
