"""Progress on a terminal: a bar for work that takes more than a second, and the live display of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay import api
from assay.core.text import printable
from assay.presentation.words import percent

PATIENCE = 1.0
"""Seconds of work before a bar appears."""
REFRESH = 0.1
NAME_LENGTH = 32


class ProgressMeter:
    """Shows how much of the current source is done, by default in bytes; it hides while a report is printed."""

    def __init__(
        self,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        amount: ProgressColumn | None = None,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._amount = amount or DownloadColumn()
        self._clock = clock
        self._started = self._drawn = clock()
        self._name = ""
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def begin(self, name: str) -> None:
        """Start the bar of the next source."""
        self.hide()
        self._name = _shortened(printable(name))

    def count(self, done: int, total: int) -> None:
        """Update the bar; draws at most ten times a second."""
        now = self._clock()
        # Most files take less than a second, and a bar that flashes is worse than none.
        if not self._console.is_terminal or now - self._started < PATIENCE or now - self._drawn < REFRESH:
            return
        self._drawn = now
        if self._progress is None:
            self._progress = _bar(self._console, self._amount)
            self._task = self._progress.add_task("", total=total, name=self._name)
            self._progress.start()
        self._progress.update(self._task, completed=done, total=total)
        self._progress.refresh()

    def hide(self) -> None:
        """Remove the bar; the next count may draw it again."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _bar(console: Console, amount: ProgressColumn) -> Progress:
    return Progress(
        TextColumn("{task.fields[name]}", markup=False),
        BarColumn(),
        amount,
        TimeRemainingColumn(),
        console=console,
        # Drawn by `count`, in the thread that does the work: a thread of rich would draw into the report.
        auto_refresh=False,
        transient=True,
    )


def _shortened(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else "…" + name[1 - NAME_LENGTH :]


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
        """False if lines cannot be redrawn."""
        return self._console.is_terminal

    def draw(self, name: str, now: api.Snapshot, *, speed: str, notes: Mapping[str, str]) -> None:
        """Draw the progress of a run; notes are lines with their styles."""
        if self._live is None:
            self._live = Live(
                # Redirecting would swallow what the report and warnings write meanwhile.
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
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
    """Indent a line below the bar, however it is folded."""
    # rich would indent only the first of the folded lines.
    return Padding(Text(note, style=style), (0, 0, 0, 2))
