"""`assay init`: a commented run file and a tiny dataset that run at once, without a key or a network."""

import json
import re
import shlex
import sys
from importlib.resources import files
from pathlib import Path, PurePath
from string import Template

import click
import msgspec

from assay import api
from assay.core.contract import CONTRACTS, ContractId
from assay.core.errors import UsageProblem
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import text_settings, write_text
from assay.surfaces.cli.streams import standard_output
from assay.surfaces.cli.words import WordChoice
from assay.surfaces.printable import printable
from assay.surfaces.reporters.terminal import hanging

HELP = """Write a commented run file and a tiny dataset into DIR (default: here), ready to run without a key or a network.

In a terminal it asks what you evaluate and which model answers; otherwise, and with --yes, it uses the options or the defaults.
Existing files are never overwritten.
"""

EPILOG = """\b
Examples:
  assay init
  assay init first --contract legal_eval_v1 --yes
  assay init first --model openai/gpt-5-mini

\b
Exit codes:
  0  written
  2  could not run: a file of that name exists, or the folder cannot be written"""

RUN_FILE = "evaluation.yaml"
SCRIPTED = "scripted/"
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]*[A-Za-z0-9_]")
"""What YAML takes for a text as it stands."""
_CANDIDATES = """
candidates: # who answers; each candidate is a run of its own
  - $candidate
  # - openai/gpt-5-mini # needs OPENAI_API_KEY in the environment
  # - {name: house, model: gpu/house-model, temperature: 0.2, max_tokens: 1024}
"""
_NO_CANDIDATES = """
# candidates: none, since the recorded replies are graded as they are
"""


class Starter(msgspec.Struct, frozen=True):
    """What a contract begins with."""

    name: str = "questions"
    """Of the dataset, without its ending."""
    candidate: str = "scripted/echo"
    """A model that needs no key; empty where nobody is asked."""
    candidate_words: str = "answers with what it was asked, without a key"


DEFAULT: ContractId = "golden_v1"
_STARTERS: dict[str, Starter] = {
    "legal_eval_v1": Starter(candidate="scripted/mcq-first", candidate_words="takes the first choice of a question, without a key"),
    "conversation_v1": Starter(name="conversation", candidate=""),
}
"""Where a contract does not begin with what is usual; its dataset is the file of its name in `starters`."""


class InitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written, and where."""

    folder: Path
    contract: ContractId
    model: str
    """The candidate, or the judge where there is no candidate; empty for scripted ones."""

    @property
    def starter(self) -> Starter:
        """What its contract begins with."""
        return _STARTERS.get(self.contract, Starter())

    @property
    def dataset(self) -> str:
        """Name of the dataset, which has the ending of the shipped one."""
        return f"{self.starter.name}{_shipped(self.contract).suffix}"

    @property
    def about(self) -> str:
        """What its contract is for."""
        return CONTRACTS[self.contract].about


@click.command("init", help=HELP, epilog=EPILOG)
@click.argument("folder", metavar="[DIR]", required=False, default=".")
@click.option("--contract", type=WordChoice(list(CONTRACTS)), help=f"Contract of the dataset.  [default: {DEFAULT}]")
@click.option("--model", metavar="PROVIDER/MODEL", help="Candidate and judge model.  [default: scripted models]")
@click.option("-y", "--yes", is_flag=True, help="Ask no questions.")
@click.pass_context
def command(context: click.Context, /, folder: str, contract: ContractId | None, *, model: str | None, yes: bool) -> None:
    """Entry of the command; see HELP."""
    # Before anything is written: what comes next is said there.
    standard_output()
    if model is not None:
        _check_model(model)
    asks = not yes and sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()
    chosen: ContractId = contract if contract is not None else _ask_contract() if asks else DEFAULT
    named = model if model is not None else _ask_model(chosen) if asks else ""
    wanted = InitOptions(folder=Path(folder), contract=chosen, model=named)
    write_files(wanted)
    write_text(f"{line}\n" for line in _told(wanted))
    context.exit(exits.VALID)


def _ask_contract() -> ContractId:
    click.echo("What do you evaluate?", err=True)
    offered = sorted(CONTRACTS.values(), key=lambda contract: contract.id != DEFAULT)
    for number, contract in enumerate(offered, 1):
        click.echo(f"  {number}  {contract.id:<16} {contract.about}", err=True)
    names = tuple(contract.id for contract in offered)
    chosen: ContractId = click.prompt("Number or name", default="1", value_proc=lambda text: _chosen(text, names), err=True)
    return chosen


def _chosen(text: str, names: tuple[ContractId, ...]) -> ContractId:
    """The contract with this number, or of this name; raises click's own error, so that the question is asked again."""
    said = text.strip().casefold()
    for number, name in enumerate(names, 1):
        if said in (str(number), name):
            return name
    raise click.UsageError(f"{text.strip()!r} is not a number from 1 to {len(names)} or one of the names")


