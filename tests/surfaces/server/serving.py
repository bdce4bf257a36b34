"""A real service on a real socket, in a process of its own."""

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, Self

JSON = {"Content-Type": "application/json"}
ENDED = ("completed", "completed_with_failures", "failed", "cancelled")
PATIENCE = 120.0
HOSTILE = ["=1+1", "-1+1", "\t=1", " =1+1", '=HYPERLINK("http://x","y")', '=1","=2', "@SUM(1)", "<script>alert(1)</script>"]
"""Texts that a spreadsheet or a browser might obey."""


class Answered(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def free_port() -> int:
    """A port that nobody has, below those that a system gives to outgoing connections: it is still free when it is used.

    It stays bound here, so that no other process of tests is given it meanwhile; whoever listens as servers do can have it.
    """
    for port in random.SystemRandom().sample(range(12_000, 32_000), 100):
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            continue
        # Only now: with it from the beginning, two processes could hold the same one.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        atexit.register(held.close)
        return port
    raise AssertionError("no port is free")


class Serving:
    """`assay serve` for the time of a `with` block; `kill` and `start` are its crashes."""

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", settings: str = "", run_file: str = "", options: tuple[str, ...] = ()
    ) -> None:
        self.folder, self.host, self.port, self.options = folder, host, free_port(), options
        self.runs_dir = folder / "runs"
        self.headers: dict[str, str] = {}
        plain = "candidates: [scripted/say-4]\njudges: [scripted/judge-5]\n"
        (folder / "run.yaml").write_text(run_file or plain, encoding="utf-8")
        (folder / "server.yaml").write_text(f"run_file: run.yaml\n{settings}", encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        where = ["--host", self.host, "--port", str(self.port), "--runs-dir", str(self.runs_dir)]
        return [sys.executable, "-m", "assay", "serve", *where, "--config", str(self.folder / "server.yaml"), *self.options]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def is_alive(self) -> bool:
        assert self._process is not None
        return self._process.poll() is None

    def start(self) -> None:
        log = (self.folder / "server.log").open("ab")
        self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=os.environ)
        log.close()
        end = time.monotonic() + PATIENCE
        while not self.answers():
            assert self._process.poll() is None, (self.folder / "server.log").read_text(encoding="utf-8")
            assert time.monotonic() < end, "the service does not answer"
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether it takes requests."""
        try:
            return self.ask("GET", "/healthz").status == 200
        except OSError:
            return False

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self.kill()

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answered:
        """One request; a body that is not bytes goes as JSON."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {**self.headers, **(headers if headers is not None else JSON if body is not None else {})}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, sent, named)
            answer = connection.getresponse()
            return Answered(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def submit(self, document: Any, query: str = "", headers: Mapping[str, str] | None = None) -> Answered:
        return self.ask("POST", f"/v1/runs{query}", document, {**JSON, **(headers or {})})

    def ended(self, run_id: str) -> Any:
        """The run when it has come to its end."""
        self.wait_for(lambda: self.ask("GET", f"/v1/runs/{run_id}").json["state"] in ENDED)
        return self.ask("GET", f"/v1/runs/{run_id}").json

    def wait_for(self, what: Callable[[], object]) -> None:
        """Return when something is so; asks ever less often, so that a long wait is within the rate of a caller."""
        end, pause = time.monotonic() + PATIENCE, 0.02
        while not what():
            assert time.monotonic() < end, "it is still not so"
            time.sleep(pause)
            pause = min(pause * 1.1, 0.3)

    def children(self) -> list[int]:
        """The processes that the service has started."""
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="utf-8")
        return [int(child) for child in text.split()]

    def runs(self) -> list[Any]:
        page = self.ask("GET", "/v1/runs?limit=1000").json
        listed: list[Any] = page["runs"]
        while page["next_cursor"] is not None:
            page = self.ask("GET", f"/v1/runs?limit=1000&cursor={page['next_cursor']}").json
            listed += page["runs"]
        return listed

    def left_over(self) -> list[str]:
        """What uploads have left of which no run came."""
        # By the ids of their runs: an upload on its way from one place to the other may be seen in both.
        spooled = {path.name.partition("-")[2]: str(path) for path in self.runs_dir.glob(".server/temporary/*/*")}
        taken = {path.parent.name: str(path.parent) for path in self.runs_dir.glob(".active/*/upload")}
        left = {**spooled, **{run_id: path for run_id, path in taken.items() if not self._has_run(Path(path))}}
        return [path for path in left.values() if not path.endswith("/run.lock")]

    def _has_run(self, active: Path) -> bool:
        """Of a run that has just ended, the originals go one by one; looked at in the order in which they come and go."""
        return (
            (active / "ledger.sqlite").exists()
            or (self.runs_dir / active.name / "run_manifest.json").exists()
            or not active.exists()
        )


def dataset(records: int = 3, **members: Any) -> dict[str, Any]:
    """A valid document of batch_v1."""
    listed = [{"record_id": f"q_{number:04}", "input": {"prompt": f"What is {number} + 1?"}} for number in range(records)]
    return {"dataset_id": "sums", "dataset_version": "1", "schema_version": "1.0", "records": listed, **members}
