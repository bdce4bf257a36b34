"""`assay init`, `check`, `doctor`, `plugins`: a first run file, and checks of it and of the installation."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import webbrowser
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path, PurePath
from string import Template
from typing import Any

import click
import msgspec

from assay import api
from assay.core.contract import CONTRACTS, ContractId
from assay.core.errors import SourceUnreadable, UsageProblem, counted_problems
from assay.core.text import printable
from assay.presentation.installation import doctor_sections, plugin_sections, probe_sections
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import WordChoice
from assay.surfaces.cli.run_options import json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.cli.streams import standard_output
from assay.surfaces.reporters.terminal import hanging, report_text

INIT_HELP = """Write a commented run file and a tiny dataset into DIR (default: here), ready to run without a key or a network.

In a terminal it asks what you evaluate and which model answers; otherwise, and with --yes, it uses the options or the defaults.
Existing files are never overwritten.
"""

INIT_EPILOG = """\b
Examples:
  assay init
  assay init first --contract legal_eval_v1 --yes
  assay init first --model openai/gpt-6-luna

\b
Exit codes:
  0  written
  2  could not run: a file of that name exists, or the folder cannot be written"""

RUN_FILE = "evaluation.yaml"
SCRIPTED = "scripted/"
# Narrower than YAML allows: what does not match is quoted, which is always right.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]*[A-Za-z0-9_]")
"""Matches text that YAML reads as a string without quotes."""
_CANDIDATES = """
candidates: # models under evaluation; each candidate is a separate run
  - $candidate
  # - openai/gpt-6-luna # needs OPENAI_API_KEY in the environment
  # - {name: house, model: gpu/house-model, temperature: 0.2, max_tokens: 1024}
"""
_NO_CANDIDATES = """
# candidates: none, since the recorded replies are graded as they are
"""


class Starter(msgspec.Struct, frozen=True):
    """Example dataset and scripted model for a contract."""

    name: str = "questions"
    """Of the dataset, without its ending."""
    candidate: str = "scripted/echo"
    """A model that needs no key; empty if no model is called."""
    candidate_words: str = "answers with what it was asked, without a key"


DEFAULT: ContractId = "golden_v1"
_STARTERS: dict[str, Starter] = {
    "legal_eval_v1": Starter(candidate="scripted/mcq-first", candidate_words="takes the first choice of a question, without a key"),
    "conversation_v1": Starter(name="conversation", candidate=""),
}
"""Contracts with another starter than the usual one; the dataset is the file of that name in `starters`."""


class InitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Choices for a first run file."""

    folder: Path
    contract: ContractId
    model: str
    """Candidate, or the judge if the contract needs no candidate; empty for scripted models."""

    @property
    def starter(self) -> Starter:
        """Example dataset and scripted model of the contract."""
        return _STARTERS.get(self.contract, Starter())

    @property
    def dataset(self) -> str:
        """Name of the dataset, which has the ending of the shipped one."""
        return f"{self.starter.name}{_shipped(self.contract).suffix}"

    @property
    def about(self) -> str:
        """Purpose of the contract."""
        return CONTRACTS[self.contract].about


@click.command("init", help=INIT_HELP, epilog=INIT_EPILOG)
@click.argument("folder", metavar="[DIR]", required=False, default=".")
@click.option("--contract", type=WordChoice(list(CONTRACTS)), help=f"Contract of the dataset.  [default: {DEFAULT}]")
@click.option("--model", metavar="PROVIDER/MODEL", help="Candidate and judge model.  [default: scripted models]")
@click.option("-y", "--yes", is_flag=True, help="Ask no questions.")
@click.pass_context
def init_command(context: click.Context, /, folder: str, contract: ContractId | None, *, model: str | None, yes: bool) -> None:
    """Entry of the command; see HELP."""
    # Before anything is written: what comes next is said there.
    standard_output()
    if model is not None:
        _check_model(model)
    # All three streams have to be a terminal: a question on a redirected stream would wait for ever.
    asks = not yes and sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()
    chosen: ContractId = contract if contract is not None else _ask_contract() if asks else DEFAULT
    named = model if model is not None else _ask_model(chosen) if asks else ""
    wanted = InitOptions(folder=Path(folder), contract=chosen, model=named)
    write_files(wanted)
    write_text(f"{line}\n" for line in _next_steps(wanted))
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
    """Return the contract with this number or name; raises click's own error, so that click asks again."""
    said = text.strip().casefold()
    for number, name in enumerate(names, 1):
        if said in (str(number), name):
            return name
    # click repeats the question for its own errors only.
    raise click.UsageError(f"{text.strip()!r} is not a number from 1 to {len(names)} or one of the names")


