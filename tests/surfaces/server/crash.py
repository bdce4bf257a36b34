"""`python -m tests.surfaces.server.crash`: kills a server at many moments, and checks that nothing is lost or doubled."""

import argparse
import gzip
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from assay import api
from tests.crash.loops import CHANGING
from tests.surfaces.server.serving import ENDED, PATIENCE, Answered, Serving, dataset

RUN_FILE = "candidates: [scripted/say-4]\njudges: [scripted/judge-5]\nrun: {concurrency: 2}\n"
SETTINGS = "requests_per_minute: 100000\nmax_runs: 3\n"
KEPT = {"run.lock", "submissions.sqlite", "submissions.sqlite-wal", "submissions.sqlite-shm", "temporary", "keys.json"}
"""What a server has beside its runs when nobody uses it."""
Say = Callable[[str], None]
Killer = Callable[[Serving, threading.Event], None]
"""Kills a server, and says when it is ready to: nobody uses it before."""


class Findings(msgspec.Struct, kw_only=True):
    """What a loop has done and what it has found."""

    kills: int = 0
    runs: int = 0
    replayed: int = 0
    """Accepted runs that the same key found again after a kill."""
    problems: list[str] = []


class Upload(msgspec.Struct, kw_only=True):
    """One submission under a key, which is sent until it is answered."""

    key: str
    body: bytes
    query: str = ""
    headers: dict[str, str] = {}
    is_refused: bool = False
    run_id: str = ""
    """Of the answer that came before the kill; empty when none came."""
    is_cancelled: bool = False
    """The cancellation was answered."""

    @property
    def dataset_id(self) -> str:
        return f"crash-{self.key}"

    def send(self, serving: Serving) -> Answered:
        return serving.submit(self.body, self.query, {"Idempotency-Key": self.key, **self.headers})


def uploads_of(trial: str) -> list[Upload]:
    """A clean upload, a packed one, one with an invalid record, one that is cancelled, and one that is refused."""
    plain, packed, mixed, slow = (dataset(3, dataset_id=f"crash-{trial}-{kind}") for kind in ("plain", "packed", "mixed", "slow"))
    mixed["records"][1]["input"]["prompt"] = 7
    pack = {"Content-Encoding": "gzip"}
    return [
        Upload(key=f"{trial}-plain", body=json.dumps(plain).encode()),
        Upload(key=f"{trial}-packed", body=gzip.compress(json.dumps(packed).encode(), mtime=0), headers=pack),
        Upload(key=f"{trial}-mixed", body=json.dumps(mixed).encode(), query="?model=scripted/echo"),
        Upload(key=f"{trial}-slow", body=json.dumps(slow).encode(), query="?model=scripted/slow-200"),
        Upload(key=f"{trial}-refused", body=b'{"dataset_id": "crash-x"', is_refused=True),
    ]


def use(serving: Serving, uploads: list[Upload]) -> None:
    """Everything that people do with a server, side by side, until it is answered or the server is gone."""

    def submit(upload: Upload) -> None:
        with suppress(OSError, HTTPException):
            answer = upload.send(serving)
            if answer.status == 202:
                upload.run_id = answer.json["run_id"]
            if "slow" in upload.key and upload.run_id:
                time.sleep(0.15)
                upload.is_cancelled = serving.ask("POST", f"/v1/runs/{upload.run_id}/cancel").status == 200

    with ThreadPoolExecutor(len(uploads) + 2) as pool:
        others = [pool.submit(_validate, serving), pool.submit(_break_off, serving)]
        for done in [*(pool.submit(submit, upload) for upload in uploads), *others]:
            done.result()


def _validate(serving: Serving) -> None:
    with suppress(OSError, HTTPException):
        serving.ask("POST", "/v1/validate", dataset(50))


