"""A real MLflow server on a real socket, in a process of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.surfaces.server.serving import free_port

PATIENCE = 120.0
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "OPENBLAS_NUM_THREADS": "1"}


class MlflowServer:
    """`mlflow server` with SQLite and a folder for artifacts, for the time of a `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        places = [f"--backend-store-uri=sqlite:///{self.folder}/mlflow.db", f"--artifacts-destination={self.folder}/artifacts"]
        served = ["--host=127.0.0.1", f"--port={self.port}", "--workers=1"]
        log = (self.folder / "server.log").open("ab")
        command = [sys.executable, "-m", "mlflow", "server", *places, *served]
        # A group of its own: the command starts further processes, and all of them go with it.
        self._process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=self.folder, env={**os.environ, **QUIET}, start_new_session=True
        )
        log.close()
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "server.log").read_text(encoding="utf-8")
            assert time.monotonic() < end, "the MLflow server does not answer"
            time.sleep(0.1)
        return self

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=30) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *ended: object) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that says the same to everything, by its address."""

    class Exchange(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the parent's names
            """Say nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
