"""A run under way on a terminal: a bar, and below it what there is to know."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay import api
from assay.presentation.words import percent

BAR_WIDTH = 32
SPEED_WIDTH = 60
"""Cells for the percentage, the rate, the time left and the time so far; where there are fewer, they stand below the bar."""


class LiveDisplay:
    """Lines on a terminal that are drawn again and again, and are gone at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None

    @property
    def is_terminal(self) -> bool:
        """False where lines cannot be drawn again."""
        return self._console.is_terminal

    def draw(self, name: str, now: api.Snapshot, *, speed: str, notes: Mapping[str, str]) -> None:
        """The run as it stands now; notes are lines with their styles."""
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        counts = f"{now.done:,}/{now.total:,}"
        is_wide = cell_len(name) + BAR_WIDTH + len(counts) + SPEED_WIDTH <= self._console.width
        head = Table.grid(padding=(0, 1))
        head.add_row(
            Text(name, style="bold"),
            ProgressBar(total=max(now.total, 1), completed=now.done, width=BAR_WIDTH),
            Text(counts, no_wrap=True),
            Text(percent(now.done, now.total), no_wrap=True),
            *([Text(speed, style="dim")] if is_wide else []),
        )
        below = notes if is_wide else {speed: "dim", **notes}
        self._live.update(Group(head, *(_indented(note, style) for note, style in below.items())), refresh=True)

    def stop(self) -> None:
        """Take the lines away."""
        if self._live is not None:
            self._live.stop()


def _indented(note: str, style: str) -> Padding:
    """A line, and what it is folded into, below the bar."""
    return Padding(Text(note, style=style), (0, 0, 0, 2))
