"""`assay completion`: the script with which a shell completes commands, options, runs and models."""

import click
from click.shell_completion import get_completion_class

from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import write_text
from assay.surfaces.cli.words import WordChoice

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
                # What ends in a slash goes on: no blank after it.
                if [[ $value == */ ]]; then compopt -o nospace; fi ;;
        esac
    done
}
complete -o nosort -F _assay_completion assay
"""


@click.command("completion", help=HELP, epilog=EPILOG)
@click.argument("shell", type=WordChoice(SHELLS))
@click.pass_context
def command(context: click.Context, /, shell: str) -> None:
    """Entry of the command; see HELP."""
    write_text([script_for(shell, context.find_root().command)])
    context.exit(exits.VALID)


def script_for(shell: str, program: click.Command) -> str:
    """The script for one of SHELLS; that for bash is our own, since click's puts a blank after `openai/`."""
    kind = get_completion_class(shell)
    assert kind is not None
    return BASH if shell == "bash" else kind(program, {}, "assay", VARIABLE).source()
