"""Shell completion: its script, and suggestions for runs, models, files and folders."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import click
from click.shell_completion import CompletionItem, get_completion_class

from assay.core.contract import CONTRACTS
from assay.core.provider import ProviderKind
from assay.core.runs import RUNS_DIR
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import WordChoice
from assay.surfaces.cli.run_options import RUNS_DIR_VARIABLE, write_text

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ASSAY_COMPLETE"

HELP = """Print the script that lets your shell complete commands, options, files, runs and models.

\b
bash  add to ~/.bashrc:   eval "$(assay completion bash)"
zsh   add to ~/.zshrc, after compinit:   eval "$(assay completion zsh)"
fish  assay completion fish > ~/.config/fish/completions/assay.fish

Then open a new shell. Runs come from --runs-dir, ASSAY_RUNS_DIR or ./runs, the newest first; models are those of the newest runs,
and the names of the providers.
"""

EPILOG = """\b
Examples:
  eval "$(assay completion bash)"
  assay show <TAB>
  assay run data.json --model <TAB>

\b
Exit codes:
  0  printed
  2  could not run: unsupported shell"""

BASH = """\
_assay_completion() {
    local IFS=$'\\n' answer type value
    answer=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _ASSAY_COMPLETE=bash_complete "$1" 2>/dev/null)
    for answer in $answer; do
        IFS=',' read -r type value <<< "$answer"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                # A value that ends in a slash is continued: no blank after it.
                if [[ $value == */ ]]; then compopt -o nospace; fi ;;
        esac
    done
}
complete -o nosort -F _assay_completion assay
"""


@click.command("completion", help=HELP, epilog=EPILOG)
@click.argument("shell", type=WordChoice(SHELLS))
@click.pass_context
def completion_command(context: click.Context, /, shell: str) -> None:
    """Entry of the command; see HELP."""
    write_text([script_for(shell, context.find_root().command)])
    context.exit(exits.VALID)


def script_for(shell: str, program: click.Command) -> str:
    """Build the script for one of SHELLS; that for bash is our own, since click's puts a blank after `openai/`."""
    kind = get_completion_class(shell)
    assert kind is not None
    return BASH if shell == "bash" else kind(program, {}, "assay", VARIABLE).source()


Words = Callable[[click.Context, str], list[CompletionItem]]
"""Suggestions for what was typed so far."""

ALWAYS = (
    "local/smollm2",
    *(f"scripted/{name}" for name in ("echo", "empty", "mcq-first", "mcq-last", "mcq-any", "judge-any", "judge-sound")),
    *(f"scripted/judge-{score}" for score in range(1, 6)),
)
"""Models that need no key."""
_RECORD = re.compile(rb'"record_id": ?("(?:[^"\\]|\\.)*")')
_LOOKED_AT = 4 << 20
"""Bytes of a run's predictions in which its records are looked for."""
_RECENT = 20
"""Runs whose models are suggested."""


class SuggestedText(click.types.StringParamType):
    """A text, with suggestions for the shell."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the suggestions, without words that a shell would split or execute; names of records and models are untrusted."""
        # Names in datasets and runs come from outside. A shell pastes a suggestion as it is, so what would need
        # quotes is not suggested.
        return [item for item in self._words(ctx, incomplete) if item.type != "plain" or shlex.quote(item.value) == item.value]


def add_suggestions(command: click.Command) -> None:
    """Let every parameter that takes a plain text suggest what its name in the help promises: FILE, DIR, RUN, PROVIDER/MODEL."""
    # A parameter is matched by its metavar, so that a new command gets suggestions without a list of its own.
    for parameter in command.params:
        words = _WORDS.get((parameter.metavar or parameter.human_readable_name).strip("[]."))
        if words is not None and parameter.type is click.STRING:
            parameter.type = SuggestedText(words)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_suggestions(inner)


def _files(context: click.Context, typed: str) -> list[CompletionItem]:
    # The shell completes files itself; the word only says that it should.
    del context
    return [CompletionItem(typed, type="file")]


def _folders(context: click.Context, typed: str) -> list[CompletionItem]:
    del context
    return [CompletionItem(typed, type="dir")]


def _contracts(context: click.Context, typed: str) -> list[CompletionItem]:
    """Suggest the built-in contracts, or files, since a custom contract is in one."""
    return [CompletionItem(name) for name in CONTRACTS if name.startswith(typed)] or _files(context, typed)


def _runs(context: click.Context, typed: str) -> list[CompletionItem]:
    """Suggest runs, the newest first, or folders."""
    found = [CompletionItem(name) for name in _named_runs(context) if name.startswith(typed)]
    if found and "latest".startswith(typed):
        found.insert(0, CompletionItem("latest", help="The newest run."))
    return found or _folders(context, typed)


