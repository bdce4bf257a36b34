"""The command line and its reference page say the same."""

from pathlib import Path

import click
import pytest

from assay import ValidationConfig
from assay.core.contract import CONTRACTS
from assay.surfaces.cli import convert, validate
from assay.surfaces.reporters.formats import FORMATS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def page_names(word: str, *, part: slice = slice(None)) -> bool:
    """Whether the page on validation has a word as code; a function, so that a failure shows the word and not the page."""
    parts = (REFERENCE / "validate.md").read_text(encoding="utf-8").split("## `assay convert`")
    return any(f"`{word}" in text for text in parts[part])


def options(command: click.Command) -> list[str]:
    return [name for parameter in command.params if isinstance(parameter, click.Option) for name in parameter.opts]


@pytest.mark.parametrize("option", options(validate.validate_command))
def test_every_option_of_validate_is_documented(option: str) -> None:
    assert page_names(option, part=slice(1))


@pytest.mark.parametrize("option", options(convert.convert_command))
def test_every_option_of_convert_is_documented(option: str) -> None:
    assert page_names(option, part=slice(1, None))


@pytest.mark.parametrize("setting", ValidationConfig.__struct_fields__)
def test_every_setting_of_the_validation_is_in_the_section_that_the_error_names(setting: str) -> None:
    section = (REFERENCE / "contracts.md").read_text(encoding="utf-8").partition("## Settings")[2]
    assert any(f"`{setting}`" in line for line in section.splitlines())


@pytest.mark.parametrize("word", [*FORMATS, *validate.ALIASES, "auto", *CONTRACTS, *convert.BENCHMARKS, *convert.ID_STYLES])
def test_every_word_that_an_option_takes_is_documented(word: str) -> None:
    assert page_names(f"{word}`")
