"""Starts other programs, and says what they said when they fail."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SOURCE_DATE_EPOCH")
"""Variables of whoever releases that could make it come out otherwise; those that begin with ASSAY_ are left out too."""


class ReleaseProblem(Exception):
    """Why there is no release."""


def surroundings(**others: str) -> dict[str, str]:
    """The environment without what could change a release, and with these variables."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT and not name.startswith("ASSAY_")}
    return kept | others


def call(command: Sequence[str | Path], *, folder: Path, variables: Mapping[str, str] | None = None, umask: int = -1) -> str:
    """What a program printed; raises ReleaseProblem with all of it unless it ends with 0, or if there is no such program."""
    environment = surroundings(**(variables or {}))
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, umask=umask, check=False, encoding="utf-8", stdout=pipe, stderr=both
        )
    except OSError as problem:
        raise ReleaseProblem(f"{command[0]} could not be started: {problem.strerror}") from problem
    if done.returncode:
        raise ReleaseProblem(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout.rstrip()}")
    return done.stdout