def _ask_model(contract: ContractId) -> str:
    who = "answers" if _STARTERS.get(contract, Starter()).candidate else "judges"
    question = f"Which model {who}? PROVIDER/MODEL, or Enter for a scripted one that needs no key"
    answer: str = click.prompt(question, default="", show_default=False, value_proc=_model_or_none, err=True)
    return answer


def _model_or_none(text: str) -> str:
    """Check the model's name; raises click's own error, so that click asks again."""
    try:
        return _check_model(text.strip()) if text.strip() else ""
    except UsageProblem as problem:
        raise click.UsageError(f"{problem.message} ({problem.hint})") from problem


def _check_model(name: str) -> str:
    """Check a model's name; raises UsageProblem for one that a new run file cannot have."""
    # The engine returns one sentence, whose second part is the hint.
    problem, _, hint = api.model_problem(name).partition("; ")
    if problem:
        raise UsageProblem(problem, hint=hint)
    return name


def write_files(wanted: InitOptions) -> None:
    """Write the dataset, then the run file; raises UsageProblem, with nothing written, when one of them exists."""
    # The dataset first: a run file without its dataset would be the worse half.
    contents = {
        wanted.folder / wanted.dataset: _text_of(_shipped(wanted.contract).name),
        wanted.folder / RUN_FILE: run_file(wanted),
    }
    for path in contents:
        # A symlink to nothing does not exist, and writing would follow it.
        if path.exists() or path.is_symlink():
            raise UsageProblem(f"'{path}' exists, and nothing is overwritten", hint="name another folder: assay init DIR")
    if wanted.folder.exists() and not wanted.folder.is_dir():
        raise UsageProblem(f"'{wanted.folder}' is not a folder", hint="name a folder, or one that is to be made: assay init DIR")
    wanted.folder.mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        # Exclusive, in case the file appeared since the check.
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)


def run_file(wanted: InitOptions) -> str:
    """Render the run file."""
    starter = wanted.starter
    # JSON strings are YAML strings.
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
    """Return the name of the shipped dataset of a contract."""
    names = (PurePath(file.name) for file in files("assay.surfaces.cli").joinpath("starters").iterdir())
    return next(name for name in names if name.stem == contract)


def _text_of(name: str) -> str:
    return files("assay.surfaces.cli").joinpath("starters", name).read_text(encoding="utf-8")


def _next_steps(wanted: InitOptions) -> list[str]:
    dataset, settings = str(wanted.folder / wanted.dataset), str(wanted.folder / RUN_FILE)
    width = max(map(len, (dataset, settings)))
    # With a real model, the first thing to know is whether its key is set.
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


CHECK_HELP = """Check a run file and report every problem, without evaluating anything.

The command checks settings, datasets, stored answers and attachments as `assay run` does before its first call, and also whether
the API keys of the run's providers are set and the providers can be reached.

With --probe it also sends each model one small request with the run's parameters, which costs a few tokens. It shows which
parameters the provider refuses and how they are sent instead, whether a verdict can be read from a judge's reply, and what the
model costs.
"""

CHECK_EPILOG = """\b
Examples:
  assay check nightly.yaml
  assay check nightly.yaml --json
  assay check nightly.yaml --probe

\b
Exit codes:
  0  ready to run
  2  not ready; every problem is listed"""


