"""A run under way in a notebook: one output that is drawn anew, of plain HTML, so that nothing has to be installed for it."""

from importlib import import_module
from typing import Any

from assay import api
from assay.surfaces.cli.progress import Throughput, plain_line
from assay.surfaces.printable import printable
from assay.surfaces.python_api.cards import progress_card


class NotebookProgress:
    """Shows runs while they are under way; what stays at the end is one line."""

    def __init__(self, name: str) -> None:
        self._name = printable(name, limit=60)
        self._pace = Throughput()
        self._last: api.Snapshot | None = None
        self._shown: Any = None

    def watch(self, now: api.Snapshot) -> None:
        """Draw the run as it stands now."""
        if self._last is not None and now.elapsed_s < self._last.elapsed_s:
            # The next candidate's.
            self._pace = Throughput()
        self._pace.note(now)
        self._last = now
        self._draw(is_over=False)

    def close(self) -> None:
        """The last drawing."""
        if self._last is not None:
            self._draw(is_over=True)

    def _draw(self, *, is_over: bool) -> None:
        assert self._last is not None
        line = plain_line(self._last, self._pace)
        if is_over and self._last.is_stopping:
            line += " · progress is saved; resume with: assay.open_run(...).resume()"
        both = {"text/plain": f"{self._name} · {line}", "text/html": progress_card(self._name, self._last, line, is_over=is_over)}
        if self._shown is None:
            self._shown = import_module("IPython.display").display(both, raw=True, display_id=True)
        else:
            self._shown.update(both, raw=True)
