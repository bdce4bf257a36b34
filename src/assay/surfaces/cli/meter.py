"""A progress bar on standard error, for work that takes more than a second."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn

from assay.core.text import printable

PATIENCE = 1.0
"""Seconds of work before a bar appears."""
REFRESH = 0.1
NAME_LENGTH = 32


class ProgressMeter:
    """Shows how much of the current source is done, in bytes unless told otherwise; it hides while a report is printed."""

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
        """The source that the next counts are about."""
        self.hide()
        self._name = _shortened(printable(name))

    def count(self, done: int, total: int) -> None:
        """So much of the source is done; draws at most ten times a second."""
        now = self._clock()
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
        auto_refresh=False,
        transient=True,
    )


def _shortened(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else "…" + name[1 - NAME_LENGTH :]
