"""Options that say where a run is kept and worked on, the same for every command that starts one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from assay.core.placement import Placement

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def placement_options(command: Decorated) -> Decorated:
    """`--ledger` and what belongs to it."""
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option(
            "--ledger",
            metavar="ADDRESS",
            default="",
            envvar="ASSAY_LEDGER",
            help="Keep the run in PostgreSQL until it ends: postgresql://user@host/database.  [default: a file]",
        ),
    )
    for option in options:
        command = option(command)
    return command


def placement_of(given: dict[str, Any]) -> Placement:
    """What the options say, taken out of them."""
    return Placement(ledger=given.pop("ledger"))
