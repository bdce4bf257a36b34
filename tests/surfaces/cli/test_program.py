"""Helps on a terminal of 80 columns."""

import re
from collections.abc import Iterator

import click
import pytest

from assay.surfaces.cli.program import program
from tests.commands import assay


def called(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command, as it is called."""
    yield words
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        inner = command.get_command(context, name)
        assert inner is not None
        yield from called(inner, (*words, name))


@pytest.mark.parametrize("words", list(called(program)), ids=" ".join)
def test_no_line_of_a_help_is_wider_than_the_terminal(words: tuple[str, ...]) -> None:
    lines = assay(*words, "--help").stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("name", ["run", "rank", "worker"])
def test_a_folded_example_is_the_same_command(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    assert command.epilog is not None
    shown = re.sub(r" \\\n +", " ", assay(name, "--help").stdout)
    examples = re.findall(r"^  (assay .*)$", command.epilog, re.MULTILINE)
    assert len(examples) > 2
    assert [example for example in examples if example not in shown] == []


def test_an_option_and_its_value_stay_together() -> None:
    assert "-o prbench.jsonl \\\n      --report prbench.report.json\n" in assay("convert", "--help").stdout


def test_what_an_exit_code_means_goes_on_below_its_beginning() -> None:
    assert (
        "\n    2  could not run: a file of that name exists, or the folder cannot be\n       written\n"
        in assay("init", "--help").stdout
    )
