"""`assay probe`: a judge, asked what a sound one answers in a known way, into a judge card and an exit code."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from assay import api
from assay.core.errors import UsageProblem
from assay.core.judge_card import JudgeCard
from assay.surfaces.cli import exits
from assay.surfaces.cli.progress import RunProgress
from assay.surfaces.cli.run_options import json_option, runs_dir_option, setting_option, text_settings, write_json, write_text
from assay.surfaces.cli.streams import encoded, write_file
from assay.surfaces.printable import printable
from assay.surfaces.reporters.judge_card import judge_card_markdown, judge_card_text
from assay.surfaces.reporters.plain_json import json_text

HELP = """Test a judge for consistency and bias before you use its grades.

The judge grades answers of known quality with the prompts of a run: the same answer several times, right and wrong answers, good
answers to another question, an empty answer, padding without content, wrong answers that ask for a better score, and right answers
with another question's reference. Each probe reports its number of answers, the rate of slips with a 95 % interval, and a result:
passed, warning, not passed or not enough evidence. Calls without a verdict are counted separately.

Without DATASET and RUN, assay uses its own questions. A dataset may have any contract; its reference answers are used if present.
Of a finished run (its id, `latest`, or its folder) the answers are judged again. A probe that has no answers is listed as not
tried, with the reason.
"""

EPILOG = """\b
Examples:
  assay probe --judge openai/gpt-5 --candidate openai/gpt-5-mini
  assay probe --judge anthropic/claude-sonnet-4-5 questions.jsonl --limit 40 -o cards/claude
  assay probe --judge openai/gpt-5 latest
  assay probe --judge scripted/judge-gullible --json

\b
Exit codes:
  0    every probe passed, with or without warnings
  1    a probe was not passed
  2    could not run, or the judge gave no verdict
  130  interrupted"""

CARD_JSON = "judge_card.json"
CARD_MARKDOWN = "judge_card.md"


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

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


@click.command("probe", help=HELP, epilog=EPILOG)
@click.argument("source", required=False, metavar="[DATASET|RUN]")
@click.option("--judge", required=True, metavar="PROVIDER/MODEL", help="The judge to probe.")
@click.option(
    "--candidate", default="", metavar="PROVIDER/MODEL", help="Candidate model; a warning follows if it is of the judge's family."
)
@click.option("--repeats", type=click.IntRange(2, 100), default=3, show_default=True, metavar="K", help="Verdicts per answer.")
@click.option("--limit", type=click.IntRange(2), default=16, show_default=True, metavar="N", help="Records to use.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of the sample of a dataset's records.")
@click.option("--concurrency", type=click.IntRange(1), default=32, show_default=True, metavar="N", help="Maximum concurrent calls.")
@setting_option("max_cost")
@click.option("-o", "--output", metavar="DIR", help=f"Write {CARD_JSON} and {CARD_MARKDOWN} into this folder.")
@runs_dir_option
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@click.option("-v", "--verbose", is_flag=True, help="List the records in which the judge slipped.")
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
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
        write_text(judge_card_text(card, text_settings(is_verbose=options.verbose)))
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
    """The folder of the card, made before any call is paid for."""
    if output is None:
        return None
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageProblem(f"--output '{output}' is a file", hint="name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _exit_code(card: JudgeCard) -> int:
    if not any(probe.n for probe in card.probes):
        exits.print_error("the judge gave no verdict at all", hint="see 'no verdict' on the card for the reason")
        return exits.COULD_NOT_RUN
    return exits.GATES_PASSED if card.passed else exits.GATE_FAILED
