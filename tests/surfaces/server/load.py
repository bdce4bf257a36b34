"""Ten uploads of 100 MB at once against a real service, and what they cost: `make load`."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import click

from tests.surfaces.server.serving import JSON, Serving

MEGABYTE = 1 << 20


def write_dataset(path: Path, size: int, records: int) -> None:
    """A valid document of about so many bytes."""
    letters = "The quick brown fox jumps over the lazy dog. " * (size // records // 45)
    listed = [{"record_id": f"q_{number:06}", "input": {"prompt": f"{number} {letters}"}} for number in range(records)]
    path.write_text(json.dumps({"dataset_id": "load", "dataset_version": "1", "schema_version": "1.0", "records": listed}))


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *(child for text in children.read_text().split() for child in family(int(text)))] if children.exists() else []


def resident_mb(pid: int) -> float:
    """Memory of a process and its children, mapped files included."""
    return sum(map(own_mb, family(pid)))


def own_mb(pid: int) -> float:
    """Memory of one process; none where it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024 if "VmRSS:" in text else 0.0


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and its living children."""
    total = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / 100


class Watch:
    """Asks for the health of a service and looks at its memory until it is told to stop."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._is_over = threading.Event()
        self.latencies: list[float] = []
        self.most_mb = 0.0
        self.most_server_mb = 0.0

    def __enter__(self) -> "Watch":
        self._threads = [threading.Thread(target=self._ask), threading.Thread(target=self._weigh)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._is_over.wait(0.02):
            start = time.perf_counter()
            assert self._serving.ask("GET", "/healthz").status == 200
            self.latencies.append(time.perf_counter() - start)

    def _weigh(self) -> None:
        while not self._is_over.wait(0.1):
            self.most_mb = max(self.most_mb, resident_mb(self._serving.pid))
            self.most_server_mb = max(self.most_server_mb, own_mb(self._serving.pid))


def upload(serving: Serving, path: Path, address: str) -> tuple[int, dict[str, str], float]:
    start = time.perf_counter()
    connection = HTTPConnection("127.0.0.1", serving.port, timeout=600)
    with path.open("rb") as file:
        connection.request("POST", address, file, {**JSON, "Content-Length": str(path.stat().st_size)})
        answer = connection.getresponse()
        answer.read()
        headers = {name.lower(): value for name, value in answer.getheaders()}
    connection.close()
    return answer.status, headers, time.perf_counter() - start


def command_cpu(path: Path) -> float:
    """Processor time of `assay validate` over the same file."""
    code = (
        "import resource,subprocess,sys;"
        f"subprocess.run([sys.executable,'-m','assay','validate','--contract','batch_v1',{str(path)!r}],stdout=subprocess.DEVNULL);"
        "u=resource.getrusage(resource.RUSAGE_CHILDREN);sys.stdout.write(str(u.ru_utime+u.ru_stime))"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument("--uploads", type=int, default=10, help="uploads at once (default 10)")
    parser.add_argument("--megabytes", type=int, default=97, help="size of each (default 97)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "load.json")
        write_dataset(path, options.megabytes * MEGABYTE, 50_000)
        settings = "max_runs: 1\nrequests_per_minute: 100000\n"
        run_file = "candidates: [scripted/slow-600000]\njudges: [scripted/judge-5]\n"
        with Serving(Path(folder), settings=settings, run_file=run_file) as serving:
            return measure(serving, path, options.uploads)


def measure(serving: Serving, path: Path, uploads: int) -> int:
    """Print what was found; 1 when a promise was not kept."""
    upload(serving, path, "/v1/validate")
    before = cpu_seconds(serving.pid)
    statuses = [upload(serving, path, "/v1/validate")[0] for _ in range(3)]
    validating, command = (cpu_seconds(serving.pid) - before) / 3, min(command_cpu(path) for _ in range(3))
    click.echo(
        f"POST /v1/validate {statuses}: {validating:.2f} s CPU, assay validate: {command:.2f} s, ratio {validating / command:.2f}"
    )
    with Watch(serving) as watch, ThreadPoolExecutor(uploads) as pool:
        answers = list(pool.map(lambda _: upload(serving, path, "/v1/runs"), range(uploads)))
    slowest, median = sorted(watch.latencies)[int(len(watch.latencies) * 0.99)], statistics.median(watch.latencies)
    statuses = [status for status, _, _ in answers]
    counted = ", ".join(f"{statuses.count(status)} x {status}" for status in sorted(set(statuses)))
    seconds = max(answer[2] for answer in answers)
    click.echo(f"{uploads} uploads of {path.stat().st_size / MEGABYTE:.0f} MB at once: {counted} within {seconds:.1f} s")
    click.echo(f"memory: server {watch.most_server_mb:.0f} MB, with its workers {watch.most_mb:.0f} MB")
    click.echo(f"/healthz meanwhile, {len(watch.latencies)} times: median {median * 1000:.0f} ms, p99 {slowest * 1000:.0f} ms")
    click.echo(f"left over: {serving.left_over()}")
    is_answered = all(status == 202 or (status in (429, 503) and "retry-after" in headers) for status, headers, _ in answers)
    kept = (is_answered, validating <= 1.3 * command, watch.most_mb < 1000, slowest < 1.0, not serving.left_over())
    click.echo("every promise was kept" if all(kept) else f"NOT kept: {kept}")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
