"""The command line and its reference page say the same."""

from pathlib import Path

import click
import pytest

from assay.surfaces.cli import convert, validate
from assay.surfaces.reporters import FORMATS

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "validate.md").read_text(encoding="utf-8")


def options(command: click.Command) -> list[str]:
    return [name for parameter in command.params if isinstance(parameter, click.Option) for name in parameter.opts]


@pytest.mark.parametrize("option", options(validate.command))
def test_every_option_of_validate_is_documented(option: str) -> None:
    assert f"`{option}" in PAGE.split("## `assay convert`")[0]


@pytest.mark.parametrize("option", options(convert.command))
def test_every_option_of_convert_is_documented(option: str) -> None:
    assert f"`{option}" in PAGE.split("## `assay convert`")[1]


@pytest.mark.parametrize("word", [*FORMATS, *validate.ALIASES, *validate.CONTRACTS, *convert.BENCHMARKS, *convert.ID_STYLES])
def test_every_word_that_an_option_takes_is_documented(word: str) -> None:
    assert f"`{word}`" in PAGE
