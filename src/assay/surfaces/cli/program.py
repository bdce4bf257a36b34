"""The program with all its commands: imports only the one that is called, and ends with its exit code."""

import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from assay.core.errors import UsageProblem
from assay.core.integrations import load_integration
from assay.core.version import __version__
from assay.surfaces.cli.exits import COULD_NOT_RUN, ErrorBoundary, nearest_of

COMMANDS: Mapping[str, str] = {
    "init": "Write a first run file and a tiny dataset, ready to run.",
    "validate": "Validate datasets and report every problem.",
    "convert": "Turn a benchmark's files, or another contract's, into a dataset.",
    "import": "Import datasets and results from other tools.",
    "run": "Run models on a dataset and grade the answers.",
    "check": "Check a run file without running it.",
    "resume": "Resume an interrupted run.",
    "cancel": "Cancel a run permanently, also from another terminal.",
    "runs": "List the runs of a folder.",
    "show": "Show a run, or one of its records.",
    "report": "Write a run as one HTML file that opens anywhere.",
    "export": "Write a run as CSV, Excel, Parquet, JSON, or as answers for other runs.",
    "mlflow": "Push finished runs to MLflow.",
    "charts": "Save charts of runs as SVG files.",
    "compare": "Compare two runs and test the difference.",
    "label": "Write a sample of a run's answers for people to label.",
    "calibrate": "Measure a run's judge against human labels.",
    "rank": "Rank finished runs by pairwise comparison of their answers.",
    "gate": "Check a run against thresholds and a baseline.",
    "suite": "Run several run files, and gate them together.",
    "baseline": "Set or show the baseline run.",
    "trend": "Show results on a dataset over time.",
    "audit": "Show the audit log.",
    "probe": "Test a judge for consistency and bias.",
    "judge": "Try a judge's prompt on one record.",
    "retry": "Retry records that ended in an error, as a new run.",
    "rescore": "Score a run with a benchmark's official profile, as a new run, without any model.",
    "verify": "Verify a run's files against their hashes.",
    "publish": "Write a finished run to an object store, each file once.",
    "fetch": "Fetch a finished run from an object store and verify it.",
    "replay": "Recompute a run's metrics from its files.",
    "purge": "Remove artifacts whose retention period has ended.",
    "serve": "Start the HTTP service and the web pages.",
    "worker": "Evaluate records of runs started on other machines.",
    "keys": "Create, list and revoke API keys.",
    "plugins": "List the graders, models, policies, converters and contracts of installed packages.",
    "doctor": "Check the installation and report what needs fixing.",
    "completion": "Print the completion script for your shell.",
}
"""Each command with its line in the help."""
_INTEGRATIONS = {"import": "importers", "mlflow": "mlflow"}
"""Commands of integrations; each has a module `command`."""

_GROUPS = {
    "decisions": "compare gate baseline trend audit",
    "derived_runs": "retry rescore rank",
    "judges": "probe calibrate label judge",
    "reports": "report charts",
    "run": "run resume",
    "runs": "runs show cancel verify replay purge publish fetch",
    "service": "serve keys worker",
    "setup": "init check doctor plugins",
}
"""Modules that hold several commands; any other command has a module with its name."""
_MODULES = {command: module for module, commands in _GROUPS.items() for command in commands.split()}

EXIT_CODES = """\b
Exit codes:
  0    everything is valid; a run met its gates, or has none
  1    something is invalid; a run missed a gate
  2    could not run: bad usage, an unreadable file, nothing that could be evaluated
  130  interrupted; continue with `assay resume RUN`"""

EXAMPLES = """\b
Examples:
  assay init first && assay run first/evaluation.yaml
  assay validate answers.json
  assay validate 'data/**/*.jsonl' --format github
  assay convert lexam questions.jsonl -o lexam.jsonl
  assay run golden.json --model openai/gpt-6-luna --judge openai/gpt-6-sol --pass-rate 0.8
  assay show latest
  assay COMMAND --help"""


