"""What pages cost over runs of 50,000 records: CPU of the server for each page and filter, and when a browser first paints."""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from cases import cases_file
from generate import CACHE
from page import setting_line, table, version_of

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "page-speed.md"
RECORDS, QUICK = 50_000, 5_000
REPORTED = 5_000
AIM_CPU, AIM_PAINT = 300, 1000
"""Milliseconds of server CPU and until the first paint."""
TICK = 1000 / os.sysconf("SC_CLK_TCK")
MEGABYTE = 1 << 20
PATHS = {
    "list of runs": "/runs",
    "run": "/runs/after",
    "records": "/runs/after/records",
    "records, last page": "/runs/after/records?page={last}",
    "records: did not pass": "/runs/after/records?passed=false",
    "records: one status": "/runs/after/records?status=evaluated",
    "records: a tag": "/runs/after/records?tag=chapter-3",
    "records: a slice": "/runs/after/records?slice=tags:chapter-3",
    "records: a criterion, not met": "/runs/after/records?criterion=overall&met=false",
    "records: a code": "/runs/after/records?code=not_passed",
    "records: a range of scores": "/runs/after/records?min_score=2&max_score=3",
    "records: words that are in one": "/runs/after/records?text=exercise+{middle:06d}",
    "records: words that are in all": "/runs/after/records?text=apples",
    "records: words that are in none": "/runs/after/records?text=nobody+says+this",
    "records: flipped against another run": "/runs/after/records?against=before",
    "records: lowest score first": "/runs/after/records?sort=score",
    "records: everything at once": "/runs/after/records?passed=false&tag=chapter-3&text=pears&sort=-latency&page=3",
    "record": "/runs/after/records/{middle}",
    "record, in a filtered list": "/runs/after/records/{middle}?text=apples&sort=-score",
    "comparison": "/compare?before=before&after=after",
    "flip": "/compare/flip?before=before&after=after&start={flip}",
    "validate": "/validate",
}


class Cost(NamedTuple):
    """What one page costs."""

    name: str
    cpu: float
    """Milliseconds of the server."""
    paint: float
    """Milliseconds until the browser shows something."""
    size: int
    """Bytes of the page."""

    @property
    def is_met(self) -> bool:
        """True when both aims are."""
        return self.cpu <= AIM_CPU and self.paint <= AIM_PAINT


def main() -> None:
    """Measure every page, then the file, and print or keep the tables."""
    parser = argparse.ArgumentParser(prog="bench pages", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"runs of {QUICK:,} records")
    parser.add_argument("--repeat", type=int, default=3, help="looks at each page (default 3)")
    parser.add_argument("--write", action="store_true", help="renew the page in docs/explanation")
    options = parser.parse_args()
    count = QUICK if options.quick else RECORDS
    runs = made_runs(count)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which(os.environ.get("ASSAY_CHROMIUM") or "chromium"))
        with served(runs) as server:
            costs = list(pages(server, browser, count=count, repeat=options.repeat))
        files = [reported(runs, browser, limit, repeat=options.repeat) for limit in (REPORTED, count)]
        browser.close()
    tables = (costs_table(costs), table(FILE_HEADINGS, files))
    print("\n\n".join(tables))
    if options.write:
        setting = setting_line({name: version_of(name) for name in ("assay", "jinja2", "litestar")}, repeat=options.repeat)
        PAGE.write_text(TEXT.format(setting=setting, pages=tables[0], files=tables[1], records=f"{count:,}"), encoding="utf-8")
        print(f"\nwritten: {PAGE}")


