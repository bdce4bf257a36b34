"""`assay compare`, `gate`, `baseline`, `trend`, `audit`: finished runs compared and decided about."""

from __future__ import annotations

from typing import Any, Literal, cast

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.core.settings import Gates, named_rates, run_settings
from assay.core.text import printable
from assay.presentation.comparison import comparison_sections, group_comparison_sections, group_gate_sections, verdict_facts
from assay.presentation.decisions import gated_run, problem_run
from assay.presentation.run_list import trend_chart, trend_sections
from assay.presentation.sections import Column, Section
from assay.presentation.words import gate_word
from assay.surfaces.charts import draw
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import (
    Number,
    WordChoice,
    chart_option,
    cluster_option,
    number_or_all,
    setting_option,
    slice_names,
    slices_option,
    verbose_option,
)
from assay.surfaces.cli.pipeline import PipelineOptions, append_summary, github_option, junit_option, write_checks
from assay.surfaces.cli.run_options import (
    RUN,
    RUN_OR_GROUP,
    OutputOptions,
    check_markdown,
    command_line,
    json_option,
    markdown_option,
    runs_dir_option,
    say_empty,
    text_settings,
    write_json,
    write_markdown,
    write_text,
)
from assay.surfaces.cli.streams import check_writable, write_file
from assay.surfaces.reporters.comments import comparison_markdown, group_comparison_markdown, group_gate_markdown, verdict_markdown
from assay.surfaces.reporters.terminal import painter, report_text, table

COMPARE_HELP = """Compare two finished runs, or the runs of a group with each other, and test the differences.

Records are matched by id and contents; those that changed, are missing, or have no grade in one of the runs are listed and not
compared. The difference has a 95 % interval, which decides, and the p value of the same test. McNemar's exact test, which is more
conservative, is shown too. The p values of slices are corrected for multiple tests (Holm). BEFORE and AFTER are ids, unique
prefixes of ids, `latest`, or paths of folders.

A group alone is compared pair by pair; two groups are compared by candidate, a run and a group run by run. Their p values are
corrected for the number of pairs (Holm).
"""

COMPARE_EPILOG = """\b
Examples:
  assay compare nightly-14 nightly-15
  assay compare build-18
  assay compare baseline latest --slices tags,dataset --cluster source
  assay compare baseline latest --markdown comment.md

\b
Exit codes:
  0  compared, for any result; `assay gate` decides
  2  could not run: no such run, it is unfinished, or the runs have no record in common"""


DEFAULT_FLIPS = "10"
"""Flips of one pair of runs that are shown."""


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    before: str
    after: str | None
    runs_dir: str
    cluster: str | None
    slices: str | None
    flips: str | None
    is_json: bool
    is_github: bool
    markdown: str | None
    verbose: bool


@click.command("compare", help=COMPARE_HELP, epilog=COMPARE_EPILOG)
@click.argument("before", metavar="BEFORE|GROUP")
@click.argument("after", metavar="[AFTER]", required=False)
@runs_dir_option
@cluster_option
@slices_option("Slices to compare")
@click.option(
    "--flips",
    metavar="N|all",
    help="Flips to show, with both answers and judgments.  [default: 10; of each pair of a group none]",
)
@json_option
@github_option
@markdown_option
@verbose_option("Show all slices and full texts.")
@click.pass_context
def compare_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    show_comparison(msgspec.convert(given, CompareOptions))
    context.exit(exits.VALID)


def show_comparison(options: CompareOptions) -> None:
    """Compare, and show it in the way that was asked for."""
    check_markdown(options.markdown, is_json=options.is_json)
    # Before the comparison is computed: a wrong pair of options should not cost its time.
    names = slice_names(options.slices)
    before = api.open_group(options.before, runs_dir=options.runs_dir)
    after = None if options.after is None else api.open_group(options.after, runs_dir=options.runs_dir)
    if after is None or before.is_several or after.is_several:
        _compare_group(before, after, options, names)
        return
    found = api.compare(
        options.before,
        options.after or "",
        runs_dir=options.runs_dir,
        cluster=options.cluster,
        slices=names,
        max_flips=number_or_all(options.flips or DEFAULT_FLIPS, option="--flips"),
    )
    if options.is_json:
        write_json(found.to_dict())
    _write_pair(found, options)


