"""The program with all its commands: finds the one that is called, imports only that, and ends with its exit code."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from assay import __version__
from assay.core.errors import UsageProblem
from assay.surfaces.cli.exits import COULD_NOT_RUN, Boundary, nearest_of

COMMANDS: Mapping[str, str] = {
    "init": "Write a first run file and a tiny dataset, ready to run.",
    "validate": "Say everything that is wrong with datasets, in one pass.",
    "convert": "Turn a benchmark's files, or another contract's, into a dataset.",
    "import": "Bring datasets and finished runs over from other evaluation tools.",
    "run": "Ask models, grade their answers, keep the evidence.",
    "check": "Say everything that would keep a run file from running.",
    "resume": "Go on with a run that was interrupted.",
    "cancel": "End a run for good, also from another terminal.",
    "runs": "List the runs of a folder.",
    "show": "Show a run, or one of its records.",
    "report": "Write a run as one HTML file that opens anywhere.",
    "export": "Write a run as CSV, Excel, Parquet, JSON, or as answers for other runs.",
    "mlflow": "Show finished runs in MLflow.",
    "charts": "Save charts of runs as SVG files.",
    "compare": "Say what changed between two runs, and whether it can be believed.",
    "label": "Write a sample of a run's answers for people to label.",
    "calibrate": "Say how far a run's judge can be trusted, by labels of people.",
    "rank": "Rank finished runs: judges compare their answers, two at a time, in both orders.",
    "gate": "Decide about a run: thresholds, and how it compares with a baseline.",
    "suite": "Run several run files, and gate them together.",
    "baseline": "Choose the run that others are measured against, or show it.",
    "trend": "Show the runs over a dataset in the order of time, and where they go.",
    "audit": "List every decision about the runs of a folder.",
    "probe": "Find out whether a judge is sound: steady, blind to length and order, deaf to flattery.",
    "retry": "Run the records with an error again, as a new run.",
    "rescore": "Give a run the official score of a benchmark, as a new run, without any model.",
    "verify": "Say whether a run's files are as they were published.",
    "publish": "Write a finished run to an object store, each file once.",
    "fetch": "Bring a finished run here from an object store, checked.",
    "replay": "Compute a run's metrics again from its files alone.",
    "purge": "Remove artifacts whose time of retention is over.",
    "serve": "Offer runs and validation over HTTP.",
    "worker": "Evaluate records of runs that are started elsewhere.",
    "keys": "Make, list and revoke keys of the service.",
    "plugins": "List the graders, models, policies, converters and contracts of installed packages.",
    "doctor": "Say what is there, what is missing, and what must be mended.",
    "completion": "Print the script with which your shell completes what you type.",
}
"""Each command, a module of this package, with its line in the help."""
_MODULES = {"import": "importing"}
"""Modules whose names are not those of their commands, because Python has other plans with the word."""

EXIT_CODES = """\b
Exit codes:
  0    everything is valid; a run met its gates, or has none
  1    something is invalid; a run missed a gate
  2    could not run: bad usage, an unreadable file, nothing that could be evaluated
  130  interrupted; `assay resume RUN` goes on with a run"""

EXAMPLES = """\b
Examples:
  assay init first && assay run first/evaluation.yaml
  assay validate answers.json
  assay validate 'data/**/*.jsonl' --format github
  assay convert lexam questions.jsonl -o lexam.jsonl
  assay run golden.json --model openai/gpt-5-mini --judge openai/gpt-5 --pass-rate 0.8
  assay show latest
  assay COMMAND --help"""


class HelpContext(click.Context):
    """A call of a command whose help fits the terminal."""

    def make_formatter(self) -> click.HelpFormatter:
        """The one that folds examples and exit codes too; loaded here, since most calls ask for no help."""
        folding = import_module("assay.surfaces.cli.help_lines").FoldingFormatter
        formatter: click.HelpFormatter = folding(width=self.terminal_width, max_width=self.max_content_width)
        return formatter


class Program(click.Group):
    """A group that imports a command's module when it is called, so that starting costs little."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """The commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; raises UsageProblem with the nearest name."""
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:
                # A shell asks how to go on; a line that is wrong already has no continuation.
                return None
            raise UsageProblem(f"no such command '{cmd_name}'", hint=nearest_of(cmd_name, COMMANDS, what="commands"))
        command: click.Command = import_module(f"assay.surfaces.cli.{_MODULES.get(cmd_name, cmd_name)}").command
        if ctx.resilient_parsing:
            import_module("assay.surfaces.cli.completions").add_suggestions(command)
        _fit_help(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without importing them, and the options of the program itself."""
        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """The list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *arguments: Any, **settings: Any) -> NoReturn:
        """Run and exit; no traceback, whatever happens."""
        boundary = Boundary()
        run: Callable[..., int | None] = super().main
        with boundary:
            boundary.exit_code = run(*arguments, **{**settings, "standalone_mode": False}) or 0
            if sys.stdout is not None:
                sys.stdout.flush()
        sys.exit(boundary.exit_code)


def _fit_help(command: click.Command) -> None:
    command.context_class = HelpContext
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _fit_help(inner)


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="assay", message="%(prog)s %(version)s")
@click.pass_context
def program(context: click.Context) -> None:
    """Validate evaluation datasets like a compiler, run them against models, and keep the evidence."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(COULD_NOT_RUN)
