"""`assay run`: a dataset and models, or a run file, into runs with sealed evidence, a report and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from assay import api
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.plan import ProfileId
from assay.core.run_backend import LOCAL_BACKEND, RUNS_DIR, RunBackend
from assay.core.run_result import RunResult
from assay.presentation.words import batch_text, counted
from assay.surfaces.cli import exits
from assay.surfaces.cli.chart_files import charts_option, check_charts
from assay.surfaces.cli.numbers import Number
from assay.surfaces.cli.pipeline import PipelineOptions, github_option, junit_option
from assay.surfaces.cli.placement import check_no_placement, placement_of, placement_options
from assay.surfaces.cli.progress import RunProgress
from assay.surfaces.cli.remote import RemoteOptions, RemoteRunFollower, remote_of, say_left_out, server_options
from assay.surfaces.cli.run_options import (
    OutputOptions,
    check_markdown,
    check_mlflow,
    command_line,
    compat_option,
    conclude,
    json_option,
    markdown_option,
    mlflow_option,
    profile_option,
    runs_dir_option,
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
from assay.surfaces.cli.words import WordChoice
from assay.surfaces.printable import printable
from assay.surfaces.telemetry.observers import ObserverGroup

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
  assay run golden.json --model openai/gpt-5-mini --judge openai/gpt-5 --pass-rate 0.8 --min-score 3.5
  assay run questions.jsonl --model local/smollm2 --limit 20
  assay run data/ --model openai/gpt-5-mini --judge openai/gpt-5
  assay run answers.json --responses responses.jsonl --judge anthropic/claude-sonnet-4-5
  assay run questions.jsonl --model openai/gpt-5-mini --grader graders.py:exact
  assay run nightly.yaml --run-id nightly-2026-11-15 --json
  assay run nightly.yaml --run-id build-17 --charts charts --markdown summary.md
  assay run nightly.yaml --mlflow http://localhost:5000
  assay run nightly.yaml --dry-run
  assay run questions.jsonl --model openai/gpt-5-mini --batch --detach
  assay run golden.json --model openai/gpt-5-mini --server https://assay.example.org

\b
Exit codes:
  0    every gate is met, or there is none
  1    a gate was missed
  2    could not run, or nothing could be evaluated
  130  interrupted or cancelled; continue an interrupted run with `assay resume RUN`"""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command's arguments as given."""

    sources: tuple[str, ...]
    contract: str
    model: tuple[str, ...]
    judge: tuple[str, ...]
    grader: str
    policy: str
    responses: str | None
    runs_dir: str | None
    run_id: str | None
    concurrency: int | None
    record: tuple[str, ...]
    limit: int | None
    sample: int | None
    seed: int | None
    repeat: int | None
    quorum: int | None
    escalate: bool
    batch: bool
    batch_fallback: Literal["live", "fail"] | None
    detach: bool
    max_cost: float | None
    on_invalid: Literal["reject", "skip"] | None
    allow_size: bool
    null_as_absent: bool
    config: str
    profile: ProfileId | None
    compat: bool
    pass_rate: float | None
    min_score: float | None
    max_error_rate: float | None
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


_SENT = ("concurrency", "limit", "sample", "seed", "repeat", "quorum", "max_cost", "on_invalid")
_GATES = ("pass_rate", "min_score", "max_error_rate")
"""Options that have the same name in a request, here and on a server."""
_RATE = Number(0, 1)
_COUNT = click.IntRange(min=1)


