"""Starting assay is quiet: nothing is reached, started, written or made into code that nobody asked for."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
GOOD = (
    "examples/batch_v1/support-answers.json",
    "examples/legal_eval_v1/contract-law.jsonl",
    "examples/conversation_v1/travel-agent.yaml",
)
STARTS = {"the door": (), "--version": ("--version",), "--help": ("--help",), "validate": ("validate", *GOOD)}
"""What is watched: every name of `import assay`, and commands."""

REACHES_OUT = (
    "socket.",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "webbrowser.",
    "subprocess.",
    "pty.",
    "os.system",
    "os.exec",
    "os.fork",
)
STARTS_PROGRAMS = ("os.spawn", "os.posix_spawn", "os.startfile")
CHANGES_FILES = (
    "write",
    "shutil.",
    "tempfile.",
    "sqlite3.",
    "os.mkdir",
    "os.r",
    "os.link",
    "os.symlink",
    "os.ch",
    "os.truncate",
    "os.utime",
)
WRITES_CLASSES = ("collections", "dataclasses", "typing")
"""Modules of the standard library that make named tuples and data classes from text of their own."""
HEAVY = {
    "numpy",
    "rich",
    "yaml",
    "jinja2",
    "msgspec",
    "orjson",
    "asyncio",
    "sqlite3",
    "ssl",
    "socket",
    "subprocess",
    "logging",
    "email",
    "typing_extensions",
}


class Event(NamedTuple):
    """One audit event: its name, what it was about, the module that caused it."""

    name: str
    about: str
    by: str


class Seen(NamedTuple):
    """What a fresh interpreter did."""

    events: list[Event]
    variables: set[str]
    modules: set[str]


def watch(report: Path, *arguments: str, folder: Path = ROOT) -> Seen:
    """What happens when assay is called with these arguments, or its door is opened without any."""
    # -B: bytecode that the interpreter keeps for itself is no doing of ours.
    subprocess.run(
        [sys.executable, "-B", ROOT / "tests" / "watching.py", report, *arguments], cwd=folder, capture_output=True, check=True
    )
    seen = json.loads(report.read_text(encoding="utf-8"))
    return Seen([Event(*event) for event in seen["events"]], set(seen["variables"]), set(seen["modules"]))


@pytest.fixture(scope="module", params=STARTS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return watch(tmp_path_factory.mktemp("watched") / "report.json", *STARTS[request.param])


def test_a_start_opens_no_socket_and_starts_no_program(seen: Seen) -> None:
    assert any(event.name == "read" for event in seen.events)
    assert [event for event in seen.events if event.name.startswith(REACHES_OUT + STARTS_PROGRAMS)] == []


def test_a_start_changes_no_file(seen: Seen) -> None:
    assert [event for event in seen.events if event.name.startswith(CHANGES_FILES)] == []


def test_a_start_makes_no_code_from_text_or_bytes_but_modules(seen: Seen) -> None:
    made = [
        event
        for event in seen.events
        if event.name in ("compile", "exec", "marshal.loads") and not event.by.startswith("importlib.")
    ]
    assert [event for event in made if event.by not in WRITES_CLASSES] == []
    assert [event for event in seen.events if event.name.startswith("pickle.")] == []


def test_a_start_reads_no_variable_but_one_for_numpy_and_one_of_pipelines(seen: Seen) -> None:
    assert seen.variables <= {"OPENBLAS_NUM_THREADS", "GITHUB_ACTIONS"}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_a_shell_asks_for_often_loads_click_and_nothing_heavy(option: str, tmp_path: Path) -> None:
    modules = watch(tmp_path / "report.json", option).modules
    assert "click" in modules
    assert HEAVY & modules == set()


def test_a_command_that_writes_writes_where_it_was_told_to(tmp_path: Path) -> None:
    seen = watch(tmp_path / "report.json", "init", "first", folder=tmp_path)
    written = {event.about for event in seen.events if event.name.startswith(CHANGES_FILES)}
    assert {Path(path).parts[0] for path in written} == {"first"}


def test_a_run_over_recorded_replies_connects_to_nobody(tmp_path: Path) -> None:
    recording = f"replay/{ROOT}/examples/recordings/demo.jsonl"
    answers = str(ROOT / "examples/batch_v1/support-answers.json")
    seen = watch(tmp_path / "report.json", "run", answers, "--model", recording, "--judge", recording, "--quiet", folder=tmp_path)
    reached = {event.name for event in seen.events if event.name.startswith(REACHES_OUT + STARTS_PROGRAMS)}
    # The event loop wakes itself up through a pair of sockets, and a run notes on which machine it is.
    assert reached == {"socket.__new__", "socket.gethostname"}
