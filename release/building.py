"""A commit into a wheel and an sdist, built several times in different surroundings until they are proven to be the same bytes."""

import hashlib
import os
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from release.commands import ReleaseProblem, call

TIME_STEP = 2.1
"""Seconds; a zip file counts time in steps of two."""
LONG_AGO = 400_000_000
"""A time in 1982 that no build has anything to do with."""


class Commit(NamedTuple):
    """What is released."""

    sha: str
    epoch: int
    """When it was made; every file of a release carries this time."""

    @property
    def when(self) -> datetime:
        """The time of the commit."""
        return datetime.fromtimestamp(self.epoch, UTC)


class Built(NamedTuple):
    """The two files of a release, with the tree that they were built from."""

    commit: Commit
    tree: Path
    sdist: Path
    wheel: Path


def last_commit(root: Path) -> Commit:
    """The commit to release; raises ReleaseProblem when files differ from it, because those would not be in the release."""
    changed = call(["git", "status", "--porcelain"], folder=root)
    if changed:
        raise ReleaseProblem(f"a release is made from a commit, and these files are not as in the last one:\n{changed.rstrip()}")
    sha, epoch = call(["git", "log", "-1", "--format=%H %ct"], folder=root).split()
    return Commit(sha=sha, epoch=int(epoch))


def build_release(root: Path, scratch: Path, *, pause: float = TIME_STEP) -> Built:
    """Build everything twice and the wheel once more from the sdist; raises ReleaseProblem unless all are the same bytes."""
    commit = last_commit(root)
    first, second = scratch / "first", scratch / "another-folder" / "second"
    for tree in (first, second):
        _export(root, tree)
    _build(first, scratch / "built-1", commit, variables={"TZ": "UTC", "PYTHONHASHSEED": "1"}, umask=0o022)
    _touch(second)
    time.sleep(pause)
    _build(second, scratch / "built-2", commit, variables={"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "2"}, umask=0o077)
    sdist = _only(scratch / "built-1", "*.tar.gz")
    _build(unpack(sdist, scratch / "unpacked"), scratch / "built-3", commit, variables={}, umask=0o022, targets=("wheel",))
    wheel = _only(scratch / "built-1", "*.whl")
    _must_be_equal([sdist, _only(scratch / "built-2", "*.tar.gz")])
    _must_be_equal([wheel, _only(scratch / "built-2", "*.whl"), _only(scratch / "built-3", "*.whl")])
    return Built(commit=commit, tree=first, sdist=sdist, wheel=wheel)


def unpack(sdist: Path, folder: Path) -> Path:
    """The one folder in an sdist, unpacked below another."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return _only(folder, "*")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _export(root: Path, tree: Path) -> None:
    """What git keeps and nothing that lies around beside it."""
    tree.mkdir(parents=True)
    archive = tree.with_suffix(".tar")
    call(["git", "archive", "--output", archive, "HEAD"], folder=root)
    with tarfile.open(archive) as tracked:
        tracked.extractall(tree, filter="data")
    archive.unlink()


def _touch(tree: Path) -> None:
    """Give every file of a tree another time and narrower rights."""
    for path in tree.rglob("*"):
        if path.is_file():
            path.chmod(path.stat().st_mode & 0o700)
            os.utime(path, (LONG_AGO, LONG_AGO))


def _build(
    tree: Path, into: Path, commit: Commit, *, variables: dict[str, str], umask: int, targets: Iterable[str] = ("sdist", "wheel")
) -> None:
    # hatchling itself, not a front end that would fetch one: it comes from requirements/build.txt, under a hash.
    chosen = [word for target in targets for word in ("-t", target)]
    command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-d", into, *chosen]
    call(command, folder=tree, variables={**variables, "SOURCE_DATE_EPOCH": str(commit.epoch)}, umask=umask)


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ReleaseProblem(f"one {pattern} should have been made, not {len(found)}: {', '.join(path.name for path in found)}")
    return found[0]


def _must_be_equal(copies: list[Path]) -> None:
    if len({path.read_bytes() for path in copies}) == 1:
        return
    lines = [f"{digest(path)}  {path.parent.name}/{path.name}" for path in copies]
    raise ReleaseProblem("\n".join(["the same commit was built into different bytes:", *lines, *_differences(copies)]))


def _differences(copies: list[Path]) -> list[str]:
    """The first files by which archives differ, or that it is not their contents."""
    members = [_members(path) for path in copies]
    names = sorted({name for found in members for name in found})
    differing = [name for name in names if len({found.get(name) for found in members}) > 1]
    return [f"  {name}" for name in differing[:20]] or ["  the files in them are the same; times, rights, order or packing are not"]


def _members(path: Path) -> dict[str, bytes]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(path) as sdist:
        return {member.name: file.read() for member in sdist if (file := sdist.extractfile(member))}