def _runs_or_groups(context: click.Context, typed: str) -> list[CompletionItem]:
    """Suggest runs, and the groups of the newest."""
    runs = _runs(context, typed)
    known = {item.value for item in runs}
    groups = dict.fromkeys(str(plan.get("group", "")) for plan in _plans(context))
    return [
        *(CompletionItem(name, help="A group.") for name in groups if name.startswith(typed) and name not in {"", *known}),
        *runs,
    ]


def _baselines(context: click.Context, typed: str) -> list[CompletionItem]:
    """Suggest baselines, the last chosen first, then runs; never `latest`, which would be compared with itself."""
    words = {"previous": "The run before it.", "none": "Thresholds only."}
    named = [CompletionItem(name, help="A baseline.") for name in _chosen(context)]
    special = [CompletionItem(word, help=about) for word, about in words.items()]
    runs = [CompletionItem(name) for name in _named_runs(context)]
    return [item for item in (*named, *special, *runs) if item.value.startswith(typed)] or _folders(context, typed)


def _chosen(context: click.Context) -> list[str]:
    """List the names of baselines in the audit log."""
    try:
        lines = (_runs_dir(context) / "audit.jsonl").read_bytes().splitlines()
        # The log is read as plain lines: verifying its hash chain is the work of the command, not of a key press.
        chosen = [json.loads(line)["name"] for line in reversed(lines) if b'"baseline_set"' in line]
    # With any content of the log, a suggestion must not print an error into the line that is being typed.
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return list(dict.fromkeys(chosen))


def _files_or_runs(context: click.Context, typed: str) -> list[CompletionItem]:
    return [*_runs(context, typed), *_files(context, typed)]


def _models(context: click.Context, typed: str) -> list[CompletionItem]:
    """Suggest models of the newest runs, models without a key, and providers."""
    providers = (f"{kind}/" for kind in get_args(ProviderKind) if kind not in ("scripted", "local", "function", "http"))
    known = dict.fromkeys([*_models_of_runs(context), *providers, *ALWAYS])
    return [CompletionItem(name) for name in known if name.startswith(typed)]


def _records(context: click.Context, typed: str) -> list[CompletionItem]:
    """Suggest the first records of the run given by the argument before."""
    # Read the first bytes only: a shell waits for the answer at every key press.
    runs = _named_runs(context)
    run = runs[0] if context.params.get("run") == "latest" and runs else context.params.get("run") or ""
    try:
        with (_runs_dir(context) / run / "predictions.jsonl").open("rb") as lines:
            found = _RECORD.findall(lines.read(_LOOKED_AT))
    except OSError:
        return []
    names = dict.fromkeys(json.loads(name) for name in found)
    return [CompletionItem(name) for name in names if name.startswith(typed)]


def _named_runs(context: click.Context) -> list[str]:
    """List the runs as the engine would; loading the engine takes too long after a key press."""
    folder = _runs_dir(context)
    # .active holds unfinished runs.
    places = [*_subfolders(folder), *_subfolders(folder / ".active")]
    newest = sorted(places, key=lambda place: place.stat().st_mtime, reverse=True)
    return list(dict.fromkeys(place.name for place in newest))


def _runs_dir(context: click.Context) -> Path:
    return Path(context.params.get("runs_dir") or os.environ.get(RUNS_DIR_VARIABLE) or RUNS_DIR)


def _subfolders(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        # A folder that cannot be read suggests nothing; the command itself says why.
        return


def _models_of_runs(context: click.Context) -> Iterator[str]:
    for plan in _plans(context):
        with suppress(LookupError, TypeError):
            models = (plan["candidate"], *plan["judges"])
            yield from (f"{model['provider']}/{model['model']}" for model in models if model["provider"])


def _plans(context: click.Context) -> Iterator[dict[str, Any]]:
    """Read the plans of the newest runs."""
    folder = _runs_dir(context)
    for run_id in _named_runs(context)[:_RECENT]:
        # One that is under way, damaged or purged suggests nothing.
        with suppress(OSError, ValueError, LookupError, TypeError):
            plan = json.loads((folder / run_id / "run_manifest.json").read_bytes())["plan"]
            if isinstance(plan, dict):
                yield plan


_WORDS: dict[str, Words] = {
    **dict.fromkeys(
        ("FILE", "RUNFILE", "SUITE", "LABELS", "PATHS", "DATASET...|RUNFILE", "OUT", "PATH", "SOURCES", "DATASET"), _files
    ),
    "DIR": _folders,
    **dict.fromkeys(("RUN", "RUN RUN"), _runs),
    **dict.fromkeys(("RUN|GROUP", "BEFORE|GROUP", "AFTER"), _runs_or_groups),
    "RECORD": _records,
    "NAME|RUN|GROUP|previous|none": _baselines,
    **dict.fromkeys(("DATASET|RUN", "RUN|GROUP|DATASET"), _files_or_runs),
    "BENCHMARK] SOURCES": _files,
    "PROVIDER/MODEL": _models,
    "CONTRACT": _contracts,
}
"""By the name that the help gives a parameter."""