def _write_pair(found: api.RunComparison, options: CompareOptions) -> None:
    if options.markdown is not None:
        write_markdown(comparison_markdown(found, is_verbose=options.verbose), options.markdown)
    elif not options.is_json:
        shown = OutputOptions(runs_dir=options.runs_dir)
        # One command is enough to show what a reader can do with a flip.
        commands = [command_line("show", found.after.run_id, flip.record_id, shown=shown) for flip in found.flips[:1]]
        sections = comparison_sections(found, is_verbose=options.verbose, commands=commands)
        write_text(PipelineOptions(is_github=options.is_github).guarded(report_text(sections, text_settings())))
    if options.is_github:
        append_summary(comparison_markdown(found, is_verbose=options.verbose))


def _compare_group(
    before: api.RunGroup, after: api.RunGroup | None, options: CompareOptions, names: tuple[str, ...] | None
) -> None:
    """Compare runs in pairs, and show it in the way that was asked for."""
    # A group of two is one pair, which is shown as two runs are.
    is_pair = after is None and len(before.runs) == len(("before", "after"))
    flips = number_or_all(options.flips or (DEFAULT_FLIPS if is_pair else "0"), option="--flips")
    slices = names if is_pair or names is not None else ()
    found = api.compare_runs(before, after, cluster=options.cluster, slices=slices, max_flips=flips)
    if options.is_json:
        write_json(found.to_dict())
    if is_pair:
        _write_pair(found.pairs[0].comparison, options)
    else:
        _write_pairs(found, options)


def _write_pairs(found: api.GroupComparison, options: CompareOptions) -> None:
    if options.markdown is not None:
        write_markdown(group_comparison_markdown(found), options.markdown)
    elif not options.is_json:
        shown = OutputOptions(runs_dir=options.runs_dir)
        # A pair by itself shows its slices and the records that changed sides.
        sides = [(pair.comparison.before.run_id, pair.comparison.after.run_id) for pair in found.pairs[:1]]
        sections = group_comparison_sections(found, commands=[command_line("compare", *pair, shown=shown) for pair in sides])
        write_text(PipelineOptions(is_github=options.is_github).guarded(report_text(sections, text_settings())))
    if options.is_github:
        append_summary(group_comparison_markdown(found))


GATE_HELP = """Check a finished run, or each run of a group, against thresholds and a baseline, and report every reason.

Options replace the thresholds that the run was started with. The baseline (by default that of the run's dataset, see `assay
baseline`) is compared record by record. `--mode absolute` misses on a significant loss; `superiority` requires a significant gain;
`non-inferiority` requires that a loss of more than `--delta` is excluded. A group as the baseline means its run of the same
candidate. The audit log records every decision.
"""

GATE_EPILOG = """\b
Examples:
  assay gate latest
  assay gate latest --baseline nightly-14 --mode non-inferiority --delta 0.02
  assay gate latest --pass-rate 0.8 --max-error-rate 0.02 --baseline none
  assay gate build-18 --baseline build-17

\b
Exit codes:
  0  the gate is met, by every run of a group
  1  a gate is missed: a threshold, a significant loss, or a requirement that is not shown to be met
  2  could not run: no such run or baseline, a run is unfinished or was changed, or nothing can be compared"""


class GateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    run: str
    runs_dir: str
    baseline: str
    mode: str
    delta: float | None
    measure: str
    cluster: str | None
    gates: Gates
    is_json: bool
    junit: str | None
    is_github: bool
    markdown: str | None


_NAMED_GATES = {"checks": "check_gates", "graders": "grader_gates"}
"""Gates by name, with the settings of their options."""


