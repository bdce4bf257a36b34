"""`make test-pythons` finds the interpreters that start, and each version once."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "find-pythons.sh"
THIS = f"python{sys.version_info.major}.{sys.version_info.minor}"


def found_in(*folders: Path, home: Path) -> list[str]:
    tools = home / "tools"
    tools.mkdir()
    (tools / "tr").symlink_to("/usr/bin/tr")  # all that the script needs: a Python of the system must not be found there
    environment = {"PATH": os.pathsep.join(map(str, [*folders, tools])), "HOME": str(home)}
    listed = subprocess.run(["/bin/sh", str(SCRIPT)], env=environment, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.endswith(THIS)]


def test_an_interpreter_that_starts_is_found_once_and_a_stub_is_passed_over(tmp_path: Path) -> None:
    stub, real, again = (tmp_path / name for name in ("stub", "real", "again"))
    for folder in (stub, real, again):
        folder.mkdir()
    (stub / THIS).write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    (stub / THIS).chmod(0o755)
    (real / THIS).symlink_to(sys.executable)
    (again / THIS).symlink_to(sys.executable)
    assert found_in(stub, real, again, home=tmp_path) == [str(real / THIS)]


def test_an_interpreter_of_pyenv_is_found_without_being_on_the_search_path(tmp_path: Path) -> None:
    folder = tmp_path / ".pyenv" / "versions" / f"{THIS.removeprefix('python')}.0" / "bin"
    folder.mkdir(parents=True)
    (folder / THIS).symlink_to(sys.executable)
    assert found_in(tmp_path, home=tmp_path) == [str(folder / THIS)]
