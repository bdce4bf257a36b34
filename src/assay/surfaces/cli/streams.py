"""Text chunks onto standard output, or into a file that appears only when it is complete."""

import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from assay.core.errors import UsageProblem
from assay.surfaces.cli.exits import OutputClosed

MANIFEST = "run_manifest.json"
"""File that identifies the folder of a finished run."""
STANDARD = "-"
"""Name of standard input and standard output."""


def standard_output() -> TextIO:
    """Return standard output; raises UsageProblem when it was closed from the start."""
    if sys.stdout is None:
        # Started with `>&-`, where Python has no stream at all.
        raise UsageProblem("standard output is closed", hint="open it, or let it lead into a file: assay ... > FILE")
    return sys.stdout


def write_stream(chunks: Iterable[bytes], stream: TextIO) -> None:
    """Write bytes to a text stream; raises OutputClosed when the reader has closed it."""
    is_watched = stream.isatty()
    try:
        for chunk in chunks:
            stream.buffer.write(chunk)
            # A terminal shows what is there at once; a pipe gets whole blocks.
            if is_watched:
                stream.buffer.flush()
        stream.buffer.flush()
    # As an error of ours: click would turn it into exit code 1, which means a missed gate.
    except BrokenPipeError as problem:
        raise OutputClosed from problem


def guarded(chunks: Iterable[str], *, is_wanted: bool = False) -> Iterator[str]:
    """Protect a report from commands to GitHub that a model's answer may contain; outside GitHub only if asked to."""
    # In GitHub Actions every line of the log is read for commands, also of steps that did not ask for --github.
    if not is_wanted and os.environ.get("GITHUB_ACTIONS") != "true":
        yield from chunks
        return
    # Random, so that a model cannot print the line that enables commands again.
    token = secrets.token_hex(16)
    yield f"::stop-commands::{token}\n"
    try:
        yield from chunks
    # Also when the report breaks off, or commands of later steps would be ignored.
    finally:
        yield f"\n::{token}::\n"


def encoded(chunks: Iterable[str], encoding: str = "utf-8") -> Iterator[bytes]:
    """Encode chunks; characters that the encoding lacks become question marks."""
    for chunk in chunks:
        yield chunk.encode(encoding, "replace")


def write_file(path: str, chunks: Iterable[bytes]) -> None:
    """Write a file that replaces an older one only when all chunks are there; devices and pipes are written directly."""
    given = Path(path)
    # A device or a pipe cannot be replaced by a rename.
    is_special = given.exists() and not given.is_file()
    # The target of a symlink is replaced, not the link.
    with _naming(path), _special(given) if is_special else _whole(Path(os.path.realpath(path))) as stream:
        for chunk in chunks:
            stream.write(chunk)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Make errors of the operating system name the requested file, not the temporary one."""
    try:
        yield
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror or str(problem), path) from problem


@contextmanager
def _special(target: Path) -> Iterator[BinaryIO]:
    with target.open("wb") as stream:
        yield stream


@contextmanager
def _whole(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the target after a clean end."""
    # In the same folder, since a rename cannot cross file systems.
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    # Exclusive: processes of two containers may have the same id, and must not write into one temporary file.
    with partial.open("xb") as stream:
        try:
            yield stream
            stream.flush()
            # Before the rename: after a power failure the name must not lead to an empty file.
            os.fsync(stream.fileno())
            # A new file gets the mode of the one that it replaces; without one, that of the umask.
            with suppress(FileNotFoundError):
                partial.chmod(target.stat().st_mode)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str) -> Iterator[Path]:
    """Create a temporary folder that replaces the target after a clean end."""
    target = Path(os.path.realpath(path))
    partial, older = (target.with_name(f".{target.name}.{os.getpid()}.{what}") for what in ("partial", "older"))
    with _naming(path):
        partial.mkdir()
    try:
        # The old folder stays under another name until the new one is in place.
        yield partial
        if target.exists():
            target.rename(older)
        _take_place(partial, target, older)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(older, ignore_errors=True)


def _take_place(partial: Path, target: Path, older: Path) -> None:
    """Move the new folder to its place; restore the older one if that fails."""
    try:
        partial.rename(target)
    except OSError:
        if older.exists():
            older.rename(target)
        raise


def refuse_overwrite(output: str, sources: Iterable[str], *, option: str) -> None:
    """Raise UsageProblem when the output is one of the sources, regardless of its spelling."""
    if any(is_same_file(output, source) for source in sources):
        raise UsageProblem(f"{option} '{output}' is one of the sources", hint="sources are never changed: name another file")


def is_same_file(one: str, other: str) -> bool:
    """Return whether two names lead to the same file; standard input and output never do."""
    return STANDARD not in (one, other) and os.path.realpath(one) == os.path.realpath(other)


def check_writable(output: str, *, option: str) -> None:
    """Raise UsageProblem before any work when the output's folder is missing or read-only, or the output is a folder."""
    path = Path(output)
    if output == STANDARD:
        return
    if path.is_dir():
        raise UsageProblem(f"{option} '{output}' is a folder", hint="name a file")
    if not path.parent.is_dir():
        raise UsageProblem(f"{option} '{output}': there is no folder '{path.parent}'", hint="make it first, or name another place")
    # A file in a sealed folder would make `assay verify` report one that does not belong to the run.
    if (path.parent / MANIFEST).is_file():
        raise UsageProblem(
            f"{option} '{output}' would become a part of a finished run",
            hint="artifacts are never overwritten: name a file in another folder",
        )
    # A device or a pipe is written directly; a file is written to a temporary one in its folder first.
    is_special = path.exists() and not path.is_file()
    refuse_read_only(path if is_special else Path(os.path.realpath(path)).parent, f"{option} '{output}'")


def refuse_read_only(place: Path, what: str) -> None:
    """Raise UsageProblem before any work when nothing can be written there."""
    if not os.access(place, os.W_OK):
        raise UsageProblem(f"{what}: this user may not write to '{place}'", hint="name another place")
