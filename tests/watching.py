"""Runs assay in this interpreter and reports what it did: `python -B tests/watching.py REPORT door|modules|command [ARGUMENT ...]`.

`door` loads every name of `import assay`, `modules` every module of the package; `command` is called with the arguments. The
report is JSON: every audit event but harmless ones and every thread, with what it was about and the modules that caused it and are
behind it; every environment variable that assay read; every module that was not found.
"""

import _thread
import importlib
import json
import os
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
HARMLESS = ("import", "sys._getframe", "object.__getattr__", "object.__setattr__", "builtins.id", "code.__new__", "array.__new__")
events: list[tuple[str, str, str, str]] = []
variables: set[str] = set()
missing: set[str] = set()


class Environment(os._Environ):  # type: ignore[type-arg]  # the only door to variables, whose reads raise no event
    """The variables of this process, which remembers what assay asks for."""

    def __getitem__(self, key: str | bytes) -> str | bytes:
        note_variable(os.fsdecode(key))
        value: str | bytes = super().__getitem__(key)
        return value

    def __iter__(self) -> Iterator[str | bytes]:
        note_variable("*")
        return super().__iter__()


def note_variable(name: str) -> None:
    """Remember a variable that is read by assay, directly or through a mapping's own methods."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") in ("os", "collections.abc", "_collections_abc"):
        frame = frame.f_back
    if str(frame.f_globals.get("__name__")).split(".")[0] == "assay":
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
    events.append((event, about, str(sys._getframe(1).f_globals.get("__name__")), behind()))


def behind() -> str:
    """The nearest module that is no part of the standard library, or that is a part that does this while it is loaded itself."""
    frame = sys._getframe(2)
    while frame.f_back and (frame.f_code.co_name == "start_and_tell" or is_of_the_library(frame)):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def is_of_the_library(frame: FrameType) -> bool:
    """Whether a function of the standard library does what another module asked it to."""
    return frame.f_code.co_name != "<module>" and str(frame.f_globals.get("__name__")).split(".")[0] in sys.stdlib_module_names


def watch_threads() -> None:
    """Make the start of a thread an event, which it is only from Python 3.12 on."""
    for name in ("start_new_thread", "start_joinable_thread"):
        for module, function in ((_thread, name), (threading, f"_{name}")):
            if hasattr(module, function):
                setattr(module, function, noted(getattr(module, function)))


def noted(start: Callable[..., Any]) -> Callable[..., Any]:
    """A function that starts threads, and says so."""

    def start_and_tell(*arguments: Any, **options: Any) -> Any:
        sys.audit("thread.start", arguments[0])
        return start(*arguments, **options)

    return start_and_tell


def load_names() -> None:
    """Load every name behind the door."""
    door = importlib.import_module("assay")
    for name in door.__all__:
        getattr(door, name)


def load_modules() -> None:
    """Load every module, but those for which an extra is missing."""
    package = importlib.import_module("assay")
    extra = importlib.import_module("assay.core.errors").MissingExtra
    for module in pkgutil.walk_packages(package.__path__, "assay."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as problem:
            missing.add(str(problem.name).split(".")[0])
        except extra as problem:
            missing.add(problem.hint)


def main() -> None:
    """Watch, work, report."""
    report, what, *arguments = sys.argv[1:]
    os.environ.__class__ = os.environb.__class__ = Environment
    watch_threads()
    sys.addaudithook(note_event)
    sys.argv = ["assay", *arguments]
    try:
        if what == "command":
            importlib.import_module("assay.surfaces.cli.main").main()
        else:
            {"door": load_names, "modules": load_modules}[what]()
    finally:
        seen = {"events": sorted(set(events)), "variables": sorted(variables), "modules": sorted(sys.modules)}
        seen["missing"] = sorted(missing)
        Path(report).write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