def _break_off(serving: Serving) -> None:
    with suppress(OSError), socket.create_connection(("127.0.0.1", serving.port), timeout=60) as connection:
        connection.sendall(
            b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n{"
        )
        time.sleep(0.1)


def tried(serving: Serving, trial: str, killer: Killer, found: Findings) -> bool:
    """Use a server while it is killed, start it again, and note everything that is not as it should be; False when it survived."""
    uploads, ready = uploads_of(trial), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(killer, serving, ready)
        ready.wait(PATIENCE)
        use(serving, uploads)
        killing.result()
    is_killed = not serving.is_alive()
    if is_killed:
        found.kills += 1
        serving.start()
    found.problems += [f"{trial}: {problem}" for problem in _problems(serving, uploads, found)]
    return is_killed


def _problems(serving: Serving, uploads: list[Upload], found: Findings) -> list[str]:
    problems: list[str] = []
    for upload in uploads:
        answer = upload.send(serving)
        if answer.status != (400 if upload.is_refused else 202):
            problems.append(f"{upload.key} is answered with {answer.status}: {answer.body[:300]!r}")
        elif not upload.is_refused:
            found.runs += 1
            found.replayed += bool(upload.run_id)
            problems += _run_problems(serving, upload, answer.json["run_id"])
    with suppress(AssertionError):
        # What somebody has broken off is moved out of the way first, and then removed.
        serving.wait_for(lambda: not list(serving.runs_dir.glob(".active/*")) and not serving.left_over())
    problems += [f"left over: {left}" for left in serving.left_over()]
    problems += [f"left over: {path.name}" for path in serving.runs_dir.glob(".server/*") if path.name not in KEPT]
    if serving.ask("GET", "/v1/audit?limit=1000").status != 200:
        problems.append("the audit log cannot be read")
    return problems


def _run_problems(serving: Serving, upload: Upload, run_id: str) -> list[str]:
    state = serving.ended(run_id)["state"]
    listed = serving.ask("GET", f"/v1/runs?dataset={upload.dataset_id}").json["runs"]
    found = [f"verify {run_id}: {line}" for line in api.verify(run_id, runs_dir=serving.runs_dir)]
    if upload.run_id not in ("", run_id):
        found.append(f"{upload.key} was {upload.run_id} and is {run_id}")
    if [run["run_id"] for run in listed] != [run_id]:
        found.append(f"{upload.key} has {len(listed)} runs: {listed}")
    if state not in ENDED or (upload.is_cancelled and state != "cancelled"):
        found.append(f"{upload.key} ended as {state}")
    return found


def after(seconds: float) -> Killer:
    """Kills a server after so many seconds."""

    def kill(serving: Serving, ready: threading.Event) -> None:
        ready.set()
        time.sleep(seconds)
        serving.kill()

    return kill


def at_call(number: int) -> Killer:
    """Kills a server when one of its threads comes to its so-and-so-many-th changing system call; leaves it when none does."""

    def kill(serving: Serving, ready: threading.Event) -> None:
        inject = f"inject={CHANGING}:signal=SIGKILL:when={number}"
        options = ["-f", "-qq", "-o", os.devnull, "-e", f"trace={CHANGING}", "-e", inject]
        tracer = subprocess.Popen(["strace", *options, "-p", str(serving.pid)], stderr=subprocess.DEVNULL)
        # The server may come to the call, and to its end, before anybody asks it for anything.
        serving.wait_for(lambda: tracer.poll() is not None or not serving.is_alive() or _is_traced(serving.pid))
        ready.set()
        with suppress(subprocess.TimeoutExpired):
            tracer.wait(30.0)
        tracer.terminate()
        tracer.wait()

    return kill


def _is_traced(pid: int) -> bool:
    """Whether every thread of a process has a tracer."""
    with suppress(FileNotFoundError):
        statuses = [path.read_text(encoding="utf-8") for path in Path(f"/proc/{pid}/task").glob("*/status")]
        return all("TracerPid:\t0\n" not in status for status in statuses)
    return False


def killed_while_it_starts(serving: Serving, chance: random.Random) -> None:
    """A server that is killed before it answers, and one more that is not."""
    serving.kill()
    starting = subprocess.Popen(serving.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(chance.uniform(0.2, 4.0))
    starting.kill()
    starting.wait()
    serving.start()


def kill_at_random(folder: Path, *, kills: int, seed: int, say: Say) -> Findings:
    """Kill a server that is used, after random times; now and then while it starts too."""
    chance, found = random.Random(seed), Findings()
    with Serving(folder, settings=SETTINGS, run_file=RUN_FILE) as serving:
        for trial in count():
            if found.kills >= kills:
                break
            # Every other time while the uploads come in, else while their runs are worked on.
            seconds = chance.uniform(0.0, 0.3) if trial % 2 else chance.uniform(0.2, 1.5)
            tried(serving, f"r{trial}", after(seconds), found)
            if trial % 4 == 3:
                killed_while_it_starts(serving, chance)
                found.kills += 2
            say(f"{found.kills} kills, {found.runs} runs, {found.replayed} found again, {len(found.problems)} problems")
    return found


def kill_at_system_calls(folder: Path, *, step: int, say: Say, most: int = 10_000) -> Findings:
    """Kill a server that is used at its first, 1 + step-th ... changing call, until it survives."""
    found = Findings()
    with Serving(folder, settings=SETTINGS, run_file=RUN_FILE) as serving:
        for number in range(1, most, step):
            if not tried(serving, f"c{number}", at_call(number), found):
                say(f"survives its {number}th call")
                break
            say(f"call {number}: {found.runs} runs, {found.replayed} found again, {len(found.problems)} problems")
    return found


def main() -> int:
    """0 when nothing was lost, doubled or left over."""
    parser = argparse.ArgumentParser(prog="python -m tests.surfaces.server.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="kills at random moments")
    parser.add_argument("--step", type=int, default=4, help="kill at every so-and-so-many-th changing system call")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    say: Say = (lambda line: print(f"  {line}", flush=True)) if options.verbose else (lambda _: None)  # noqa: T201
    loops: dict[str, Callable[[Path], Findings]] = {
        "a server, killed at random": lambda folder: kill_at_random(folder, kills=options.kills, seed=options.seed, say=say),
        f"a server, killed at every {options.step}th changing system call": lambda folder: kill_at_system_calls(
            folder, step=options.step, say=say
        ),
    }
    if shutil.which("strace") is None:
        loops.popitem()
    failures = [_reported(name, loop) for name, loop in loops.items()]
    return int(any(failures))


def _reported(name: str, loop: Callable[[Path], Any]) -> bool:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = loop(Path(folder))
    summary = f"{found.kills} kills, {found.runs} runs, {found.replayed} found again, {len(found.problems)} problems"
    print(f"{name}: {summary}, {time.monotonic() - begun:.0f} s", *found.problems[:20], sep="\n  ")  # noqa: T201
    return bool(found.problems)


if __name__ == "__main__":
    sys.exit(main())
