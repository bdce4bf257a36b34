"""`assay probe`, `calibrate`, `label`, `judge try`: judges tested, compared with people, and tried."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from assay import api
from assay.core.canonical import json_text
from assay.core.errors import UsageProblem
from assay.core.judge_card import JudgeCard
from assay.core.text import printable
from assay.presentation.graders import trial_sections
from assay.presentation.judges import calibration_sections, card_sections, reliability_chart
from assay.presentation.words import counted
from assay.surfaces.charts import draw
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import chart_option, quiet_option, setting_option, slice_names, slices_option, verbose_option
from assay.surfaces.cli.progress import RunProgress
from assay.surfaces.cli.run_options import (
    RUN,
    OutputOptions,
    command_line,
    json_option,
    runs_dir_option,
    text_settings,
    write_json,
    write_text,
)
from assay.surfaces.cli.streams import STANDARD, check_writable, encoded, standard_output, write_file, write_stream
from assay.surfaces.reporters.comments import judge_card_markdown
from assay.surfaces.reporters.terminal import report_text

PROBE_HELP = """Test a judge for consistency and bias before you use its grades.

The judge grades answers of known quality with the prompts of a run: the same answer several times, right and wrong answers, good
answers to another question, an empty answer, padding without content, wrong answers that ask for a better score, and right answers
with another question's reference. Each probe reports its number of answers, the rate of slips with a 95 % interval, and a result:
passed, warning, not passed or not enough evidence. Calls without a verdict are counted separately.

Without DATASET and RUN, assay uses its own questions. A dataset may have any contract; its reference answers are used if present.
Of a finished run (its id, `latest`, or its folder) the answers are judged again. A probe that has no answers is listed as not
tried, with the reason.
"""

PROBE_EPILOG = """\b
Examples:
  assay probe --judge openai/gpt-6-sol --candidate openai/gpt-6-luna
  assay probe --judge anthropic/claude-sonnet-5 questions.jsonl --limit 40 -o cards/claude
  assay probe --judge openai/gpt-6-sol latest
  assay probe --judge scripted/judge-gullible --json

\b
Exit codes:
  0    every probe passed, with or without warnings
  1    a probe was not passed
  2    could not run, or the judge gave no verdict
  130  interrupted"""

LABEL_WIDTH = 19
"""Columns of the labels at the left of a calibration."""
CARD_JSON = "judge_card.json"
CARD_MARKDOWN = "judge_card.md"


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    source: str | None
    runs_dir: str
    judge: str
    candidate: str
    repeats: int
    limit: int
    seed: int
    concurrency: int
    max_cost: float | None
    output: str | None
    is_json: bool
    quiet: bool
    verbose: bool


@click.command("probe", help=PROBE_HELP, epilog=PROBE_EPILOG)
@click.argument("source", required=False, metavar="[DATASET|RUN]")
@click.option("--judge", required=True, metavar="PROVIDER/MODEL", help="The judge to probe.")
@click.option(
    "--candidate", default="", metavar="PROVIDER/MODEL", help="Candidate model; a warning follows if it is of the judge's family."
)
@click.option("--repeats", type=click.IntRange(2, 100), default=3, show_default=True, metavar="K", help="Verdicts per answer.")
@setting_option("limit", type=click.IntRange(2), default=16, show_default=True, help="Records to use.")
@setting_option("seed", default=0, show_default=True, help="Seed of the sample of a dataset's records.")
@setting_option("concurrency", default=32)
@setting_option("max_cost")
@click.option("-o", "--output", metavar="DIR", help=f"Write {CARD_JSON} and {CARD_MARKDOWN} into this folder.")
@runs_dir_option
@json_option
@quiet_option
@verbose_option("List the records in which the judge slipped.")
@click.pass_context
def probe_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    context.exit(probe(msgspec.convert(given, ProbeOptions)))


def probe(options: ProbeOptions) -> int:
    """Probe the judge, show and keep its card, and say it as an exit code."""
    folder = _made(options.output)
    with RunProgress(f"probe of {options.judge}", is_quiet=options.quiet) as progress:
        card = api.probe(_request(options), watch=progress.watch)
    # Shown before anything is written to a disk, which may be full: the card is paid for.
    if options.is_json:
        write_json(card.to_dict())
    else:
        write_text(report_text(card_sections(card, is_verbose=options.verbose), text_settings()))
    # A card is kept with the runs, so that the judge's pages find it, but a probe creates no folder of runs.
    if Path(options.runs_dir).is_dir():
        api.keep_card(card, options.runs_dir)
    if folder is not None:
        write_file(str(folder / CARD_JSON), [json_text(card.to_dict(), indent=2).encode(), b"\n"])
        write_file(str(folder / CARD_MARKDOWN), encoded(judge_card_markdown(card)))
        click.echo(f"judge card in {printable(str(folder / CARD_MARKDOWN))}", err=True)
    return _exit_code(card)


def _request(options: ProbeOptions) -> api.ProbeRequest:
    return api.ProbeRequest(
        judge=options.judge,
        source=options.source or "",
        runs_dir=options.runs_dir,
        candidate=options.candidate,
        limit=options.limit,
        repeats=options.repeats,
        seed=options.seed,
        concurrency=options.concurrency,
        max_cost=options.max_cost,
    )


def _made(output: str | None) -> Path | None:
    """Create the folder of the judge card, before any call is paid for."""
    if output is None:
        return None
    # Created before the first call: a card that cannot be written would have been paid for.
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageProblem(f"--output '{output}' is a file", hint="name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _exit_code(card: JudgeCard) -> int:
    # Not 1: no probe was missed, and nothing was measured either.
    if not any(probe.n for probe in card.probes):
        exits.print_error("the judge gave no verdict at all", hint="see 'no verdict' on the card for the reason")
        return exits.COULD_NOT_RUN
    return exits.GATES_PASSED if card.passed else exits.GATE_FAILED


CALIBRATE_HELP = """Measure the judge of a finished run against labels that people gave to some of its answers.

