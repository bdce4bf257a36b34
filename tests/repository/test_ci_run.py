"""Continuous integration ends with an error when the checks or the tests leave something in the repository."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def repository(folder: Path, make: str) -> Path:
    """A repository with the script, in which `make test` is a line of shell."""
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    shutil.copy(ROOT / ".gitignore", folder / ".gitignore")
    (folder / "Makefile").write_text(f"check:\n\t@true\ntest:\n\t@{make}\n", encoding="utf-8")
    (folder / "kept.txt").write_text("as it was\n", encoding="utf-8")
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "-A"), (*settings, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


def ci(folder: Path) -> subprocess.CompletedProcess[str]:
    # Not those of the repository that these tests may be run from, as a hook of git for example.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "MAKE"))}
    return subprocess.run([folder / ".ci" / "run"], cwd=folder.parent, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        ("touch run.yaml", "run.yaml"),
        ("echo changed > kept.txt", "kept.txt"),
        ("rm kept.txt", "kept.txt"),
        ("mkdir -p runs/first && touch runs/first/plan.json", "runs/first/plan.json"),
    ],
)
def test_what_a_test_leaves_in_the_repository_is_an_error_that_names_it(tmp_path: Path, make: str, named: str) -> None:
    done = ci(repository(tmp_path / "repository", make))
    assert done.returncode == 1
    assert named in done.stderr


@pytest.mark.parametrize(
    "make", ["true", "mkdir -p .pytest_cache tests/__pycache__ && touch .pytest_cache/a tests/__pycache__/a.pyc"]
)
def test_nothing_and_the_caches_of_tools_may_be_left(tmp_path: Path, make: str) -> None:
    folder = repository(tmp_path / "repository", make)
    mine = folder / "runs" / "of-mine"
    mine.mkdir(parents=True)
    (mine / "plan.json").touch()
    done = ci(folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_checks_and_tests_that_fail_are_an_error(tmp_path: Path) -> None:
    assert ci(repository(tmp_path / "repository", "false")).returncode != 0