class HelpContext(click.Context):
    """Context of a command whose help is folded to the width of the terminal."""

    def make_formatter(self) -> click.HelpFormatter:
        """Make a formatter that folds examples and exit codes too."""
        return FoldingFormatter(width=self.terminal_width, max_width=self.max_content_width)


class Program(click.Group):
    """A group that imports a command's module when it is called, so that starting costs little."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """List the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name; raises UsageProblem with the nearest name."""
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:
                # A shell asks for continuations; an invalid line has none.
                return None
            raise UsageProblem(f"no such command '{cmd_name}'", hint=nearest_of(cmd_name, COMMANDS, what="commands"))
        command = _load_command(cmd_name)
        # Completion only: suggestions read files and folders.
        if ctx.resilient_parsing:
            import_module("assay.surfaces.cli.completion").add_suggestions(command)
        # click makes a context for each subcommand of a group, and takes the class from the command.
        _fit_help(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Suggest commands, without importing them, and the options of the program itself."""
        # Importing 40 modules for their help texts would be felt at every press of the key.
        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *arguments: object, **settings: object) -> NoReturn:
        """Run and exit; never print a traceback."""
        boundary = ErrorBoundary()
        run: Callable[..., int | None] = super().main
        with boundary:
            # In standalone mode click would print errors in its own words and exit by itself.
            boundary.exit_code = run(*arguments, **{**settings, "standalone_mode": False}) or 0
            # Flushed inside the boundary: a full disk must end with our exit code and not at interpreter
            # shutdown.
            if sys.stdout is not None:
                sys.stdout.flush()
        sys.exit(boundary.exit_code)


def _load_command(name: str) -> click.Command:
    """Import a command; raises MissingExtra when it is that of an integration that is not installed."""
    if name in _INTEGRATIONS:
        module = load_integration(_INTEGRATIONS[name], "command", user=f"assay {name}")
    else:
        module = import_module(f"assay.surfaces.cli.{_MODULES.get(name, name)}")
    # By naming convention, so that the table of commands is the only list.
    command: click.Command = getattr(module, f"{name}_command")
    return command


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
        # Without a command nothing was done, which a script has to notice.
        click.echo(context.get_help())
        context.exit(COULD_NOT_RUN)


AS_WRITTEN = "\b"
"""Begins a paragraph that click leaves as it is, however long its lines are."""
_COLUMNS = re.compile(r"(?P<left>\s*\S.*?\s{2,})\S")
"""A word or a command, a gap, and what is said of it."""
_WORD = re.compile(r"""(?:--?[\w-]+ (?!-))?(?:'[^']*'|"[^"]*"|\S)+""")
"""A word of a command line, an option together with its value."""
_GOES_ON = " \\"


class FoldingFormatter(click.HelpFormatter):
    """Writes help of which no line is longer than the terminal is wide."""

    def write_text(self, text: str) -> None:
        """Write paragraphs; click folds those that are not preformatted."""
        room = self.width - self.current_indent
        super().write_text("\n\n".join(_folded(paragraph, room) for paragraph in text.split("\n\n")))


def _folded(paragraph: str, room: int) -> str:
    if not paragraph.startswith(AS_WRITTEN):
        return paragraph
    return "\n".join(line if len(line) <= room else _folded_line(line, room) for line in paragraph.split("\n"))


def _folded_line(line: str, room: int) -> str:
    """Fold a line: a description continues below its start, a command ends with a backslash."""
    columns = _COLUMNS.match(line)
    if columns is not None:
        left = columns["left"]
        return "\n".join(textwrap.wrap(line[len(left) :], room, initial_indent=left, subsequent_indent=" " * len(left)))
    indent = " " * (len(line) - len(line.lstrip()))
    lines = [indent]
    for number, word in enumerate(_WORD.findall(line)):
        if number and len(lines[-1]) + 1 + len(word) + len(_GOES_ON) > room:
            lines[-1] += _GOES_ON
            lines.append(f"{indent}  ")
        lines[-1] += word if lines[-1].isspace() or not lines[-1] else f" {word}"
    return "\n".join(lines)
