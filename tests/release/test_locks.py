"""The lock files hold all that is installed, each with hashes, and name no place to take it from."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
LOCKS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "requirements").iterdir())}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINE = re.compile(r"#.*|[a-z0-9-]+==[0-9][\w.+!]*( ; [^@#\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
PIN = re.compile(r"^([a-z0-9-]+)==([\w.+!]+)", re.MULTILINE)
NOT_LOCKED = {"litellm"}
"""Part of no environment of ours: whoever wants it chooses the release."""


def pins(lock: str) -> dict[str, str]:
    """Name and version of everything in a lock file."""
    return dict(PIN.findall(LOCKS[lock]))


def missing(requirements: list[str], lock: dict[str, str]) -> list[str]:
    """The requirements that a lock file does not fulfil."""
    parsed = [Requirement(requirement) for requirement in requirements]
    return [str(wanted) for wanted in parsed if not wanted.specifier.contains(lock.get(canonicalize_name(wanted.name), "0"))]


def test_the_lock_files_are_those_that_make_lock_renews() -> None:
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlock:")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"-o requirements/([a-z]+)\.txt", rule)) == sorted(LOCKS)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_a_comment_a_pin_or_a_hash(lock: str) -> None:
    assert [line for line in LOCKS[lock].splitlines() if not LINE.fullmatch(line)] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash(lock: str) -> None:
    entries = re.split(r"\n(?=\w)", LOCKS[lock])[1:]
    assert len(entries) == len(PIN.findall(LOCKS[lock])) > 0
    assert [entry.split()[0] for entry in entries if "\n    --hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", ["core", "dev"])
def test_what_assay_stands_on_is_locked(lock: str) -> None:
    assert missing(PROJECT["project"]["dependencies"], pins(lock)) == []


@pytest.mark.parametrize("group", PROJECT["dependency-groups"])
def test_a_dependency_group_is_locked_in_the_file_of_its_name(group: str) -> None:
    assert missing(PROJECT["dependency-groups"][group], pins(group)) == []


def test_every_extra_is_locked_somewhere() -> None:
    wanted = [
        line for extra, lines in PROJECT["project"]["optional-dependencies"].items() if extra not in NOT_LOCKED for line in lines
    ]
    assert missing(wanted, pins("dev") | pins("local")) == []


@pytest.mark.parametrize("lock", ["core", "build", "release"])
def test_the_development_environment_has_the_locked_versions_of_a_release(lock: str) -> None:
    assert pins(lock).items() <= pins("dev").items()
