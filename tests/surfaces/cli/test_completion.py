"""Completion in real shells: what pressing the tab key offers."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import api
from assay.models.scripted import model_problems
from assay.surfaces.cli.completion import ALWAYS, BASH, SHELLS
from assay.surfaces.cli.program import program
from assay.testing import example_dataset
from tests.engine.run_settings import mcq_row, write_rows

ASK_BASH = """
. ./assay.bash
COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { echo "compopt $1 $2"; }
_assay_completion assay
printf '%s\\n' "${COMPREPLY[@]}"
"""
ASK_FISH = 'assay completion fish | source; complete -C "$argv[1]"'


def has(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `assay` on its search path, a dataset and two runs."""
    place = tmp_path_factory.mktemp("shell")
    command = place / "bin" / "assay"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m assay "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    dataset = place / "golden.json"
    dataset.write_bytes(example_dataset("golden_v1"))
    (place / "assay.bash").write_text(BASH, encoding="utf-8")
    for name in ("monday", "tuesday"):
        api.run(dataset, run_id=name, model="scripted/say-Hello", judge="scripted/judge-5", runs_dir=str(place / "runs"))
    api.set_baseline("monday", runs_dir=str(place / "runs"), name="release")
    return place


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb"}


def in_bash(folder: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK_BASH, "bash", *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@has("bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (("assay", "va"), ["validate"]),
        (("assay", "validate", "--contr"), ["--contract"]),
        (("assay", "validate", "--contract", "g"), ["golden_v1"]),
        (("assay", "run", "--profile", "h"), ["healthbench"]),
        (("assay", "show", ""), ["latest", "tuesday", "monday"]),
        (("assay", "compare", "monday", "t"), ["tuesday"]),
        (("assay", "show", "latest", "sum-"), [f"sum-{number}" for number in range(1, 6)]),
        (("assay", "gate", "latest", "--baseline", ""), ["release", "previous", "none", "tuesday", "monday"]),
        (("assay", "gate", "latest", "--baseline", "m"), ["monday"]),
        (("assay", "export", "mon"), ["compopt -o default", "monday"]),
        (("assay", "run", "x", "--model", "scripted/say"), ["scripted/say-Hello"]),
        (("assay", "run", "x", "--model", "ant"), ["compopt -o nospace", "anthropic/"]),
        (("assay", "run", "gol"), ["compopt -o default", ""]),
        (("assay", "runs", "--runs-dir", "ru"), ["compopt -o dirnames", ""]),
        (("assay", "vaildate", "--x"), [""]),
    ],
)
def test_bash_offers(folder: Path, line: tuple[str, ...], offered: list[str]) -> None:
    assert in_bash(folder, *line) == offered


@has("bash")
def test_runs_are_those_of_the_folder_that_the_line_names(folder: Path) -> None:
    assert in_bash(folder, "assay", "show", "--runs-dir", "elsewhere", "") == ["compopt -o dirnames", ""]


@has("bash")
def test_groups_are_offered_before_the_runs_in_them(folder: Path, tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    api.run(dataset, run_id="night", models=("scripted/mcq-first", "scripted/mcq-last"), runs_dir=str(tmp_path / "runs"))
    place = ("--runs-dir", str(tmp_path / "runs"))
    ids = ["night-scripted-mcq-last", "night-scripted-mcq-first"]
    assert in_bash(folder, "assay", "show", *place, "ni") == ["night", *ids]
    assert in_bash(folder, "assay", "gate", *place, "ni") == ["night", *ids]
    assert in_bash(folder, "assay", "verify", *place, "ni") == ids


@has("bash")
def test_no_word_is_offered_that_a_shell_would_obey_or_take_apart(folder: Path, tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", *map(mcq_row, ("plain", "$(touch pwned)", "two words", "`id`")))
    api.run(dataset, run_id="good", model="scripted/mcq-first", runs_dir=str(tmp_path / "runs"))
    for name in ("$(touch pwned)", "two words"):
        (tmp_path / "runs" / name).mkdir()
    place = ("--runs-dir", str(tmp_path / "runs"))
    assert in_bash(folder, "assay", "show", *place, "") == ["latest", "good"]
    assert in_bash(folder, "assay", "show", *place, "good", "") == ["plain"]


@has("fish")
def test_fish_offers_commands_with_what_they_do_and_runs(folder: Path) -> None:
    def ask(line: str) -> list[str]:
        command = ["fish", "--no-config", "-c", ASK_FISH, line]
        return subprocess.check_output(command, cwd=folder, env=environment(folder), text=True).splitlines()

    (offered,) = ask("assay valid")
    assert offered.startswith("validate\tValidate datasets and report every problem")
    assert sorted(ask("assay show ")) == ["latest\tThe newest run.", "monday", "tuesday"]


@has("zsh")
def test_zsh_completes_at_the_press_of_a_key(folder: Path) -> None:
    setup = 'PS1="> "; autoload -U compinit; compinit -u; eval "$(assay completion zsh)"; print read""y'
    shown = typed_in("zsh", folder, ["-f", "-i"], [(setup, "ready"), ("assay show mon\t", "assay show monday")])
    assert "assay show monday" in shown


@has("bash")
def test_bash_completes_at_the_press_of_a_key(folder: Path) -> None:
    setup = 'eval "$(assay completion bash)"; echo read""y'
    shown = typed_in("bash", folder, ["--norc", "-i"], [(setup, "ready"), ("assay show mon\t", "assay show monday")])
    assert "assay show monday" in shown


def typed_in(shell: str, folder: Path, options: list[str], steps: list[tuple[str, str]]) -> str:
    """What a shell in a pseudo-terminal shows while somebody types each text and waits for what should follow."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [shell, *options], cwd=folder, env=environment(folder), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        shown = ""
        for text, awaited in steps:
            os.write(ours, (text if text.endswith("\t") else f"{text}\n").encode())
            shown = read_until(ours, awaited)
        process.kill()
    return shown


def read_until(terminal: int, awaited: str, *, seconds: float = 60) -> str:
    shown, end = "", time.monotonic() + seconds
    while awaited not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 4096).decode("utf-8", "replace")
    return shown


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(program, ["completion", shell], prog_name="assay")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "_ASSAY_COMPLETE" in result.stdout


def test_suggested_models_exist() -> None:
    scripted = [name.removeprefix("scripted/") for name in ALWAYS if name.startswith("scripted/")]
    assert len(scripted) > 5
    assert [problem for name in scripted for problem in model_problems(name)] == []


@pytest.mark.parametrize("words", ["assay ", "assay show ", "assay gate ", "assay run x --model "])
def test_a_suggestion_loads_neither_the_engine_nor_numpy(folder: Path, words: str) -> None:
    code = "import sys; from assay.surfaces.cli.main import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_ASSAY_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("plain,")
    assert {"numpy", "asyncio", "yaml", "assay.api.runs"}.isdisjoint(done.stderr.split())