def made_runs(count: int) -> Path:
    """A folder with two runs over the same records, made on first use."""
    folder = CACHE / f"pages_{count}"
    source = cases_file(count)
    for run_id, candidate in (("before", "scripted/echo"), ("after", "scripted/say-Four: two and two more.")):
        if not (folder / run_id).exists():
            print(f"making the run '{run_id}' of {count:,} records, once ...", file=sys.stderr)
            options = ["--run-id", run_id, "--runs-dir", str(folder), "--judge", "scripted/judge-any", "--quiet"]
            command = [sys.executable, "-m", "assay", "run", str(source), "--model", candidate, *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


class Server(NamedTuple):
    """A server that is running."""

    pid: int
    port: int

    def get(self, path: str) -> bytes:
        """A page as a browser would get it."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("GET", path, headers={"Accept": "text/html"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status}")
        return body

    def cpu(self) -> float:
        """Milliseconds of the server's process and of its children that have ended."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * TICK


@contextmanager
def served(runs: Path) -> Iterator[Server]:
    """`assay serve` over the runs, for the time of a `with` block."""
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        config = Path(folder, "server.yaml")
        config.write_text("requests_per_minute: 1000000\n")
        command = [sys.executable, "-m", "assay", "serve", "--port", str(port), "--runs-dir", str(runs), "--config", str(config)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = Server(process.pid, port)
        try:
            wait_for(server, "/healthz")
            yield server
        finally:
            process.terminate()
            process.wait()


def wait_for(server: Server, path: str, *, without: bytes = b"\0") -> None:
    """Return when an address answers without those words."""
    for _ in range(600):
        try:
            if without not in server.get(path):
                return
        except OSError:
            pass
        time.sleep(0.5)
    sys.exit(f"{path} does not answer")


def pages(server: Server, browser: Browser, *, count: int, repeat: int) -> Iterator[Cost]:
    """Each page: what it costs the server, and when it is seen. Indexes and the comparison are made before, once."""
    wait_for(server, "/runs/after/records?against=before", without=b"being indexed")
    wait_for(server, PATHS["comparison"], without=b"data-wait")
    named = {"last": count // 50, "middle": count // 2, "flip": 1000}
    for name, pattern in PATHS.items():
        path = pattern.format(**named)
        costs = [spent(server, path) for _ in range(repeat)]
        paints = [painted(browser, f"http://127.0.0.1:{server.port}{path}") for _ in range(repeat)]
        yield Cost(name, max(costs), min(paints), len(server.get(path)))


def spent(server: Server, path: str) -> float:
    """Milliseconds of CPU for one answer; it is asked several times, because the clock of a process counts in tens."""
    before = server.cpu()
    for _ in range(5):
        server.get(path)
    return (server.cpu() - before) / 5


def painted(browser: Browser, address: str) -> float:
    """Milliseconds until the first paint in a browser that has never seen the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        tab = context.new_page()
        tab.goto(address)
        script = """() => new Promise((told) => {
            const look = () => { const [paint] = performance.getEntriesByName("first-contentful-paint");
                                 if (paint) told(paint.startTime); else setTimeout(look, 10); };
            look(); })"""
        found: float = tab.evaluate(script)
        return found
    finally:
        context.close()


def costs_table(costs: list[Cost]) -> str:
    """Pages with a mark where both aims are met."""
    rows = [
        (cost.name, f"{cost.cpu:.0f}", f"{cost.paint:.0f}", f"{cost.size / 1024:.0f}", "✓" if cost.is_met else "✗")
        for cost in costs
    ]
    headings = ("page", f"server CPU ms (aim {AIM_CPU})", f"first paint ms (aim {AIM_PAINT})", "KB", "")
    return table(headings, rows)


FILE_HEADINGS = ("records in the file", "MB", "CPU s to write", "first paint ms", "list ms", "search ms", "record ms")


def reported(runs: Path, browser: Browser, limit: int, *, repeat: int) -> tuple[str, ...]:
    """One file: how large it is, what writing it costs, and how long a reader waits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        before = os.times()
        command = [
            sys.executable,
            "-m",
            "assay",
            "report",
            "after",
            "--runs-dir",
            str(runs),
            "--records",
            str(limit),
            "-o",
            str(path),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        paint = min(painted(browser, path.as_uri()) for _ in range(repeat))
        waits = read_file(browser, path.as_uri())
        return (
            f"{limit:,}",
            f"{path.stat().st_size / MEGABYTE:.1f}",
            f"{cpu:.0f}",
            f"{paint:.0f}",
            *(f"{wait:.0f}" for wait in waits),
        )


def read_file(browser: Browser, address: str) -> list[float]:
    """Milliseconds from the press of a key to the list, to what a search finds, and to a record."""
    context = browser.new_context(offline=True)
    try:
        tab = context.new_page()
        tab.goto(address)
        waits = []
        for place, seen in (
            ("#records", "#view-records:not([hidden]) #rows tr:nth-child(50)"),
            ("#records?text=pears", '#rows a[href$="text=pears"]'),
            ("#record-{index}", "#view-record:not([hidden]) h1"),
        ):
            index = tab.evaluate("document.querySelector('#rows a')?.hash.match(/\\d+/)?.[0] ?? ''")
            began = time.perf_counter()
            tab.evaluate("place => { location.hash = place; }", place.format(index=index))
            tab.wait_for_selector(seen, timeout=120_000)
            waits.append((time.perf_counter() - began) * 1000)
        return waits
    finally:
        context.close()


TEXT = """# Page speed

Every page of `assay serve` and every filter should be seen within a second and cost the server less than 300 ms of CPU, also
over runs of {records} records. `make bench ARGS=pages` measures this again, with `ARGS="pages --quick"` over smaller runs, and
`ARGS="pages --write"` renews this page.

{setting}

## Pages over runs of {records} records

{pages}

## One file

What [`assay report`](../how-to/share-a-report.md) writes of such a run, opened from disk without a network. A file has 5,000
records by default.

{files}

## How it was measured

- Two runs over the same {records} records are made once with scripted models; every record has a prompt of 350 characters, an
  answer, a verdict, two tags and two attempts. They differ in about half of their verdicts, so that a comparison has as many
  flips as it can have.
- The [index of a run](../decisions/012-finding-records.md) and a comparison are made once, aside, when somebody first looks;
  that is not counted here.
- Server CPU is user and system time of the server's process, as Linux counts it, for one answer: the mean of five, and of the
  repetitions the largest.
- The first paint is the browser's own figure (first contentful paint) from the start of the navigation, styles and scripts
  included, in a headless Chromium on the same machine that has never seen the page. The browser takes far more of the machine
  than the server does, so that the smallest of the repetitions counts.
- List, search and record of a file are the time from a change of the address to the last row, the first hit, or the heading of
  the record.
"""


if __name__ == "__main__":
    main()