@click.command("run", help=HELP, epilog=EPILOG)
@click.argument("sources", nargs=-1, metavar="DATASET...|RUNFILE")
@click.option("--model", multiple=True, metavar="PROVIDER/MODEL", help="Candidate model; repeat for several.")
@click.option("--judge", multiple=True, metavar="PROVIDER/MODEL", help="Judge model; repeat for a panel that votes.")
@click.option(
    "--contract",
    metavar="CONTRACT",
    default="",
    help="Contract of the datasets, built-in or custom.  [default: detected by content]",
)
@click.option("--grader", metavar="NAME", default="", help="Custom grader: a plugin, module:function or file.py:function.")
@click.option("--policy", metavar="NAME", default="", help="Custom policy: a plugin, module:function or file.py:function.")
@click.option("--responses", metavar="FILE", help="Grade the answers in this file or earlier run's folder; call no candidate.")
@runs_dir_option
@click.option("--run-id", metavar="ID", help="Run id; an unfinished run with the same id and settings is resumed.")
@click.option("--concurrency", type=_COUNT, metavar="N", help="Maximum concurrent calls.  [default: 32]")
@click.option("--record", multiple=True, metavar="ID", help="Use only the record with this id; repeat for several.")
@click.option("--limit", type=_COUNT, metavar="N", help="Use the first N records.")
@click.option("--sample", type=_COUNT, metavar="N", help="Use a random sample of N records, the same for the same seed.")
@click.option("--seed", type=int, metavar="S", help="Seed of the sample and of resampled intervals.  [default: 0]")
@click.option("--repeat", type=click.IntRange(1, 1_000), metavar="K", help="Answers per record, for pass@k and pass^k.")
@click.option("--quorum", type=_COUNT, metavar="N", help="Votes that a record needs for a score.  [default: all judges]")
@click.option("--escalate", is_flag=True, help="Call the first judge, and the others only if it is unsure.")
@click.option("--batch", is_flag=True, help="Call the candidate through its provider's batch API: half the price, within 24 hours.")
@click.option(
    "--batch-fallback",
    type=WordChoice(("live", "fail")),
    help="With --batch: repeat unanswered requests as single calls at full price, or end in an error.  [default: live]",
)
@click.option("--detach", is_flag=True, help="With --batch or --engine temporal: submit and exit; assay resume follows the run.")
@click.option("--max-cost", type=Number(min=0), metavar="X", help="Budget in US dollars; no new call is made beyond it.")
@click.option(
    "--on-invalid",
    type=WordChoice(("reject", "skip")),
    help="Invalid records: do not start, or evaluate the valid ones.  [default: skip for batch_v1, else reject]",
)
@click.option("--allow-size", is_flag=True, help="Accept golden datasets with fewer than 5 or more than 20 cases.")
@click.option("--null-as-absent", is_flag=True, help="Treat null in optional and forbidden fields as absent.")
@click.option("--config", metavar="FILE", default="", help="Validation settings, as for assay validate --config.")
@profile_option
@compat_option
@click.option("--pass-rate", type=_RATE, metavar="X", help="Gate: minimum pass rate of graded records.")
@click.option(
    "--min-score",
    type=Number(0, 100),
    metavar="X",
    help="Gate: minimum mean score on the dataset's scale; with --profile, its headline.",
)
@click.option("--max-error-rate", type=_RATE, metavar="X", help="Gate: maximum share of records without a score.")
@click.option("--dry-run", is_flag=True, help="Check everything and show the plan; call no model.")
@json_option
@junit_option
@github_option
@markdown_option
@charts_option
@mlflow_option
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@click.option("-v", "--verbose", is_flag=True, help="List every record with its score and reason.")
@metrics_file_option
@telemetry_options
@placement_options
@server_options
@click.option("--no-download", is_flag=True, help="With --server: do not fetch the artifacts.")
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Entry of the command; see HELP."""
    # The default of --runs-dir must not win over the run file; a folder that was named, on the line or in the environment, does.
    if context.get_parameter_source("runs_dir") is click.core.ParameterSource.DEFAULT:
        given["runs_dir"] = None
    remote, telemetry, placement = remote_of(given), telemetry_of(given), placement_of(given)
    if remote is not None:
        check_no_placement(context)
    given |= {"remote": remote, "telemetry": telemetry, "placement": placement}
    options = msgspec.convert(given, RunOptions)
    context.exit(run(options))


def run(options: RunOptions) -> int:
    """Plan and run what the options name, show it, and say how it went as an exit code."""
    _check_markdown(options)
    if options.remote is not None:
        return _run_there(options, options.remote)
    if options.no_download:
        raise UsageProblem("--no-download is for a server", hint="name one with --server URL")
    check_told_here(options.telemetry, options.placement)
    planned = api.plan_runs(_request(options))
    _check_batch(options, planned)
    shown = pushing(_shown(options, planned.runs_dir), planned)
    if options.dry_run:
        _show_plan(planned, options)
        return exits.GATES_PASSED
    if not options.quiet:
        for note in planned.notes:
            click.echo(f"assay: {printable(note)}", err=True)
        for line in batch_lines(planned):
            click.echo(f"assay: {printable(line)}", err=True)
    with open_observers(options.telemetry) as tellers:
        results = run_each(planned, shown, tellers, placement=options.placement)
    waiting = tuple(plan.candidate.name for plan in planned.plans[len(results) :])
    return conclude(results, msgspec.structs.replace(shown, waiting=waiting))


def _show_plan(planned: api.PlannedRuns, options: RunOptions) -> None:
    estimate = api.estimate_cost(planned)
    # Loaded here: a run that is made shows no plan.
    plan = import_module("assay.presentation.run_plan")
    if options.is_json:
        write_json(plan.plan_document(planned, estimate))
    else:
        write_text(
            import_module("assay.surfaces.reporters.run_text").plan_text(
                planned, estimate, text_settings(is_verbose=options.verbose)
            )
        )


def check_told_here(telemetry: TelemetryOptions, placement: RunBackend) -> None:
    """Raises UsageProblem when the command line asks for telemetry of records that workers evaluate."""
    if placement.temporal is not None:
        check_local(telemetry, "--engine temporal", who="the workers report their records: assay worker")


def _check_batch(options: RunOptions, planned: api.PlannedRuns) -> None:
    """Raises UsageProblem for options that are about batches, where there are none."""
    for name, is_given in (("--batch-fallback", options.batch_fallback), ("--detach", options.detach)):
        is_handed_over = name == "--detach" and options.placement.temporal is not None
        if is_given and not is_handed_over and not any(plan.batch for plan in planned.plans):
            raise UsageProblem(f"{name} is for batches", hint="add --batch")


def batch_lines(planned: api.PlannedRuns) -> list[str]:
    """What batches would cost, before anything is sent."""
    if not any(plan.batch for plan in planned.plans):
        return []
    return [batch_text(model) for model in api.estimate_cost(planned).models if model.batches]


def _shown(options: RunOptions, runs_dir: str) -> OutputOptions:
    return OutputOptions(
        runs_dir=runs_dir,
        is_json=options.is_json,
        is_verbose=options.verbose,
        is_quiet=options.quiet or options.telemetry.fills_standard_error,
        markdown=options.markdown,
        pipeline=_pipeline(options),
        charts=options.charts,
        mlflow=options.mlflow,
        is_named=bool(options.run_id),
        is_detached=options.detach,
    )


def pushing(shown: OutputOptions, planned: api.PlannedRuns) -> OutputOptions:
    """With what the run file says of MLflow, unless an option says otherwise; raises UsageProblem for what is no address of it."""
    if shown.mlflow is None and planned.mlflow is not None:
        shown = msgspec.structs.replace(shown, mlflow=planned.mlflow.uri, experiment=planned.mlflow.experiment)
    check_mlflow(shown.mlflow, shown.experiment)
    return shown


def _run_there(options: RunOptions, remote: RemoteOptions) -> int:
    """The same on a server."""
    check_local(options.telemetry)
    _check_sendable(options)
    request, client = _request(options), remote.client()
    switches = ("profile", "compat", "escalate", "allow_size", "null_as_absent")
    settings = {name: getattr(request, name) for name in (*_SENT, *_GATES, *switches)}
    taken = client.start(
        str(request.datasets[0]),
        model="".join(options.model),
        judge=options.judge,
        # A name for the run is the server's to give; under the same one the same run is found again.
        idempotency_key=request.run_id,
        **settings,
    )
    if not options.quiet:
        say_left_out(taken.summary.rejected_records, taken.summary.total_records)
    shown = _shown(options, str(Path(options.runs_dir or RUNS_DIR).absolute()))
    return RemoteRunFollower(
        remote=remote, client=client, shown=shown, keeps=not options.no_download, records=taken.summary.accepted_records
    ).to_end(taken.run_id)


def _check_sendable(options: RunOptions) -> None:
    """Raises UsageProblem for what a server cannot be asked for."""
    unusable = {
        "a run file": any(map(_is_run_file, options.sources)),
        "several datasets": len(options.sources) > 1,
        "standard input": "-" in options.sources,
        "several candidates": len(options.model) > 1,
        "--contract": bool(options.contract),
        "--grader": bool(options.grader),
        "--policy": bool(options.policy),
        "--responses": bool(options.responses),
        "--record": bool(options.record),
        "--mlflow": options.mlflow is not None,
        "--config": bool(options.config),
        "--dry-run": options.dry_run,
        "--batch": options.batch or options.detach or bool(options.batch_fallback),
        "--no-download with --markdown, which links to the artifacts,": options.no_download and options.markdown is not None,
    }
    for what in (what for what, is_wanted in unusable.items() if is_wanted):
        hint = "a server takes one dataset and one candidate; leave it out, or run it here, without --server"
        raise UsageProblem(f"{what} cannot be used with --server", hint=hint)


def _check_markdown(options: RunOptions) -> None:
    if options.markdown is not None and options.dry_run:
        raise UsageProblem("--markdown reports on a run, and --dry-run makes none", hint="leave one of them out")
    check_markdown(options.markdown, _read(options), is_json=options.is_json)
    _pipeline(options)
    check_charts(options.charts)


def _read(options: RunOptions) -> tuple[str, ...]:
    """What must not be written over."""
    return (*options.sources, *filter(None, (options.config, options.responses)))


def _pipeline(options: RunOptions) -> PipelineOptions:
    given = {name: getattr(options, name) for name in ("junit", "is_github", "is_json", "markdown")}
    return PipelineOptions.of(given, _read(options))


def _request(options: RunOptions) -> api.RunRequest:
    run_files, datasets = _told_apart(options.sources)
    if len(run_files) > 1:
        raise UsageProblem(f"two run files are named: '{run_files[0]}' and '{run_files[1]}'", hint="run them one after the other")
    if options.run_id == "":
        raise UsageProblem("--run-id is empty", hint="leave it out for a new id")
    if not options.sources:
        raise UsageProblem("nothing to run", hint="assay run DATASET --model PROVIDER/MODEL, or assay run RUNFILE")
    same = {name: getattr(options, name) for name in (*_SENT, *_GATES)}
    # Without the option the run file decides.
    compat = True if options.compat else None
    return api.RunRequest(
        run_file=run_files[0] if run_files else "",
        datasets=tuple(datasets),
        contract=options.contract,
        models=options.model,
        judges=options.judge,
        grader=options.grader,
        policy=options.policy,
        responses=options.responses or "",
        runs_dir=options.runs_dir or "",
        run_id=options.run_id or "",
        records=options.record,
        profile=options.profile,
        compat=compat,
        escalate=options.escalate or None,
        allow_size=options.allow_size or None,
        null_as_absent=options.null_as_absent or None,
        interface="cli",
        batch=options.batch or None,
        batch_fallback=options.batch_fallback,
        config=options.config,
        **same,
    )


def _told_apart(sources: Sequence[str]) -> tuple[list[str], list[str]]:
    """Run files and datasets; a source that cannot be read counts as a dataset, whose reader says why."""
    run_files: list[str] = []
    datasets: list[str] = []
    for source in sources:
        (run_files if _is_run_file(source) else datasets).append(source)
    return run_files, datasets


def _is_run_file(source: str) -> bool:
    try:
        return source != "-" and api.is_run_file(source)
    except SourceUnreadable:
        return False


def run_each(
    planned: api.PlannedRuns, shown: OutputOptions, tellers: ObserverGroup, *, placement: RunBackend = LOCAL_BACKEND
) -> list[RunResult]:
    """One run after the other; the first that is stopped is the last."""
    results: list[RunResult] = []
    for plan in planned.plans:
        one = msgspec.structs.replace(planned, plans=(plan,))
        times = f", {plan.repeat} times each" if plan.repeat > 1 else ""
        records = counted(planned.valid_records, "record") + times
        with announced(plan.run_id, f"{records} · {plan.candidate.name}", shown=shown) as progress:
            tellers.run_started(plan.run_id)
            results += api.run(
                one,
                watch=progress.watch,
                on_busy=progress.wait_for_other,
                observe=tellers.observer,
                takes_signals=True,
                is_detached=shown.is_detached,
                placement=placement,
            )
        tellers.run_ended(results[-1])
        if not (results[-1].is_finished or results[-1].is_resumable or shown.is_detached):
            break
    return results


def announced(run_id: str, what: str, *, shown: OutputOptions) -> RunProgress:
    """The display of a run that is about to start; where it is no terminal, a line names the run before anything happens."""
    progress = RunProgress(run_id, is_quiet=shown.is_quiet, resume=command_line("resume", run_id, shown=shown))
    progress.announce(what)
    return progress