@click.command("gate", help=GATE_HELP, epilog=GATE_EPILOG)
@RUN_OR_GROUP
@runs_dir_option
@click.option(
    "--baseline", metavar="NAME|RUN|GROUP|previous|none", default="", help="Baseline to compare with.  [default: its dataset's]"
)
@click.option(
    "--mode",
    type=WordChoice(("absolute", "superiority", "non-inferiority")),
    default="absolute",
    show_default=True,
    help="What the comparison must show.",
)
@click.option("--delta", type=Number(min=0), metavar="D", help="Acceptable loss, for non-inferiority.")
@click.option(
    "--measure", type=WordChoice(("pass_rate", "score")), default="pass_rate", show_default=True, help="What is compared."
)
@cluster_option
@setting_option("pass_rate", help="Minimum pass rate of graded records.")
@setting_option("min_score", help="Minimum mean score on the dataset's scale, or headline of the profile.")
@setting_option("max_error_rate", help="Maximum share of records with an error or cancelled.")
@setting_option("max_truncated", help="Maximum share of answers cut off at the output limit.")
@setting_option("min_tool_calls", help="Minimum share of expected tool calls that are made right.")
@setting_option("check_gates", help="Minimum pass rate of a check; repeat for several.")
@setting_option("grader_gates", help="Minimum pass rate of a grader; repeat for several.")
@json_option
@junit_option
@github_option
@markdown_option
@click.pass_context
def gate_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    rates = {name: _rates(option, cast("tuple[str, ...]", given.pop(option))) for name, option in _NAMED_GATES.items()}
    gates = {**{name: given.pop(name) for name in Gates.__struct_fields__ if name not in rates}, **rates}
    context.exit(decide(msgspec.convert({**given, "gates": gates}, GateOptions)))


def _rates(option: str, texts: tuple[str, ...]) -> dict[str, object]:
    """Return the thresholds of an option such as `--check-gate exact=0.9`; raises UsageProblem."""
    found = named_rates(texts)
    for name, rate in found.items():
        if not isinstance(rate, float) or not 0 <= rate <= 1:
            shown = run_settings()[option].option_name
            raise UsageProblem(f"{shown} '{name}' needs a pass rate from 0 to 1", hint=f"write {shown} {name}=0.9")
    return found


def decide(options: GateOptions) -> int:
    """Decide, show it, and say it as an exit code."""
    check_markdown(options.markdown, is_json=options.is_json)
    pipeline = PipelineOptions.of(msgspec.structs.asdict(options))
    # Without a threshold those of the plan count.
    gates = None if options.gates == Gates() else options.gates
    demand = msgspec.convert(
        # Through `convert`, which turns the words of the options into the types of the gate and checks them.
        {"mode": options.mode, "delta": options.delta, "measure": options.measure, "gates": gates},
        api.GateSpec,
    )
    group = api.open_group(options.run, runs_dir=options.runs_dir)
    if group.is_several:
        return _decide_group(group, demand, options, pipeline)
    verdict = api.gate(options.run, demand, runs_dir=options.runs_dir, baseline=options.baseline, cluster=options.cluster)
    try:
        _write_result(verdict, options, pipeline)
    except OSError as problem:
        # The decision is in the audit log by now: what failed is the report alone, and the message says so.
        kept = f"{gate_word(passed=verdict.passed)} is decided, and in the audit log"
        return exits.complain_of_report(problem, kept=[kept], again="give the same command again")
    return exits.GATES_PASSED if verdict.passed else exits.GATE_FAILED


def _write_result(verdict: api.GateDecision, options: GateOptions, pipeline: PipelineOptions) -> None:
    if options.is_json:
        write_json(verdict.to_dict())
    if options.markdown is not None:
        write_markdown(verdict_markdown(verdict), options.markdown)
    elif not options.is_json:
        write_text(pipeline.guarded(report_text([Section(facts=tuple(verdict_facts(verdict)))], text_settings())))
    if pipeline.is_wanted:
        run = api.open_run(options.run, runs_dir=options.runs_dir)
        write_checks(pipeline, [gated_run(run, verdict)], summary=lambda: verdict_markdown(verdict))


