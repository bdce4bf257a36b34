"""What a command costs from its start to its end, and a stand-in provider for the time of a `with` block."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
REASON_LENGTH = 120

Cost = dict[str, Any]
"""`cpu`, `wall`, `memory` and `output` of a command, or `absent` or `refused` with the reason."""


class Provider(NamedTuple):
    """A stand-in provider that is running."""

    port: int

    @property
    def base_url(self) -> str:
        """Where its chat completions are."""
        return f"http://127.0.0.1:{self.port}/v1"

    def received(self) -> dict[str, Any]:
        """What has arrived since the last look."""
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/stats")
        seen: dict[str, Any] = json.load(connection.getresponse())
        connection.close()
        return seen


@contextmanager
def provider(latency: float = 0.0) -> Iterator[Provider]:
    """A provider in a process of its own, whose time is nobody's cost."""
    with subprocess.Popen([sys.executable, str(HERE / "stub.py"), str(latency)], stdout=subprocess.PIPE) as stub:
        assert stub.stdout is not None
        try:
            yield Provider(int(stub.stdout.readline()))
        finally:
            stub.kill()


def measure(command: Sequence[object], environ: Mapping[str, str] | None = None, *, limit: float | None = None) -> Cost:
    """CPU and wall seconds of a whole process and its children, and its memory at the peak; `output` is what it printed.

    What has not ended after the limit is killed, and its cost until then is marked with `stopped`.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        started = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**_environ(), **(environ or {})},
            # A group of its own can be killed as a whole.
            process_group=None if limit is None else 0,
        )
        with _killed_after(limit, started) as killed:
            _, status, usage = os.wait4(started.pid, 0)
        wall = time.perf_counter() - start
        # Otherwise it would be waited for once more.
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode and not killed:
            return {"refused": _last_line(errors) or _last_line(output) or f"exit code {started.returncode}"}
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cost = {"cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "memory": memory, "output": printed}
    return cost | ({"stopped": limit} if killed else {})


@contextmanager
def _killed_after(limit: float | None, started: "subprocess.Popen[bytes]") -> Iterator[list[int]]:
    """A list that is empty as long as the command was not killed."""
    killed: list[int] = []
    if limit is None:
        yield killed
        return

    def kill() -> None:
        killed.append(started.pid)
        os.killpg(started.pid, signal.SIGKILL)

    timer = threading.Timer(limit, kill)
    timer.start()
    try:
        yield killed
    except KeyboardInterrupt:
        kill()
        raise
    finally:
        timer.cancel()


def _environ() -> dict[str, str]:
    """Loopback is reached directly, and compiled modules are kept, as they are where a package was installed."""
    return {**os.environ, "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": ""}


def _last_line(printed: Any) -> str:
    printed.seek(0)
    lines = printed.read().decode("utf-8", "replace").strip().splitlines()
    return str(lines[-1]).strip()[:REASON_LENGTH] if lines else ""