LABELS is a JSON Lines or CSV file with `record_id`, with `passed` (passed or not passed) or `score` on the run's scale, and with
`rater` for several people; `assay label` writes a file to fill in. Without LABELS, the labels given on the pages of `assay serve`
are used. The report shows the agreement beyond chance, the judge's false negatives and false positives, and the pass rate and mean
corrected for the judge's errors, each with a 95 % interval. A metric that too few labels support is not shown; the report states
how many labels it needs.
"""

CALIBRATE_EPILOG = """\b
Examples:
  assay calibrate latest labels.csv
  assay calibrate latest
  assay calibrate nightly-14 labels.jsonl --slices tags --chart reliability.svg

\b
Exit codes:
  0  calculated, for any result
  2  could not run: no such run, an unreadable label, or no label for the run"""


class CalibrateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    run: str
    labels: str | None
    slices: str | None
    chart: str | None
    runs_dir: str
    is_json: bool


@click.command("calibrate", help=CALIBRATE_HELP, epilog=CALIBRATE_EPILOG)
@RUN
@click.argument("labels", metavar="[LABELS]", required=False)
@slices_option("Slices to show")
@chart_option("Draw a reliability diagram as an SVG file.")
@runs_dir_option
@json_option
@click.pass_context
def calibrate_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    show(msgspec.convert(given, CalibrateOptions))
    context.exit(exits.VALID)


def show(options: CalibrateOptions) -> None:
    """Calibrate, and show it in the way that was asked for."""
    if options.chart is not None:
        check_writable(options.chart, option="--chart")
    names = slice_names(options.slices)
    found = api.calibrate(options.run, options.labels, runs_dir=options.runs_dir, slices=names)
    if options.chart is not None:
        write_file(options.chart, [draw(reliability_chart(found)).encode()])
    if options.is_json:
        write_json(found.to_dict())
    else:
        sections = calibration_sections(found, is_verbose=False, chart=options.chart or "")
        write_text(report_text(sections, text_settings(), label=LABEL_WIDTH))


TRY_HELP = """Try a judge's prompt on one record: show what is sent, what came back, and what was read from it.

PROMPT is a text file with placeholders such as {{question}} and {{answer}}. RECORD is the id of a record of a finished run (--run,
by default the latest one) or of a dataset (--dataset), or a JSON file with question, answer, reference, context, rubric, metadata.
The answer is that of the run or the file, else the record's reference, unless --answer gives another one.

The judge is that of --judge, of the grader with this prompt in --run-file, or of the run. Nothing is stored.
"""

TRY_EPILOG = """\b
Examples:
  assay judge try house.txt contracts:14 --run latest --judge openai/gpt-6-sol
  assay judge try house.txt q7 --dataset questions.jsonl --answer "Paris" --scale 1-5 --dry-run
  assay judge try house.txt record.json --run-file nightly.yaml

\b
Exit codes:
  0  the judge gave a verdict, or says that the answer cannot be assessed; with --dry-run: the prompt is fine
  1  the judge gave no verdict that can be read
  2  could not run: a wrong prompt, no such record, no judge"""


class TryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    prompt: str
    record: str
    run: str
    dataset: str
    runs_dir: str
    run_file: str
    judge: str
    scale: str
    answer: str | None
    is_dry: bool
    is_json: bool


JUDGE_EPILOG = """\b
Examples:
  assay judge try house.txt contracts:14 --run latest --judge openai/gpt-6-sol

