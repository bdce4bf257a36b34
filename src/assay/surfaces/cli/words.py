"""Options and arguments that take one of several words."""

from collections.abc import Sequence

import click


class UnknownWord(click.BadParameter):
    """A word that is not one of those that a parameter takes."""

    def __init__(self, message: str, word: str, *, param: click.Parameter | None, known: Sequence[str]) -> None:
        super().__init__(message, param=param)
        self.word = word
        self.known = known


class WordChoice(click.Choice[str]):
    """One of several words; the error for another one names it, so that the nearest can be found."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word, or raise UnknownWord."""
        if value in self.choices:
            return str(value)
        raise UnknownWord(self.get_invalid_choice_message(value, ctx), str(value), param=param, known=self.choices)
