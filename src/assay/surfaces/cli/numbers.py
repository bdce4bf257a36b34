"""Numbers on the command line: within bounds, and never `nan` or `inf`, which no comparison refuses."""

from math import isfinite
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails as click's own types do."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a number to compare with.", param, ctx)
        return number
