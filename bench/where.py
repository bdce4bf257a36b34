"""Where the CPU of a run goes: `python bench/where.py [CASES]` prints the share of each part of `assay run`.

A timer that counts the CPU of the process, not the clock, asks some 250 times in a second what the main thread is doing, so that a
busy machine changes little. What other threads take, which is SQLite writing and syncing, is their own clock.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from runpy import run_module
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from cases import cases_file
from measure import measure, provider
from page import table
from stub import CANDIDATE, JUDGE

CASES = 2000
ROUNDS = 5
MILLION = 1_000_000
INTERVAL = 0.001
THREADS = "ledger: SQLite in a thread, writing and syncing"
START = "start: imports"
ARTIFACTS = "artifacts: evidence, redaction, hashes, metrics"
PARTS = {
    "models/": "calls: requests, HTTP, replies, sockets",
    "engine/execution/shutdown": "calls: requests, HTTP, replies, sockets",
    "grading/": "grading: prompts of judges, their replies, grades",
    "store/": "ledger: rows in and out",
    "engine/execution/ledger_writer": "ledger: rows in and out",
    "datasets/": "reading, validation, plan",
    "engine/planning/": "reading, validation, plan",
    "engine/": "engine: slots, rates, retries, order",
}
"""The part of each folder of the package, the narrower first; the innermost frame with a part decides."""
OTHER = "all else"


def main() -> None:
    """Measure and print; as `where.py --sample RESULT WORD ...` run the words as a command of assay and write what was seen."""
    if sys.argv[1:2] == ["--sample"]:
        sample(Path(sys.argv[2]), sys.argv[3:])
    else:
        print(parts_table(int(sys.argv[1]) if len(sys.argv) > 1 else CASES))


def parts_table(cases: int = CASES) -> str:
    """Parts of a run over so many cases, the largest first."""
    seen = list(_seen(cases))
    shares: Counter[str] = Counter()
    for each in seen:
        ticks = sum(each["parts"].values())
        for part, count in each["parts"].items():
            shares[part] += count / ticks * each["main"] / each["cpu"] / len(seen)
        shares[THREADS] += (1 - each["main"] / each["cpu"]) / len(seen)
    microseconds = min(each["cpu"] for each in seen) / cases * MILLION
    rows = [(part, f"{share:.0%}", f"{share * microseconds:.0f}") for part, share in shares.most_common()]
    return table((f"part of a run of {cases:,} cases", "share of CPU", "µs CPU for each case"), rows)


def _seen(cases: int) -> Iterator[dict[str, Any]]:
    with provider() as stub:
        for _ in range(ROUNDS):
            with TemporaryDirectory() as folder:
                result = Path(folder) / "seen.json"
                models = ("--model", f"openai/{CANDIDATE}", "--judge", f"openai/{JUDGE}")
                words = ("run", cases_file(cases), *models, "--concurrency", 64, "--json", "--runs-dir", Path(folder) / "runs")
                settings = {"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": "sk-5f1d0c27e9b84a6380c2d7f4"}
                cost = measure([sys.executable, __file__, "--sample", result, *words], settings)
                assert "cpu" in cost, cost
                yield json.loads(result.read_text())


def sample(result: Path, words: list[str]) -> None:
    """Run a command of assay in this process, asked again and again what it is doing."""
    parts: Counter[str] = Counter()
    # What stands beside this file is no part of assay, and has names of its own.
    sys.path.remove(str(Path(__file__).parent))
    signal.signal(signal.SIGPROF, lambda _number, frame: parts.update((_part(frame),)))
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    sys.argv = ["assay", *words]
    try:
        run_module("assay", run_name="__main__")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        seen = {"parts": parts, "cpu": time.process_time(), "main": time.thread_time()}
        result.write_text(json.dumps(seen), encoding="utf-8")


def _part(frame: FrameType | None) -> str:
    files = list(_files(frame))
    if any("importlib" in file for file in files):
        return START
    modules = [file.rpartition(f"{os.sep}assay{os.sep}")[2] for file in files if f"{os.sep}assay{os.sep}" in file]
    if any(module.startswith("engine/finalization/") for module in modules):
        return ARTIFACTS
    named = (part for module in modules for folder, part in PARTS.items() if module.startswith(folder))
    return next(named, OTHER)


def _files(frame: FrameType | None) -> Iterator[str]:
    """The source of each frame, the innermost first."""
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


if __name__ == "__main__":
    main()