@click.command("check", help=CHECK_HELP, epilog=CHECK_EPILOG)
@click.argument("run_file", metavar="RUNFILE")
@click.option("--probe", is_flag=True, help="Send each model one small request.")
@json_option
@click.pass_context
def check_command(context: click.Context, /, run_file: str, *, probe: bool, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    if run_file == "-":
        raise SourceUnreadable("a run file is not read from standard input", hint="name a file")
    problems, probes = _probed(run_file) if probe else (api.check(run_file), [])
    is_ready = not problems and all(each.is_well for each in probes)
    if is_json:
        found = {"models": [_probe_document(each) for each in probes]} if probe else {}
        write_json({"run_file": run_file, "is_ready": is_ready, "problems": problems, **found})
    elif probes:
        write_text(report_text(probe_sections(probes), text_settings()))
    else:
        write_text(f"{printable(line)}\n" for line in _lines(run_file, problems))
    context.exit(exits.VALID if is_ready else exits.COULD_NOT_RUN)


def _probed(run_file: str) -> tuple[list[str], list[api.ModelProbe]]:
    """Return what keeps a run file from being planned, else the probes of its models."""
    try:
        planned = api.plan_run_file(run_file)
    except api.PlanProblems as problems:
        return list(problems.problems), []
    return [], api.probe_models(planned)


def _probe_document(probe: api.ModelProbe) -> dict[str, object]:
    """Return a probe as JSON, without members that are empty."""
    document: dict[str, Any] = msgspec.to_builtins(probe)
    document["is_well"] = probe.is_well
    document["checks"] = [{name: value for name, value in check.items() if value or name != "hint"} for check in document["checks"]]
    return {name: value for name, value in document.items() if value not in (None, [])}


def _lines(run_file: str, problems: list[str]) -> list[str]:
    if not problems:
        return [f"{run_file} · ready to run"]
    return [f"{run_file} · {counted_problems(problems)}", *(f"  {problem}" for problem in problems)]


DOCTOR_HELP = """Check the installation: versions, extras, API keys, the folder of the runs, proxies, providers and the terminal.

The command requests the model list of every provider that has an API key, and of those in RUNFILE, which costs nothing. Of an API
key it shows only the name of the variable.
"""

DOCTOR_EPILOG = """\b
Examples:
  assay doctor
  assay doctor nightly.yaml
  assay doctor --offline --json

\b
Exit codes:
  0  no problems found
  1  something needs fixing; each line states what to do
  2  could not run"""


@click.command("doctor", help=DOCTOR_HELP, epilog=DOCTOR_EPILOG)
@click.argument("run_file", metavar="[RUNFILE]", required=False, default="")
@click.option("--offline", is_flag=True, help="Call no provider.")
@runs_dir_option
@json_option
@click.pass_context
def doctor_command(context: click.Context, /, run_file: str, *, offline: bool, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    checks = [*api.check_installation(runs_dir, run_file=run_file, is_offline=offline), *_terminal()]
    # Notes are not problems: a machine without a browser is as it should be.
    is_well = not any(check.standing == "problem" for check in checks)
    if is_json:
        write_json({"is_well": is_well, "checks": [_document(check) for check in checks]})
    else:
        write_text(report_text(doctor_sections(checks), text_settings()))
    context.exit(exits.VALID if is_well else exits.INVALID)


def _document(check: api.DoctorCheck) -> dict[str, object]:
    # A hint is left out where there is none; all other members are always there.
    return {name: value for name, value in msgspec.to_builtins(check).items() if value or name != "hint"}


def _terminal() -> Iterator[api.DoctorCheck]:
    settings = text_settings()
    is_terminal = settings.width is not None
    colours = "with colours" if settings.is_coloured else "without colours" if is_terminal else ""
    shown = f"{settings.width} columns, {colours}" if is_terminal else "standard output is not a terminal: plain text"
    yield api.DoctorCheck(area="terminal", name="output", says=shown)
    # Names of one encoding differ in case and dashes.
    encoding = (sys.stdout.encoding or "").lower().replace("-", "") if sys.stdout is not None else ""
    if encoding == "utf8":
        yield api.DoctorCheck(area="terminal", name="encoding", says="UTF-8")
    else:
        hint = "set LANG to a UTF-8 one, or PYTHONUTF8=1"
        yield api.DoctorCheck(area="terminal", name="encoding", standing="note", says=encoding or "none", hint=hint)
    yield _browser()


def _browser() -> api.DoctorCheck:
    try:
        # Over SSH a browser would open on the remote machine, if at all.
        name = webbrowser.get().name if not os.environ.get("SSH_CONNECTION") else ""
    except webbrowser.Error:
        name = ""
    hint = "assay serve prints its address; assay report writes a file to open on another machine"
    return api.DoctorCheck(area="terminal", name="browser", says=name) if name else _no_browser(hint)


def _no_browser(hint: str) -> api.DoctorCheck:
    return api.DoctorCheck(area="terminal", name="browser", standing="note", says="none here", hint=hint)


PLUGINS_HELP = """List the graders, models, policies, converters and contracts that installed packages add.

A package declares them in its entry points: assay.graders, assay.models, assay.policies, assay.converters, assay.contracts. The
command loads each plugin and reports the reason if it cannot be used; the others still work. Custom code needs no package: every
option that takes a plugin also takes module:function and file.py:function.
"""

PLUGINS_EPILOG = """\b
Examples:
  assay plugins
  assay plugins --json
  assay run questions.jsonl --model openai/gpt-6-luna --grader PLUGIN

\b
Exit codes:
  0  listed, and every plugin can be used
  1  a plugin cannot be used
  2  could not run: bad usage"""


@click.command("plugins", help=PLUGINS_HELP, epilog=PLUGINS_EPILOG)
@json_option
@click.pass_context
def plugins_command(context: click.Context, /, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    listed = api.list_plugins()
    if is_json:
        write_json({"plugins": msgspec.to_builtins(listed)})
    else:
        write_text(report_text(plugin_sections(listed), text_settings()))
    context.exit(exits.INVALID if any(plugin.problem for plugin in listed) else exits.VALID)