def _ask_model(contract: ContractId) -> str:
    who = "answers" if _STARTERS.get(contract, Starter()).candidate else "judges"
    question = f"Which model {who}? PROVIDER/MODEL, or Enter for a scripted one that needs no key"
    answer: str = click.prompt(question, default="", show_default=False, value_proc=_model_or_none, err=True)
    return answer


def _model_or_none(text: str) -> str:
    """Raises click's own error, so that the question is asked again."""
    try:
        return _check_model(text.strip()) if text.strip() else ""
    except UsageProblem as problem:
        raise click.UsageError(f"{problem.message} ({problem.hint})") from problem


def _check_model(name: str) -> str:
    """The name; raises UsageProblem for one that a new run file could not name."""
    problem, _, hint = api.model_problem(name).partition("; ")
    if problem:
        raise UsageProblem(problem, hint=hint)
    return name


def write_files(wanted: InitOptions) -> None:
    """The dataset, then the run file; raises UsageProblem, with nothing written, when one of them exists."""
    contents = {
        wanted.folder / wanted.dataset: _text_of(_shipped(wanted.contract).name),
        wanted.folder / RUN_FILE: run_file(wanted),
    }
    for path in contents:
        if path.exists() or path.is_symlink():
            raise UsageProblem(f"'{path}' exists, and nothing is overwritten", hint="name another folder: assay init DIR")
    if wanted.folder.exists() and not wanted.folder.is_dir():
        raise UsageProblem(f"'{wanted.folder}' is no folder", hint="name a folder, or one that is to be made: assay init DIR")
    wanted.folder.mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)


def run_file(wanted: InitOptions) -> str:
    """The text of the run file."""
    starter = wanted.starter
    model = wanted.model if _PLAIN.fullmatch(wanted.model) else json.dumps(wanted.model) if wanted.model else ""
    candidate = model or f"{starter.candidate} # {starter.candidate_words}; a model of your own instead:"
    scripted = "scripted/judge-5 # gives every answer the best score, without a key; a model of your own instead:"
    judge = f"{model} # better not the model that answers" if model else scripted
    candidates = _CANDIDATES if starter.candidate else _NO_CANDIDATES
    return Template(_text_of(RUN_FILE)).substitute(
        run_file=RUN_FILE,
        dataset=wanted.dataset,
        about=f"{wanted.contract}: {wanted.about}",
        candidates=Template(candidates).substitute(candidate=candidate),
        judge=judge,
    )


def _shipped(contract: ContractId) -> PurePath:
    """The name of the shipped dataset of a contract."""
    names = (PurePath(file.name) for file in files("assay.surfaces.cli").joinpath("starters").iterdir())
    return next(name for name in names if name.stem == contract)


def _text_of(name: str) -> str:
    return files("assay.surfaces.cli").joinpath("starters", name).read_text(encoding="utf-8")


def _told(wanted: InitOptions) -> list[str]:
    dataset, settings = str(wanted.folder / wanted.dataset), str(wanted.folder / RUN_FILE)
    width = max(map(len, (dataset, settings)))
    # Whoever named a real model hears first whether its key is there.
    is_scripted = not wanted.model or wanted.model.startswith(SCRIPTED)
    first = ("validate", dataset) if is_scripted else ("check", settings)
    commands = [shlex.join(("assay", *words)) for words in (first, ("run", settings), ("show", "latest"))]
    indent = len("wrote  ") + width + 2
    about = f"a tiny dataset ({wanted.contract}): {wanted.about}"
    return [
        printable(f"wrote  {dataset:<{width}}  ") + hanging(about, first=indent, width=text_settings().width, indent=indent),
        printable(f"wrote  {settings:<{width}}  the settings of a run, with comments"),
        *(printable(f"{label:<6} {line}") for label, line in zip(("next", "", ""), commands, strict=True)),
    ]
