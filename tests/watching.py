"""Runs assay in this interpreter and reports what it did: `python -B tests/watching.py REPORT [ARGUMENT ...]`.

Without arguments every name behind the door is loaded; with some the command is called with them. The report is JSON: every audit
event but harmless ones, with what it was about and the module that caused it, and every environment variable that assay read.
"""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
HARMLESS = ("import", "sys._getframe", "object.__getattr__", "object.__setattr__", "builtins.id", "code.__new__", "array.__new__")
events: list[tuple[str, str, str]] = []
variables: set[str] = set()


class Environment(os._Environ):  # type: ignore[type-arg]  # the only door to variables, whose reads raise no event
    """The variables of this process, which remembers what assay asks for."""

    def __getitem__(self, key: str) -> str:
        note_variable(key)
        value: str = super().__getitem__(key)
        return value

    def __iter__(self) -> Iterator[str]:
        note_variable("*")
        return super().__iter__()


def note_variable(name: str) -> None:
    """Remember a variable that is read by assay, directly or through a mapping's own methods."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") in ("os", "collections.abc", "_collections_abc"):
        frame = frame.f_back
    if str(frame.f_globals.get("__name__")).startswith("assay."):
        variables.add(name)


def note_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Remember an event; one that opens a file to write is called `write`."""
    if event in HARMLESS:
        return
    about = str(arguments[0])[:500] if arguments else ""
    if event == "open":
        event = "write" if arguments[2] & WRITING else "read"
    elif event in ("compile", "exec"):
        about = str(getattr(arguments[0], "co_filename", None) or arguments[-1])
    events.append((event, about, str(sys._getframe(1).f_globals.get("__name__"))))


def main() -> None:
    """Watch, work, report."""
    report, *arguments = sys.argv[1:]
    os.environ.__class__ = Environment
    sys.addaudithook(note_event)
    sys.argv = ["assay", *arguments]
    try:
        if arguments:
            importlib.import_module("assay.surfaces.cli.main").main()
        else:
            door = importlib.import_module("assay")
            for name in door.__all__:
                getattr(door, name)
    finally:
        seen = {"events": sorted(set(events)), "variables": sorted(variables), "modules": sorted(sys.modules)}
        Path(report).write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
