"""Feeds mutated inputs to the doors and contracts until the wanted number is reached; a failure is saved and ends in exit code 1.

Stages: `mutated` (seeded mutations on all cores), `guided` (coverage-guided, where atheris is installed) and `properties`
(the property tests without their usual limit, and the tests marked heavy).
"""

import argparse
import hashlib
import importlib.util
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

from tests.fuzz.targets import CONFIGS, TARGETS, fixtures, make_input

ROOT = Path(__file__).parent.parent.parent
FAILURES = ROOT / "build" / "fuzz"
MAX_SECONDS = 2.0
"""CPU time of one input."""
MAX_GROWTH_KB = 300 * 1024
"""Growth of the process's memory by one input."""
MAX_SEED = 4096
"""Bytes of a shipped dataset that the coverage-guided stage starts from."""
CHUNK = 250
STAGES = ("mutated", "guided", "properties")
PROPERTIES = (
    "tests/datasets/test_reader_agreement.py",
    "tests/core/test_canonical.py",
    "tests/core/test_strict_json.py",
    "tests/datasets/test_bombs.py",
)


class Chunk(NamedTuple):
    """Consecutive inputs of one target."""

    target: str
    seed: int
    first: int
    size: int


class Failure(NamedTuple):
    """An input and what it did."""

    target: str
    content: bytes
    config: int
    trace: str
    signature: str


class OutOfTime(Exception):
    """The input took more than its CPU time."""


def attempt(target: str, content: bytes, *, config: int = 0) -> Failure | None:
    """One input under its limits."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGVTALRM, _out_of_time)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
    try:
        TARGETS[target](content, CONFIGS[config])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # noqa: BLE001  # any escape is what is looked for
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return Failure(target, content, config, traceback.format_exc(), _signature(problem))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Failure(target, content, config, f"memory grew by {growth} KB", "memory") if growth > MAX_GROWTH_KB else None


def _out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTime(f"more than {MAX_SECONDS} s of CPU time")


def _signature(problem: BaseException) -> str:
    """Failures that happen at one place count once."""
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__} at {Path(last.filename).name}:{last.lineno}"


def run_chunk(chunk: Chunk) -> list[Failure]:
    """The failures of some inputs; each depends on the seed, the target and its number alone."""
    failures = []
    for number in range(chunk.first, chunk.first + chunk.size):
        random = Random(f"{chunk.seed}/{chunk.target}/{number}")
        content = make_input(chunk.target, random)
        failures.append(attempt(chunk.target, content, config=random.randrange(len(CONFIGS))))
    return [failure for failure in failures if failure is not None]


def run_mutated(inputs: int, *, seed: int, jobs: int) -> bool:
    """True when no input failed."""
    chunks = list(_chunks(inputs, seed))
    total = sum(chunk.size for chunk in chunks)
    found: dict[str, Failure] = {}
    done, start = 0, time.monotonic()
    with get_context("spawn").Pool(jobs) as pool:
        for position, failures in enumerate(pool.imap(run_chunk, chunks)):
            for failure in failures:
                known = found.get(failure.signature, failure)
                found[failure.signature] = min(known, failure, key=lambda each: len(each.content))
            done += chunks[position].size
            _progress(done, total, len(found), time.monotonic() - start)
    sys.stderr.write("\n")
    for failure in found.values():
        _save(failure)
    return not found


def _chunks(inputs: int, seed: int) -> Iterator[Chunk]:
    """The same number for every target, in turn, so that an early stop has seen all of them."""
    share = -(-inputs // len(TARGETS))
    for first in range(0, share, CHUNK):
        yield from (Chunk(target, seed, first, min(CHUNK, share - first)) for target in TARGETS)


def _progress(done: int, total: int, failures: int, seconds: float) -> None:
    sys.stderr.write(f"\r{done:,} of {total:,} inputs, {done / max(seconds, 0.001):,.0f}/s, {failures} kinds of failure ")
    sys.stderr.flush()


def _save(failure: Failure) -> None:
    FAILURES.mkdir(parents=True, exist_ok=True)
    path = FAILURES / f"{failure.target}-{failure.config}-{hashlib.sha256(failure.content).hexdigest()[:12]}"
    path.write_bytes(failure.content)
    path.with_suffix(".txt").write_text(failure.trace, encoding="utf-8", errors="backslashreplace")
    sys.stderr.write(f"{failure.target}: {failure.signature}\n  {len(failure.content):,} bytes in {path}\n")
    sys.stderr.write(f"  again: python -m tests.fuzz --replay {path}\n")


def replay(path: Path) -> bool:
    """A saved input once more; its name tells the target and the settings."""
    target, config, _ = path.name.split("-", 2)
    failure = attempt(target, path.read_bytes(), config=int(config))
    sys.stderr.write(failure.trace if failure else "no failure\n")
    return failure is None


def run_guided(inputs: int, *, seed: int) -> bool:
    """Both doors under atheris; true without it."""
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write("atheris is not installed: no coverage-guided stage\n")
        return True
    FAILURES.mkdir(parents=True, exist_ok=True)
    results = [_guided(door, inputs, seed) for door in ("json", "yaml")]
    return all(results)


def _guided(door: str, inputs: int, seed: int) -> bool:
    options = [f"-runs={inputs}", f"-seed={seed + 1}", f"-artifact_prefix={FAILURES}/{door}-0-", "-timeout=5"]
    sys.stderr.write(f"{door} door, coverage-guided, {inputs:,} inputs\n")
    with tempfile.TemporaryDirectory() as corpus:
        for number, content in enumerate(fixtures(door)):
            Path(corpus, str(number)).write_bytes(content[:MAX_SEED])
        command = [sys.executable, "-m", "tests.fuzz.guided", door, corpus, *options]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    sys.stderr.write("\n".join(finished.stderr.splitlines()[-1:] if finished.returncode == 0 else [finished.stderr]) + "\n")
    return finished.returncode == 0


def run_properties() -> bool:
    """The property tests with many more examples, and everything heavy."""
    environment = {**os.environ, "ASSAY_HEAVY": "1", "ASSAY_HYPOTHESIS": "unlimited"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *PROPERTIES]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main() -> int:
    """Exit code 0 when nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=105_000, help="mutated inputs, over all targets")
    parser.add_argument("--guided-inputs", type=int, default=200_000, help="coverage-guided inputs for each door")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--replay", type=Path, help="one saved input instead")
    options = parser.parse_args()
    if options.replay:
        return 0 if replay(options.replay) else 1
    stages = {
        "mutated": lambda: run_mutated(options.inputs, seed=options.seed, jobs=options.jobs),
        "guided": lambda: run_guided(options.guided_inputs, seed=options.seed),
        "properties": run_properties,
    }
    results = [stages[stage]() for stage in options.stages]
    return 0 if all(results) else 1
