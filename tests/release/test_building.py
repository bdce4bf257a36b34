"""A release is the same bytes wherever and whenever it is built, or there is none."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from release.building import build_release, last_commit
from release.commands import ReleaseProblem
from tests.release.projects import commit, write_project

CLOCK = """
[tool.hatch.build.targets.wheel.hooks.custom]
"""
HOOK = """
import time
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Clock(BuildHookInterface):
    def initialize(self, version, build_data):
        made = Path(self.directory) / "built_at.txt"
        made.parent.mkdir(exist_ok=True)
        made.write_text(str(time.time()))
        build_data["force_include"][str(made)] = "assay/built_at.txt"
"""


def test_a_commit_is_built_into_files_that_carry_its_time(tmp_path: Path) -> None:
    root = commit(write_project(tmp_path / "project"))
    built = build_release(root, tmp_path / "scratch")
    with zipfile.ZipFile(built.wheel) as wheel, tarfile.open(built.sdist) as sdist:
        packed = {member.date_time[:5] for member in wheel.infolist()}
        sent = {member.mtime for member in sdist}
    assert packed == {built.commit.when.timetuple()[:5]}
    assert sent == {built.commit.epoch}


def test_a_build_that_looks_at_the_clock_is_refused_and_says_where(tmp_path: Path) -> None:
    root = commit(write_project(tmp_path / "project", settings=CLOCK, files={"hatch_build.py": HOOK}))
    with pytest.raises(ReleaseProblem, match=r"different bytes:(?s:.*)\n  assay/built_at.txt"):
        build_release(root, tmp_path / "scratch", pause=0)


def test_a_build_with_the_times_of_files_is_refused(tmp_path: Path) -> None:
    root = commit(write_project(tmp_path / "project", settings="[tool.hatch.build]\nreproducible = false\n"))
    with pytest.raises(ReleaseProblem, match="times, rights, order or packing are not"):
        build_release(root, tmp_path / "scratch", pause=0)


def test_what_is_not_committed_cannot_be_released(tmp_path: Path) -> None:
    root = commit(write_project(tmp_path / "project"))
    (root / "src" / "assay" / "forgotten.py").touch()
    with pytest.raises(ReleaseProblem, match=r"forgotten\.py"):
        last_commit(root)
