"""Two ways to kill a run at many moments: at random ones, and at every so-and-so-many-th system call that changes something."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec

from tests.crash.check import Artifacts, problems_of, repeated_calls, stable_artifacts
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider

LATENCY = 0.02
CHANGING = (
    "write,writev,pwrite64,pwritev,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,"
    "ftruncate,link,linkat,mkdir,mkdirat,fchmod,sendto,sendmsg"
)
"""System calls after which something outside of the process is not as it was; they are counted for each thread."""
LEDGER_LOG = "ledger.sqlite-wal"
"""What every result is written to first; calls on it alone are mostly those of the thread that writes results."""
Say = Callable[[str], None]


class Findings(msgspec.Struct, kw_only=True):
    """What a loop has done and what it has found."""

    kills: int = 0
    runs: int = 0
    repeated: int = 0
    """Provider calls beyond those of uninterrupted runs."""
    problems: list[str] = []


class Bench(msgspec.Struct, kw_only=True):
    """A job, its provider, and what an uninterrupted run of it leaves."""

    job: Job
    provider: CountingProvider
    expected: Artifacts
    calls: Counter[tuple[str, str]]
    seconds: float

    def examine(self, run_id: str, found: Findings, *, kills: int) -> None:
        """Note what is wrong with a run that has come to its end after so many kills."""
        repeated = repeated_calls(self.provider, self.calls)
        problems = problems_of(self.job, run_id, self.expected)
        if not 0 <= repeated <= kills * self.job.concurrency:
            problems.append(f"{repeated} calls more than needed after {kills} kills with {self.job.concurrency} in flight at most")
        found.problems += [f"{run_id}: {problem}" for problem in problems]
        found.repeated += repeated
        found.kills += kills
        found.runs += 1
        self.provider.calls.clear()


def set_up(folder: Path, provider: CountingProvider, *, records: int, concurrency: int = 4) -> Bench:
    """Run the job once in peace."""
    job = write_job(folder, provider.base_url, records=records, concurrency=concurrency)
    begun = time.monotonic()
    finish(job, "peaceful")
    seconds = time.monotonic() - begun
    calls = Counter(provider.calls)
    provider.calls.clear()
    return Bench(job=job, provider=provider, expected=stable_artifacts(job.runs / "peaceful"), calls=calls, seconds=seconds)


def finish(job: Job, run_id: str) -> None:
    """Let a run come to its end; raises when it does not."""
    done = subprocess.run(job.command(run_id), capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{run_id} ended with {done.returncode}: {done.stderr}")


def kill_at_random(folder: Path, *, kills: int, records: int, seed: int, say: Say) -> Findings:
    """Start or resume a run, kill it after a random time, again and again; every run that ends is examined."""
    chance = random.Random(seed)
    found = Findings()
    with CountingProvider(steady, latency=LATENCY) as provider:
        bench = set_up(folder, provider, records=records)
        while found.kills < kills:
            run_id = f"run-{found.runs}"
            survived = _kill_until_done(bench, run_id, chance, most=kills - found.kills)
            bench.examine(run_id, found, kills=survived)
            say(f"{found.kills} kills, {found.runs} runs, {found.repeated} calls repeated, {len(found.problems)} problems")
    return found


def _kill_until_done(bench: Bench, run_id: str, chance: random.Random, *, most: int) -> int:
    for kills in range(most):
        running = bench.job.start(run_id)
        try:
            _, errors = running.communicate(timeout=chance.uniform(0, bench.seconds))
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            continue
        assert running.returncode == 0, errors
        return kills
    finish(bench.job, run_id)
    return most


def kill_at_system_calls(folder: Path, *, step: int, records: int, say: Say, on_file: str = "") -> Findings:
    """Kill a run at its first, 1 + step-th ... changing call, until one survives; each is resumed and examined.

    With `on_file` only calls on that file of the run's working state count.
    """
    found = Findings()
    with CountingProvider(steady) as provider:
        bench = set_up(folder, provider, records=records)
        for number in count(1, step):
            run_id = f"call-{number}"
            path = str(bench.job.runs / ".active" / run_id / on_file) if on_file else ""
            command = [*_killing(number, path), *bench.job.command(run_id)]
            traced = subprocess.run(command, capture_output=True, text=True, check=False)
            if traced.returncode == 0:
                say(f"survives its {number}th call")
                bench.examine(run_id, found, kills=0)
                break
            finish(bench.job, run_id)
            bench.examine(run_id, found, kills=1)
            say(f"call {number}: {found.repeated} calls repeated, {len(found.problems)} problems")
    return found


def _killing(number: int, path: str) -> list[str]:
    """Tracing that kills the process when one of its threads comes to its so-and-so-many-th changing call."""
    only = ["-P", path] if path else []
    inject = f"inject={CHANGING}:signal=SIGKILL:when={number}"
    return ["strace", "-f", "-qq", "-o", os.devnull, *only, "-e", f"trace={CHANGING}", "-e", inject]
