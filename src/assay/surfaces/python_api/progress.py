"""How a run is going, for whoever called it: a bar in a notebook, lines on standard error where they are asked for."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import msgspec

from assay.surfaces.python_api.loop_bridge import Watch


class ProgressSink(msgspec.Struct, frozen=True):
    """Where the snapshots of a run go."""

    watch: Watch | None


def shown_progress(name: str, *, is_wanted: bool | None, watch: Watch | None = None) -> AbstractContextManager[ProgressSink]:
    """A display for the time of a `with` block: in notebooks unless it is not wanted, elsewhere only where it is."""
    if is_wanted is False or (is_wanted is None and not is_notebook()):
        return nullcontext(ProgressSink(watch))
    return _in_notebook(name, watch) if is_notebook() else _on_standard_error(name, watch)


def is_notebook() -> bool:
    """True in the kernel of a notebook; nothing is imported to find out."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _in_notebook(name: str, watch: Watch | None) -> Iterator[ProgressSink]:
    display = import_module("assay.surfaces.python_api.notebook").NotebookProgress(name)
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
