"""Output of commands: to a device, a full disk, a closed pipe, or a file that appears only when it is complete."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import assay
from tests.surfaces.cli.test_exits import TURNS
from tests.surfaces.cli.test_validate import GAP, written
from tests.surfaces.cli.test_validate import TURNS as VALID_TURNS

ASSAY = [sys.executable, "-m", "assay"]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return written(tmp_path, "good.json", VALID_TURNS)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return written(tmp_path, "bad.json", GAP)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a dataset, a config with a wrong key, and an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(TURNS, encoding="utf-8")
    Path("wrong.yaml").write_text("max_turn: 3\n", encoding="utf-8")
    Path("empty").mkdir()
    return tmp_path


def wait_for(pattern: str, *, seconds: float = 60) -> None:
    """Return when a file of that pattern is in the working folder."""
    deadline = time.monotonic() + seconds
    while not list(Path().glob(pattern)) and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    turns = [{"turn_id": number, "speaker": f"speaker {number}"} for number in range(1, 3000)]
    Path(folder, "many.json").write_text(json.dumps(turns), encoding="utf-8")
    with subprocess.Popen(
        [*ASSAY, "validate", "many.json", "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.read(1)
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 141


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line_and_exit_2() -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run([*ASSAY, "validate", "a.json"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == (
        "assay: cannot write the report: no space left on device\nhint: free some space on that disk, or write to another place\n"
    )


def _limited(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command whose files may have 512 bytes, as on a disk that is full after them."""
    command = f"ulimit -f 1; exec '{sys.executable}' -m assay {' '.join(arguments)}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("folder")
def test_a_file_that_has_no_room_is_named_as_it_was_asked_for() -> None:
    Path("many.json").write_text(json.dumps([{"turn_id": 9}] * 90), encoding="utf-8")
    run = _limited("validate", "many.json", "--format", "json", "-o", "'my report.json'")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "assay: cannot use 'my report.json': file too large\nhint: free some space on that disk, or write to another place\n"
    )
    assert not [path for path in Path().iterdir() if "report" in path.name]


@pytest.mark.usefixtures("folder")
def test_a_closed_standard_output_is_one_line_and_exit_2() -> None:
    run = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m assay validate a.json >&-"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (run.returncode, run.stderr.splitlines()[0]) == (2, "assay: standard output is closed")


@pytest.mark.usefixtures("folder")
def test_an_interrupt_exits_130_and_leaves_no_report() -> None:
    with subprocess.Popen(
        [*ASSAY, "validate", "-", "-o", "report.txt"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        wait_for(".report.txt.*.partial")
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate()
    assert (run.returncode, errors.strip()) == (130, "assay: interrupted")
    assert list(Path().glob("*report*")) + list(Path().glob(".report*")) == []


@pytest.mark.usefixtures("folder")
def test_an_ascii_terminal_gets_question_marks_instead_of_a_crash() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run([*ASSAY, "validate", "a.json"], capture_output=True, env=environment, check=False)
    assert (run.returncode, run.stdout.splitlines()[0]) == (0, b"a.json ? conversation_v1 ? accepted ? 1 turn")


def test_an_older_report_is_replaced_and_nothing_else_is_left_behind(tmp_path: Path, good: Path) -> None:
    target = written(tmp_path, "report.txt", "old" * 1000)
    assay("validate", good, "--output", target)
    assert target.read_text(encoding="utf-8").endswith("1 file: 1 accepted · 0 errors\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.json", "report.txt"]


def test_a_report_may_go_to_a_device(bad: Path) -> None:
    assert assay("validate", bad, "--output", os.devnull).exit_code == 1
    assert Path(os.devnull).is_char_device()
