"""The commands on runs and their reference page say the same."""

import re
from pathlib import Path

import click
import pytest

from assay.surfaces.cli.program import COMMANDS, program

PAGE = (Path(__file__).parent.parent.parent / "docs" / "reference" / "run.md").read_text(encoding="utf-8")
RUN_COMMANDS = [name for name in COMMANDS if name not in ("validate", "convert")]


def section(name: str) -> str:
    """The part of the page that is about one command."""
    return re.split(r"^## ", PAGE.split(f"## `assay {name}`\n")[1], flags=re.MULTILINE)[0]


def options(name: str) -> list[str]:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    given = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return [option for parameter in given for option in (*parameter.opts, *parameter.secondary_opts)]


def options_below(name: str) -> list[str]:
    """The options of a command, and of the commands of a group."""
    command = program.get_command(click.Context(program), name)
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    parameters = (parameter for one in inner for parameter in one.params if isinstance(parameter, click.Option))
    return [*options(name), *(option for parameter in parameters for option in parameter.opts)]


@pytest.mark.parametrize("name", RUN_COMMANDS)
def test_every_command_has_its_section_and_a_line_in_the_table(name: str) -> None:
    assert f"| [`assay {name}`](#assay-{name}) |" in PAGE
    assert "xit codes" in section(name)


@pytest.mark.parametrize("name", RUN_COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    assert [option for option in options(name) if f"`{option}" not in section(name)] == []


@pytest.mark.parametrize("name", RUN_COMMANDS)
def test_no_option_is_documented_that_does_not_exist(name: str) -> None:
    documented = re.findall(r"^\| (`--?[a-z].*?) \|", section(name), flags=re.MULTILINE)
    named = [option for cell in documented for option in re.findall(r"`(--?[a-z-]+)", cell)]
    assert [option for option in named if option not in options_below(name)] == []


@pytest.mark.parametrize("code", ["0", "1", "2", "130", "141"])
def test_every_exit_code_of_a_run_is_documented(code: str) -> None:
    assert f"\n| {code} | " in section("run")