def _decide_group(group: api.RunGroup, demand: api.GateSpec, options: GateOptions, pipeline: PipelineOptions) -> int:
    """Decide about each run of a group, show it, and say it as an exit code."""
    found = api.gate_group(group, demand, baseline=options.baseline, cluster=options.cluster)
    try:
        _write_group(group, found, options, pipeline)
    except OSError as problem:
        kept = f"{gate_word(passed=found.passed)} is decided, and in the audit log"
        return exits.complain_of_report(problem, kept=[kept], again="give the same command again")
    # A run without a decision is no missed gate.
    if not found.is_decided:
        return exits.COULD_NOT_RUN
    return exits.GATES_PASSED if found.passed else exits.GATE_FAILED


def _write_group(group: api.RunGroup, found: api.GroupDecision, options: GateOptions, pipeline: PipelineOptions) -> None:
    if options.is_json:
        write_json(found.to_dict())
    if options.markdown is not None:
        write_markdown(group_gate_markdown(found), options.markdown)
    elif not options.is_json:
        write_text(pipeline.guarded(report_text(group_gate_sections(found), text_settings())))
    if pipeline.is_wanted:
        runs = [
            problem_run(run, one.problem) if one.verdict is None else gated_run(run, one.verdict)
            for run, one in zip(group.runs, found.runs, strict=True)
        ]
        write_checks(pipeline, runs, summary=lambda: group_gate_markdown(found))


BASELINE_HELP = """Set the baseline run that other runs are compared with, or show it.

A baseline has a name, by default the id of its dataset, so that `assay gate` finds it. The audit log records who set it, when and
why; the run itself does not change.
"""

BASELINE_EPILOG = """\b
Examples:
  assay baseline set nightly-14 --reason "release 2.3"
  assay baseline show

\b
Exit codes:
  0  done
  2  could not run: no such run, it is unfinished, or it evaluated nothing"""


@click.group("baseline", help=BASELINE_HELP, epilog=BASELINE_EPILOG)
def baseline_command() -> None:
    """Entry of the command; see HELP."""


@baseline_command.command("set")
@RUN
@click.option("--name", default="", metavar="NAME", help="Name of the baseline.  [default: the id of the run's dataset]")
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the audit log.")
@runs_dir_option
@json_option
@click.pass_context
def set_baseline(context: click.Context, /, run: str, *, name: str, reason: str, runs_dir: str, is_json: bool) -> None:
    """Measure later runs against RUN."""
    baseline = api.set_baseline(run, runs_dir=runs_dir, name=name, reason=reason)
    if is_json:
        write_json(msgspec.to_builtins(baseline))
    else:
        write_text([f"{printable(baseline.run_id)} is now the baseline '{printable(baseline.name)}'\n"])
    context.exit(exits.VALID)


@baseline_command.command("show")
@runs_dir_option
@json_option
@click.pass_context
def show_baselines(context: click.Context, /, *, runs_dir: str, is_json: bool) -> None:
    """List the baselines."""
    found = api.list_baselines(runs_dir)
    if is_json:
        write_json({"baselines": msgspec.to_builtins(found)})
    else:
        if not found:
            write_text(["0 baselines\n"])
            say_empty(runs_dir, "assay baseline set RUN chooses one")
            context.exit(exits.VALID)
        settings = text_settings()
        # Names and reasons come from other people, so control characters are shown and not sent to the terminal.
        rows = [[printable(text, limit=60) for text in (one.name, one.run_id, one.at, one.by, one.reason)] for one in found]
        columns = [Column(title) for title in ("baseline", "run", "since", "by", "why")]
        write_text(table(columns, rows, paint=painter(is_coloured=settings.is_coloured), width=settings.width))
    context.exit(exits.VALID)


TREND_HELP = """Show the complete runs of a candidate on a dataset over time, and the trend that a test supports.

A direction is shown only if the exact Mann-Kendall test is significant at 5 %, which takes at least five runs. `--dataset` and
`--candidate` default to those of the newest run. Runs on other contents of the dataset, rescored runs and retries are left out and
counted.
"""

