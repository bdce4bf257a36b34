"""Output for CI besides the report: JUnit, annotations of GitHub, and the summary of a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from assay.core.errors import UsageProblem
from assay.core.text import printable
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import OptionValues
from assay.surfaces.cli.streams import (
    STANDARD,
    check_writable,
    encoded,
    guarded,
    refuse_overwrite,
    standard_output,
    write_file,
    write_stream,
)

if TYPE_CHECKING:
    from assay.presentation.decisions import CheckedRun

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
SUMMARY_LIMIT = 1 << 20
"""Bytes of a summary that GitHub shows; of a larger one it shows nothing."""
_CUT = "\n\n**Cut here**: GitHub shows 1 MB of a summary, and this one has {:,} bytes more. `--markdown FILE` writes all of it.\n"

# --json and --markdown may take standard output, where an annotation would break the document.
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class PipelineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Output for CI that the options ask for."""

    junit: str | None = None
    is_github: bool = False
    is_report_shown: bool = True
    """Standard output has a report for people, and no document that a command in it would break."""

    @property
    def is_wanted(self) -> bool:
        """True when an option asks for output."""
        return self.is_github or self.junit is not None

    @property
    def options(self) -> list[str]:
        """Options that ask for the same output."""
        return [*([] if self.junit is None else ["--junit", self.junit]), *(["--github"] if self.is_github else [])]

    @classmethod
    def of(cls, given: OptionValues, sources: Sequence[str] = ()) -> PipelineOptions:
        """Read the options; raises UsageProblem for a file that cannot be written."""
        junit = given.get("junit")
        check_junit(junit, sources)
        is_report_shown = not given.get("is_json") and given.get("markdown") != STANDARD
        return cls(junit=junit, is_github=given["is_github"], is_report_shown=is_report_shown)

    def guarded(self, chunks: Iterable[str]) -> Iterator[str]:
        """Protect a report from commands to GitHub that a model's answer may contain."""
        return guarded(chunks, is_wanted=self.is_github)

    def write_junit(self, chunks: Iterable[str]) -> None:
        """Write the file, whole or not at all."""
        assert self.junit is not None
        write_file(self.junit, encoded(chunks))
        click.echo(f"JUnit in {printable(self.junit)}", err=True)

    def annotate(self, commands: Iterable[str]) -> None:
        """Print annotations for GitHub, which reads commands on both streams."""
        if self.is_report_shown:
            # GitHub reads workflow commands from both streams, so they can go where they disturb nothing.
            write_stream(encoded(commands), standard_output())
        else:
            click.echo("".join(commands), err=True, nl=False)


def github_option(command: Decorated) -> Decorated:
    """Add `--github`, for commands that workflows call."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--github",
        "is_github",
        is_flag=True,
        help=f"In GitHub Actions: annotate missed gates and records, and add the report to the job summary ({SUMMARY_VARIABLE}).",
    )
    return option(command)


def junit_option(command: Decorated) -> Decorated:
    """Add `--junit FILE`, for commands with a gate."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--junit", metavar="FILE", help="Write gates and records as JUnit XML, for test reports of CI servers."
    )
    return option(command)


def check_junit(path: str | None, sources: Sequence[str] = ()) -> None:
    """Raise UsageProblem, before any work, when the file could not be written."""
    if path == STANDARD:
        raise UsageProblem("--junit needs the name of a file", hint="--junit results.xml")
    if path is not None:
        check_writable(path, option="--junit")
        refuse_overwrite(path, sources, option="--junit")


def append_summary(chunks: Iterable[str], *, limit: int = SUMMARY_LIMIT) -> None:
    """Add Markdown to the summary of the job, where there is one; what GitHub would not show is cut, and said to be."""
    path = os.environ.get(SUMMARY_VARIABLE)
    if not path:
        return
    text = "".join(chunks).encode("utf-8", "replace")
    target = Path(path)
    try:
        # The limit is one of the step, whose summary other tools may have begun.
        room = limit - (target.stat().st_size if target.exists() else 0)
        if len(text) > room:
            exits.print_error(f"the job summary is cut: {len(text):,} bytes, and GitHub shows {limit:,} of one step")
            text = _cut(text, room)
        with target.open("ab") as file:
            file.write(text)
    except OSError as problem:
        # What was decided stays decided.
        exits.print_error(f"the job summary ({SUMMARY_VARIABLE}) cannot be written: {problem.strerror}")


def _cut(text: bytes, room: int) -> bytes:
    """Keep the lines that fit and a note of the rest; nothing if the note does not fit either."""
    note = _CUT.format(len(text)).encode()
    if room < len(note):
        return b""
    # At the end of a line, or a table would be cut within a cell.
    kept = text[: room - len(note)].rpartition(b"\n")[0]
    return kept + _CUT.format(len(text) - len(kept)).encode()


def write_checks(pipeline: PipelineOptions, runs: Sequence[CheckedRun], *, summary: Callable[[], Iterable[str]]) -> None:
    """Write what the options ask for: JUnit, annotations, and the Markdown of `summary` into the summary of the job."""
    # Loaded here: most runs are not part of a pipeline.
    if pipeline.junit is not None:
        pipeline.write_junit(import_module("assay.surfaces.reporters.junit").run_junit(runs))
    if pipeline.is_github:
        pipeline.annotate(import_module("assay.surfaces.reporters.github").run_annotations(runs))
        append_summary(summary())
