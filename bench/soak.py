"""A run of a million records with its calls, watched from outside: memory, handles, threads, and what it leaves on disk.

`--records N` takes another size, `--write` renews docs/explanation/soak.md. Reads /proc, so it needs Linux. Nothing is asserted.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cases import RECIPE, case
from generate import CACHE
from measure import HERE, Provider, provider
from page import setting_line, table, version_of
from run import CONCURRENCY, KEY, RESULTS, folder
from stub import CANDIDATE, JUDGE
from validate import show_progress

PAGE = HERE.parent / "docs" / "explanation" / "soak.md"
RECORDS, QUICK = 1_000_000, 20_000
FILE_RECORDS = 50_000
"""What one file of batch_v1 may hold."""
SECONDS = 1.0
"""Between two looks at the run."""
ROWS = 10
"""Of the table on the page, at equal distances."""
MEGABYTE = 1_000_000
RUN_ID = "soak"


class Look(NamedTuple):
    """What the run had at one moment."""

    answered: int
    """Calls of the judge that the provider has answered."""
    seconds: float
    memory: int
    """Bytes that are its own, without files that are mapped."""
    handles: int
    threads: int
    ledger: int
    """Bytes of the ledger, with what is not yet folded into it."""


class Soak(NamedTuple):
    """A watched run that has ended."""

    records: int
    calls: int
    seconds: float
    cpu: float
    looks: Sequence[Look]
    artifacts: dict[str, int]
    """Bytes of each file that it leaves."""


def main() -> None:
    """Run, watch, print, and keep every look in a file."""
    parser = argparse.ArgumentParser(prog="bench soak", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} records")
    parser.add_argument("--records", type=int, metavar="N", help=f"so many records (default {RECORDS:,})")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="has no effect: it is done once")
    parser.add_argument("--write", action="store_true", help="renew docs/explanation/soak.md")
    options = parser.parse_args()
    if options.write and (options.quick or options.records):
        parser.error("the page is about a million records: --write goes alone")
    soak = soaked(options.records or (QUICK if options.quick else RECORDS))
    show_progress("")
    (RESULTS / "soak.json").write_text(json.dumps(soak._asdict()), encoding="utf-8")
    tables = summary(soak), looks_table(soak), sizes_table(soak)
    print("\n\n".join(tables))
    if options.write:
        setting = setting_line({name: version_of(name) for name in ("assay", "msgspec")}, repeat=1)
        words = zip(("summary", "looks", "sizes"), tables, strict=True)
        PAGE.write_text(TEXT.format(setting=setting, **dict(words)), encoding="utf-8")
        print(f"\nwritten: {PAGE}")


def soaked(records: int) -> Soak:
    """A run over so many records, looked at every second from its start to its end."""
    dataset = cases_folder(records)
    with provider() as stub, folder() as place:
        options = ("--model", f"openai/{CANDIDATE}", "--judge", f"openai/{JUDGE}", "--concurrency", str(CONCURRENCY), "--json")
        command = [sys.executable, "-m", "assay", "run", dataset, *options, "--run-id", RUN_ID, "--runs-dir", place]
        environ = {"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}
        start = time.monotonic()
        with (place / "report.json").open("wb") as report, subprocess.Popen(command, stdout=report, env=environ) as run:
            watch = Watch(run.pid, stub, place, start)
            looks = list(watch.until_end(run, records))
        if run.returncode:
            sys.exit(f"the run ended with exit code {run.returncode}")
        artifacts = {path.name: path.stat().st_size for path in sorted((place / RUN_ID).iterdir())}
    return Soak(records, watch.calls, time.monotonic() - start, watch.cpu, looks, artifacts)


class Watch:
    """A process seen from outside."""

    def __init__(self, process: int, stub: Provider, place: Path, start: float) -> None:
        self.calls = self._answered = 0
        self.cpu = 0.0
        self._process = Path("/proc") / str(process)
        self._stub = stub
        self._place = place
        self._start = start

    def until_end(self, run: "subprocess.Popen[bytes]", records: int) -> Iterator[Look]:
        """One look after the other, as long as the run goes on."""
        while True:
            try:
                run.wait(SECONDS)
            except subprocess.TimeoutExpired:
                look = self._look()
                if look is not None:
                    show_progress(f"{look.answered:,} of {records:,} records, {look.memory / MEGABYTE:.0f} MB")
                    yield look
            else:
                self._count()
                return

    def _count(self) -> None:
        seen = self._stub.received()
        self.calls += seen["candidate"] + seen["judge"]
        self._answered += seen["judge"]

    def _look(self) -> Look | None:
        """Nothing when the process has just ended."""
        self._count()
        try:
            status = dict(line.split(":", 1) for line in (self._process / "status").read_text().splitlines())
            times = (self._process / "stat").read_text().rpartition(")")[2].split()
            handles = len(list((self._process / "fd").iterdir()))
        except (FileNotFoundError, ProcessLookupError):
            return None
        if "RssAnon" not in status:
            return None
        self.cpu = sum(map(int, times[11:15])) / os.sysconf("SC_CLK_TCK")
        memory, threads = int(status["RssAnon"].split()[0]) * 1024, int(status["Threads"])
        return Look(self._answered, time.monotonic() - self._start, memory, handles, threads, self._ledger())

    def _ledger(self) -> int:
        try:
            return sum(path.stat().st_size for path in self._place.rglob("ledger.sqlite*"))
        except FileNotFoundError:  # it is removed while the run is sealed
            return 0


def cases_folder(records: int) -> Path:
    """A folder of batch_v1 files with so many records in all, made on first use."""
    whole = CACHE / f"cases_{records}_in_files.{RECIPE}"
    if not whole.exists():
        partial = whole.with_suffix(".partial")
        partial.mkdir(parents=True)
        for first in range(0, records, FILE_RECORDS):
            rows = [case(number) for number in range(first, min(first + FILE_RECORDS, records))]
            part = {
                "dataset_id": f"cases-{first // FILE_RECORDS:03}",
                "dataset_version": "1",
                "schema_version": "1.0",
                "records": rows,
            }
            (partial / f"part-{first // FILE_RECORDS:03}.json").write_text(json.dumps(part), encoding="utf-8")
        partial.rename(whole)
    return whole


def summary(soak: Soak) -> str:
    """The run in one sentence."""
    peak = max(look.memory for look in soak.looks)
    return (
        f"{soak.records:,} records, {soak.calls:,} calls, {CONCURRENCY} in flight: {soak.seconds / 60:.0f} minutes, "
        f"{soak.cpu / soak.records * 1_000_000:.0f} µs of CPU for each record, {peak / MEGABYTE:.0f} MB of memory at the most, "
        f"{max(look.handles for look in soak.looks)} handles and {max(look.threads for look in soak.looks)} threads at the most."
    )


def looks_table(soak: Soak) -> str:
    """One look at each tenth of the calls, and those of the end."""
    calling = [look for look in soak.looks if 0 < look.answered < soak.records]
    chosen = [calling[len(calling) * tenth // ROWS] for tenth in range(ROWS)] if calling else []
    ended = [look for look in soak.looks if look.answered >= soak.records]
    named = [(f"{look.answered:,} records", look) for look in chosen]
    if ended:
        named.append(("sealing, the most", max(ended, key=lambda look: look.memory)))
    return table(("at", "seconds", "memory MB", "handles", "threads", "ledger MB"), [(name, *_cells(look)) for name, look in named])


def _cells(look: Look) -> tuple[str, ...]:
    memory, ledger = (f"{size / MEGABYTE:.0f}" for size in (look.memory, look.ledger))
    return f"{look.seconds:.0f}", memory, str(look.handles), str(look.threads), ledger


def sizes_table(soak: Soak) -> str:
    """What the run leaves, and what its ledger had grown to."""
    sizes = {"ledger, while it runs": max(look.ledger for look in soak.looks), **soak.artifacts}
    sizes["all artifacts"] = sum(soak.artifacts.values())
    rows = [(name, f"{size / MEGABYTE:,.1f}", f"{size / soak.records:,.0f}") for name, size in sizes.items()]
    return table(("file", "MB", "bytes for each record"), rows)


TEXT = """# Soak test

A run must not grow while it works. This one has a million records in a folder of files, a candidate and a judge on the same
machine that answer at once, and a client that reads it every second from outside. `make soak` does it again,
`make soak ARGS="--records 50000"` with another size, and `make soak ARGS=--write` renews this page.

{setting}

{summary}

## While it ran

{looks}

Memory is what the process has for itself, without files that are mapped. What is there when the calls begin, some 250 bytes for
each record, are places and hashes of the records, from when the files were validated. Of a record that is done nothing stays while
others are asked; what comes at the end is its scores, its latencies and its place in each slice, of which the figures are made in
one pass. The handles are connections to the provider, files of the ledger and the standard streams.

## What it leaves

{sizes}

A record of this run has a prompt of 350 characters, a reference answer, an answer of 52 characters and a verdict of one sentence.
The ledger holds each record, both replies and the outcome; it goes when the run is sealed. Plan for both at once: until then the
ledger and the artifacts are on the disk together.
"""


if __name__ == "__main__":
    main()
