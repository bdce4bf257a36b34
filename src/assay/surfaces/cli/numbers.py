"""Numbers on the command line: within bounds, and never `nan` or `inf`, which no comparison refuses."""

from math import isfinite
from typing import Any

import click

from assay.core.errors import UsageProblem

ALL = "all"
_LAST_PORT = 65535


class Number(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails as click's own types do."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a number to compare with.", param, ctx)
        return number


class Port(click.IntRange):
    """A port to listen on; 0 is any that is free."""

    def __init__(self) -> None:
        super().__init__(0, _LAST_PORT)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The port; fails as click's own types do."""
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _LAST_PORT):
            self.fail(f"{text!r} is not a port number (1 to {_LAST_PORT})", param, ctx)
        return int(text)


def number_or_all(text: str, *, option: str) -> int | None:
    """How many are wanted; None for all of them. Raises UsageProblem."""
    if text == ALL:
        return None
    if not text.isascii() or not text.isdigit():
        raise UsageProblem(f"{option} takes a number or '{ALL}', not '{text}'")
    return int(text)
