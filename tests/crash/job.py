"""The small job that is killed over and over: its dataset, its run file, and how it is started."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.crash.provider import Answer, error

VERDICT = json.dumps({"score": 4, "justification": "It says what it should.", "label": ""})


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with a dataset and a run file; its runs are in `runs`."""

    folder: Path
    concurrency: int = 4
    options: tuple[str, ...] = ()
    """Further options of the command."""

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def command(self, run_id: str) -> list[str]:
        """Starts the run, or goes on with it."""
        options = ["--run-id", run_id, "--runs-dir", str(self.runs), "--json", "--quiet", *self.options]
        return [sys.executable, "-m", "assay", "run", str(self.folder / "run.json"), *options]

    def start(self, run_id: str, *, before: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """In a process group of its own, so that nothing of it outlives a kill; `before` is a command that starts it."""
        return subprocess.Popen(
            [*before, *self.command(run_id)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def start_in_terminal(self, run_id: str, terminal: int) -> "subprocess.Popen[str]":
        """As the command that somebody types into a terminal, with its display; closing the terminal sends SIGHUP."""
        command = [word for word in self.command(run_id) if word not in ("--quiet", "--json")]
        own = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        return subprocess.Popen(
            [sys.executable, "-c", own, *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            text=True,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )


def write_job(folder: Path, base_url: str, *, records: int, concurrency: int = 4, **members: Any) -> Job:
    """A job over so many records, two more that break the contract, and models behind an address."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"schema_version": "1.0", "dataset_id": "crash", "dataset_version": "1", "created_at": "2026-01-01T00:00:00Z"}
    broken = [{"record_id": "broken-1"}, {"record_id": "broken-2", "input": {"prompt": ""}}]
    (folder / "dataset.json").write_text(json.dumps({**head, "records": [*map(_record, range(records)), *broken]}))
    run_file = {
        "datasets": ["dataset.json"],
        "candidates": [{"model": "stub/candidate"}],
        "judges": [{"model": "stub/judge"}],
        "providers": [{"name": "stub", "base_url": base_url, "timeout": 120}],
        "run": {"concurrency": concurrency},
        "retry": {"base_delay": 0.01, "max_delay": 1},
        **members,
    }
    (folder / "run.json").write_text(json.dumps(run_file))
    return Job(folder=folder, concurrency=concurrency)


def _record(number: int) -> dict[str, Any]:
    prompt = f"Say something about [case {number}]."
    expected = {"required_criteria": ["overall"]}
    return {"record_id": f"r-{number}", "input": {"prompt": prompt}, "expected": expected, "tags": [f"t{number % 3}"]}


def steady(model: str, case: str, _: int) -> Answer:
    """The same answer whenever it is asked, so that a repeated call changes nothing; some cases fail, and some judges are lost."""
    number = int(case)
    if model.startswith("judge"):
        return (200, "no verdict at all", {}) if number % 17 == 5 else (200, VERDICT, {})
    if number % 11 == 3:
        return 500, error("overloaded"), {}
    if number % 13 == 7:
        return 400, error("not like this", kind="invalid_request_error"), {}
    return 200, f"Something about [case {case}], said at length.", {}


def wait_until_heard(running: "subprocess.Popen[str]", number: int) -> None:
    """Return when a signal waits for the process no more; a second one would be the same one until then."""
    while is_unheard(running, number):
        time.sleep(0.005)


def is_unheard(running: "subprocess.Popen[str]", number: int) -> bool:
    status = Path(f"/proc/{running.pid}/status").read_text(encoding="utf-8")
    waiting = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd")))
    return any(pending >> (number - 1) & 1 for pending in waiting)
