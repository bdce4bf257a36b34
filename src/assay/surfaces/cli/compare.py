"""`assay compare`: two finished runs, record by record."""

import click
import msgspec

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.numbers import number_or_all
from assay.surfaces.cli.pipeline import PipelineOptions, append_summary, github_option
from assay.surfaces.cli.run_options import (
    OutputOptions,
    check_markdown,
    command_line,
    json_option,
    markdown_option,
    runs_dir_option,
    text_settings,
    write_json,
    write_markdown,
    write_text,
)
from assay.surfaces.reporters.comparison import comparison_markdown, comparison_text

HELP = """Compare two finished runs and test the difference.

Records are matched by id and contents; those that changed, are missing, or have no grade in one of the runs are listed and not
compared. The difference has a 95 % interval, which decides, and the p value of the same test. McNemar's exact test, which is more
conservative, is shown too. The p values of slices are corrected for multiple tests (Holm). BEFORE and AFTER are ids, unique
prefixes of ids, `latest`, or paths of folders.
"""

EPILOG = """\b
Examples:
  assay compare nightly-14 nightly-15
  assay compare baseline latest --slices tags,dataset --cluster source
  assay compare baseline latest --markdown comment.md

\b
Exit codes:
  0  compared, for any result; `assay gate` decides
  2  could not run: no such run, it is unfinished, or the runs have no record in common"""


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    before: str
    after: str
    runs_dir: str
    cluster: str | None
    slices: str | None
    flips: str
    is_json: bool
    is_github: bool
    markdown: str | None
    verbose: bool


@click.command("compare", help=HELP, epilog=EPILOG)
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@runs_dir_option
@click.option("--cluster", metavar="KEY", help="Metadata key whose records form clusters.  [default: the plan's]")
@click.option("--slices", metavar="NAMES", help="Slices to compare, separated by commas.  [default: the plan's]")
@click.option("--flips", metavar="N|all", default="10", show_default=True, help="Flips to show, with both answers and judgments.")
@json_option
@github_option
@markdown_option
@click.option("-v", "--verbose", is_flag=True, help="Show all slices and full texts.")
@click.pass_context
def command(context: click.Context, /, **given: object) -> None:
    """Entry of the command; see HELP."""
    show(msgspec.convert(given, CompareOptions))
    context.exit(exits.VALID)


def show(options: CompareOptions) -> None:
    """Compare, and show it in the way that was asked for."""
    check_markdown(options.markdown, is_json=options.is_json)
    names = None if options.slices is None else tuple(name.strip() for name in options.slices.split(",") if name.strip())
    found = api.compare(
        options.before,
        options.after,
        runs_dir=options.runs_dir,
        cluster=options.cluster,
        slices=names,
        max_flips=number_or_all(options.flips, option="--flips"),
    )
    if options.is_json:
        write_json(found.to_dict())
    if options.markdown is not None:
        write_markdown(comparison_markdown(found, is_verbose=options.verbose), options.markdown)
    elif not options.is_json:
        shown = OutputOptions(runs_dir=options.runs_dir)
        commands = [command_line("show", found.after.run_id, flip.record_id, shown=shown) for flip in found.flips[:1]]
        text = comparison_text(found, text_settings(is_verbose=options.verbose), commands=commands)
        write_text(PipelineOptions(is_github=options.is_github).guarded(text))
    if options.is_github:
        append_summary(comparison_markdown(found, is_verbose=options.verbose))
