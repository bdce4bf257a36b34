"""The page on exit codes says what the code says."""

import re
from pathlib import Path

import click

from assay.surfaces.cli import exits
from assay.surfaces.cli.program import COMMANDS, program

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
NAMES = {name: value for name, value in vars(exits).items() if name.isupper() and type(value) is int and name != "MAX_PROBLEMS"}
USUAL = ["0", "2"]


def told_by(command: str) -> list[str]:
    """The exit codes in a command's help."""
    found = program.get_command(click.Context(program), command)
    assert found is not None
    return re.findall(r"^\s+(\d+)\s+\S", (found.epilog or "").partition("Exit codes:")[2], flags=re.MULTILINE)


def test_every_code_is_named_as_in_the_source() -> None:
    rows = re.findall(r"^\| (\d+) \| (`.+?`) \| ", PAGE, flags=re.MULTILINE)
    assert {name: int(code) for code, names in rows for name in re.findall(r"`(\w+)`", names)} == NAMES


def test_every_command_tells_its_codes() -> None:
    assert [name for name in COMMANDS if not set(USUAL) <= set(told_by(name))] == []


def test_commands_with_more_than_the_usual_codes_are_listed_with_them() -> None:
    rows = re.findall(r"^\| \[`assay (\w+)`\]\(.+?\) \| ([\d, ]+) \|", PAGE, flags=re.MULTILINE)
    assert {name: codes.split(", ") for name, codes in rows} == {name: told_by(name) for name in COMMANDS if told_by(name) != USUAL}
