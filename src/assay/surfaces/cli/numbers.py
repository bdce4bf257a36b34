"""Numbers on the command line: within bounds, and never `nan` or `inf`, which no comparison refuses."""

from math import isfinite
from typing import Any

import click

from assay.core.errors import UsageProblem

ALL = "all"


class Number(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails as click's own types do."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a number to compare with.", param, ctx)
        return number


def number_or_all(text: str, *, option: str) -> int | None:
    """How many are wanted; None for all of them. Raises UsageProblem."""
    if text == ALL:
        return None
    if not text.isascii() or not text.isdigit():
        raise UsageProblem(f"{option} takes a number or '{ALL}', not '{text}'")
    return int(text)
