"""Progress of a run in a notebook: one output that is redrawn as plain HTML, so that no extra package is needed."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import msgspec

from assay import api
from assay.core.text import printable
from assay.surfaces.cli.progress import Throughput, plain_line
from assay.surfaces.python_api.cards import progress_card
from assay.surfaces.python_api.loop_bridge import Watch


class NotebookProgress:
    """Shows runs while they are under way; what stays at the end is one line."""

    def __init__(self, name: str) -> None:
        self._name = printable(name, limit=60)
        self._pace = Throughput()
        self._last: api.Snapshot | None = None
        self._shown: Any = None

    def watch(self, now: api.Snapshot) -> None:
        """Draw the run as it stands now."""
        # Seconds start again with each candidate, and the rate of the one before is not that of this one.
        if self._last is not None and now.elapsed_s < self._last.elapsed_s:
            # The next candidate's.
            self._pace = Throughput()
        self._pace.note(now)
        self._last = now
        self._draw(is_over=False)

    def close(self) -> None:
        """Draw the last snapshot."""
        if self._last is not None:
            self._draw(is_over=True)

    def _draw(self, *, is_over: bool) -> None:
        assert self._last is not None
        line = plain_line(self._last, self._pace)
        if is_over and self._last.is_stopping:
            line += " · progress is saved; resume with: assay.open_run(...).resume()"
        both = {"text/plain": f"{self._name} · {line}", "text/html": progress_card(self._name, self._last, line, is_over=is_over)}
        if self._shown is None:
            # `display_id` makes an output that can be replaced; without it each update would add a line.
            self._shown = import_module("IPython.display").display(both, raw=True, display_id=True)
        else:
            self._shown.update(both, raw=True)


class ProgressSink(msgspec.Struct, frozen=True):
    """Receiver of a run's snapshots."""

    watch: Watch | None


def shown_progress(name: str, *, is_wanted: bool | None, watch: Watch | None = None) -> AbstractContextManager[ProgressSink]:
    """Show progress during the block: by default in notebooks only."""
    # A script's standard error belongs to the script, so progress is shown only when asked for.
    if is_wanted is False or (is_wanted is None and not is_notebook()):
        return nullcontext(ProgressSink(watch))
    return _in_notebook(name, watch) if is_notebook() else _on_standard_error(name, watch)


def is_notebook() -> bool:
    """Return whether this is the kernel of a notebook, without importing anything."""
    # Looked up and not imported: a process without IPython is not a notebook.
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _in_notebook(name: str, watch: Watch | None) -> Iterator[ProgressSink]:
    # Imported by name, since cards need templates and charts, which scripts do without.
    display = import_module("assay.surfaces.python_api.progress").NotebookProgress(name)
    try:
        yield ProgressSink(_both(display.watch, watch))
    finally:
        display.close()


@contextmanager
def _on_standard_error(name: str, watch: Watch | None) -> Iterator[ProgressSink]:
    with import_module("assay.surfaces.cli.progress").RunProgress(name) as display:
        yield ProgressSink(_both(display.watch, watch))


def _both(draw: Any, watch: Watch | None) -> Watch:
    def watched(now: Any) -> None:
        draw(now)
        if watch is not None:
            watch(now)

    return watched