\b
Exit codes:
  0  the judge gave a verdict, or says that the answer cannot be assessed
  1  the judge gave no verdict that can be read
  2  could not run"""


@click.group("judge", epilog=JUDGE_EPILOG)
def judge_command() -> None:
    """Work on the prompts of judges."""


@judge_command.command("try", help=TRY_HELP, epilog=TRY_EPILOG)
@click.argument("prompt", metavar="PROMPT")
@click.argument("record", metavar="RECORD")
@click.option("--run", "run", default="", metavar="RUN", help="Finished run that the record and its answer are from.")
@click.option("--dataset", default="", metavar="FILE", help="Dataset that the record is from, in place of a run.")
@click.option("--judge", default="", metavar="PROVIDER/MODEL", help="The judge.")
@click.option("--scale", default="", metavar="SCALE", help="pass_fail, 1-5, 0-1, or categories as in good=1,poor=0.3.")
@click.option("--run-file", default="", metavar="FILE", help="Run file with the providers, and with the grader of this prompt.")
@click.option("--answer", metavar="TEXT", help="Judge this answer.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Show what would be sent, and send nothing.")
@runs_dir_option
@json_option
@click.pass_context
def try_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    context.exit(try_prompt(msgspec.convert(given, TryOptions)))


def try_prompt(options: TryOptions) -> int:
    """Try the prompt, show everything, and say it as an exit code."""
    given = msgspec.structs.asdict(options)
    is_json = given.pop("is_json")
    trial = api.try_prompt(api.PromptTrialRequest(**given))
    if is_json:
        write_json(trial.to_dict())
    else:
        write_text(report_text(trial_sections(trial), text_settings()))
    return exits.INVALID if trial.status == "error" else exits.VALID


LABEL_HELP = """Write a random sample of a run's answers to a file that people fill in; `assay calibrate` reads it back.

The sample has the run's share of each dataset, so that results from the labels hold for the whole run. Fill in `passed` (passed or
not passed), or `score` on the run's scale, or both; several people copy the rows and write their names into `rater`. The judge's
verdicts are left out by default, because they influence the reader. A file name ending in .csv gives a table for a spreadsheet, any
other JSON Lines. An existing file is not overwritten, because it may contain labels.
"""

LABEL_EPILOG = """\b
Examples:
  assay label latest -o labels.csv
  assay label nightly-14 --count 200 --seed 7 -o labels.jsonl

\b
Exit codes:
  0  written
  2  could not run: no such run, it is unfinished, it has no graded record, or the file exists already"""


class LabelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command."""

    run: str
    output: str
    count: int
    seed: int
    with_judge: bool
    force: bool
    runs_dir: str


@click.command("label", help=LABEL_HELP, epilog=LABEL_EPILOG)
@RUN
@click.option("-o", "--output", metavar="FILE", default=STANDARD, help="Output file.  [default: standard output]")
@click.option("-n", "--count", type=click.IntRange(min=1), default=100, show_default=True, help="Records in the sample.")
@setting_option("seed", default=0, show_default=True, help="Seed of the sample.")
@click.option("--with-judge", is_flag=True, help="Include the judge's verdicts.")
@click.option("--force", is_flag=True, help="Overwrite an existing file and the labels in it.")
@runs_dir_option
@click.pass_context
def label_command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    export(msgspec.convert(given, LabelOptions))
    context.exit(exits.VALID)


def export(options: LabelOptions) -> None:
    """Draw the sample and write it."""
    output = options.output
    if output != STANDARD:
        check_writable(output, option="--output")
        if Path(output).is_file() and not options.force:
            # Labels are work of people, which nothing can compute again.
            raise UsageProblem(f"'{output}' exists, and may hold labels", hint="name another file, or write over it with --force")
    sample = api.label_sample(
        options.run, options.count, runs_dir=options.runs_dir, seed=options.seed, shows_judge=options.with_judge
    )
    text = api.label_text(sample, is_csv=output.lower().endswith(".csv"))
    if output == STANDARD:
        write_stream(encoded([text]), standard_output())
        return
    write_file(output, encoded([text]))
    again = command_line("calibrate", options.run, output, shown=OutputOptions(runs_dir=options.runs_dir))
    # A record that was answered several times has a row for each answer.
    noun = "answer" if any(row["sample"] for row in sample.rows) else "record"
    click.echo(f"{counted(len(sample.rows), noun)} in {printable(output)} · when they are labelled: {printable(again)}")
