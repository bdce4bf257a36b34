"""The entry point of the command: exit codes as a shell sees them, and an end that loses nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.cli.test_exits import TURNS
from tests.surfaces.cli.test_run import ASSAY


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a dataset, a config with a wrong key, and an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(TURNS, encoding="utf-8")
    Path("wrong.yaml").write_text("max_turn: 3\n", encoding="utf-8")
    Path("empty").mkdir()
    return tmp_path


def test_the_version_costs_no_heavy_import() -> None:
    call = "from assay.surfaces.cli.main import main\ntry: main()\nfinally: print(*sys.modules)"
    code = f"import sys; sys.argv = ['assay', '--version']\n{call}"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("assay 0.")
    assert {"numpy", "rich", "yaml", "msgspec", "assay.api"} & set(printed.split()) == set()


def test_exit_codes_reach_the_shell(folder: Path) -> None:
    Path(folder, "b.json").write_text("[]", encoding="utf-8")
    codes = [
        subprocess.run([*ASSAY, "validate", name], capture_output=True, check=False).returncode
        for name in ("a.json", "b.json", "c.json")
    ]
    assert codes == [0, 1, 2]


def test_a_process_that_has_temporal_ends_with_its_own_code_and_says_everything() -> None:
    pytest.importorskip("temporalio")
    program = "import atexit, sys, temporalio; from assay.surfaces.cli.main import main; atexit.register(print, 'bye'); main()"
    ended = subprocess.run([sys.executable, "-c", program, "show", "--nothing"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == "bye\n"
    assert "--nothing" in ended.stderr