TREND_EPILOG = """\b
Examples:
  assay trend
  assay trend --dataset assistant --last 20 --chart trend.svg

\b
Exit codes:
  0  shown, for any direction
  2  could not run: no finished run over that dataset"""


class TrendOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    runs_dir: str
    dataset: str
    candidate: str
    any_version: bool
    last: int | None
    measure: Literal["pass_rate", "score"]
    chart: str | None
    is_json: bool


@click.command("trend", help=TREND_HELP, epilog=TREND_EPILOG)
@runs_dir_option
@click.option("--dataset", default="", metavar="ID", help="The dataset.  [default: that of the newest run]")
@click.option("--candidate", default="", metavar="NAME", help="The candidate.  [default: that of the newest run]")
@click.option("--any-version", is_flag=True, help="Include runs on other contents of the dataset.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N runs.")
@click.option("--measure", type=WordChoice(("pass_rate", "score")), default="pass_rate", show_default=True, help="Metric to show.")
@chart_option("Draw it as an SVG file.")
@json_option
@click.pass_context
def trend_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    show_trend(msgspec.convert(given, TrendOptions))
    context.exit(exits.VALID)


def show_trend(options: TrendOptions) -> None:
    """Compute the trend and write it in the chosen format."""
    chart = options.chart
    if chart is not None:
        check_writable(chart, option="--chart")
    found = api.trend(
        runs_dir=options.runs_dir,
        dataset=options.dataset,
        candidate=options.candidate,
        last=options.last,
        measure=options.measure,
        is_any_version=options.any_version,
    )
    if chart is not None:
        write_file(chart, [draw(trend_chart(found)).encode()])
    if options.is_json:
        write_json(found.to_dict())
    else:
        write_text(report_text(trend_sections(found, chart=chart or ""), text_settings()))


AUDIT_HELP = """Show the audit log of a folder of runs, the oldest entry first: baselines, gates and suites, and what clients of
a server submitted, cancelled and resumed.

The log is a separate file next to the runs. Each line has the hash of the line before it, so that a changed, deleted or moved line
is detected.
"""

AUDIT_EPILOG = """\b
Examples:
  assay audit
  assay audit --json

\b
Exit codes:
  0  listed
  2  could not run: the log was changed after it was written"""


@click.command("audit", help=AUDIT_HELP, epilog=AUDIT_EPILOG)
@runs_dir_option
@json_option
@click.pass_context
def audit_command(context: click.Context, /, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    entries = api.audit(runs_dir)
    if is_json:
        write_json({"entries": entries})
    else:
        settings = text_settings()
        if not entries:
            write_text(["0 decisions\n"])
            say_empty(runs_dir, "assay gate, assay suite, assay baseline set and assay serve write here")
            context.exit(exits.VALID)
        columns = [Column(title) for title in ("at", "by", "action", "run", "what")]
        rows = [[printable(text, limit=120) for text in _cells(entry)] for entry in entries]
        write_text(table(columns, rows, paint=painter(is_coloured=settings.is_coloured), width=settings.width))
    # Entries of later versions have actions that this one does not know.
    context.exit(exits.VALID)


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    action = entry["action"]
    if action == "baseline_set":
        what = f"baseline '{entry['name']}'" + (f": {entry['reason']}" if entry["reason"] else "")
    elif action == "gate":
        reasons = "; ".join(finding["reason"] for finding in entry.get("reasons", ()))
        what = f"{gate_word(passed=entry['passed'])}: {reasons}"
    elif action == "suite":
        what = f"{gate_word(passed=entry['passed'])}: {', '.join(entry['runs'])}"
    elif action == "run_submitted":
        what = f"at the server, dataset {entry['dataset_sha256'][:12]}"
    elif action == "mlflow_pushed":
        what = f"to {entry['uri']}, run {entry['mlflow_run_id']}"
    elif action in ("run_cancelled", "run_resumed"):
        what = "at the server"
    else:
        what = entry.get("reason") or entry.get("key", "")
    return (entry["at"], entry.get("by", ""), action.replace("_", " "), entry.get("run_id", ""), what)
