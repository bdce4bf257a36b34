"""Runs with batches that are killed at every step: no batch is handed in twice, and every record has exactly one outcome."""

import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from assay import api
from tests.engine.batch_runs import attempts, ledger_rows, manifest, run, started, write_run
from tests.models.batch_provider import BatchProvider, Faults, Meddling

CREATE = {"openai": "POST /v1/batches", "anthropic": "POST /v1/messages/batches"}
BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])
MOMENTS = [
    ("openai", "before the upload", "hang_before", "POST /v1/files", 1),
    ("openai", "after the upload", "hang", "POST /v1/files", 1),
    ("openai", "before the creation", "hang_before", "POST /v1/batches", 1),
    ("openai", "after the creation", "hang", "POST /v1/batches", 1),
    ("openai", "after the second creation", "hang", "POST /v1/batches", 2),
    ("openai", "while looking", "hang", "GET /v1/batches/ID", 2),
    ("openai", "while fetching", "stall", "GET /v1/files/ID/content", 1),
    ("openai", "between answers and errors", "stall", "GET /v1/files/ID/content", 2),
    ("anthropic", "before the creation", "hang_before", "POST /v1/messages/batches", 1),
    ("anthropic", "after the creation", "hang", "POST /v1/messages/batches", 1),
    ("anthropic", "after the second creation", "hang", "POST /v1/messages/batches", 2),
    ("anthropic", "while looking", "hang", "GET /v1/messages/batches/ID", 2),
    ("anthropic", "while fetching", "stall", "GET /v1/messages/batches/ID/results", 2),
]


def killed(running: "subprocess.Popen[str]") -> None:
    """End a process as a machine that loses its power would."""
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


def meddler(how: Meddling, what: str, number: int) -> "object":
    """Meddles with one request."""
    return lambda method, path, count: how if (f"{method} {path}", count) == (what, number) else None


@pytest.mark.parametrize(("kind", "moment", "how", "what", "number"), MOMENTS, ids=[" ".join(case[:2]) for case in MOMENTS])
def test_a_run_that_is_killed_hands_nothing_in_twice(
    kind: str, moment: str, how: Meddling, what: str, number: int, tmp_path: Path
) -> None:
    del moment
    with BatchProvider(meddle=meddler(how, what, number), faults=Faults(errored=1)) as provider:
        run_file = write_run(tmp_path, provider, kind=kind, records=8, batch={"max_requests": 4})
        running = started(run_file, "--quiet")
        provider.wait_for(what, number)
        time.sleep(0.1)
        killed(running)
        provider.meddle = lambda *_: None
        result = run(run_file)
    assert (result.counts.evaluated_records, provider.created, len(provider.live)) == (8, 2, 2)
    assert Counter(line["record_id"] for line in attempts(run_file) if not line["error_code"]) == {f"q-{n}": 1 for n in range(8)}
    assert [batch["requests"] for batch in manifest(run_file)["batches"]] == [4, 4]
    assert api.verify("x", runs_dir=tmp_path / "runs") == []


@BOTH
def test_a_run_that_is_killed_while_it_merges_adds_every_answer_once(kind: str, tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, kind=kind, records=1_500)
        running = started(run_file, "--quiet")
        # The first answer is that of the record that is asked by itself.
        wait_for_attempts(run_file, running, count=2)
        killed(running)
        result = run(run_file)
    assert (result.counts.evaluated_records, provider.created, len(provider.live)) == (1_500, 1, 1)
    assert Counter(line["record_id"] for line in attempts(run_file)).most_common(1)[0][1] == 1


def wait_for_attempts(run_file: Path, running: "subprocess.Popen[str]", *, count: int = 1) -> None:
    """Wait until the ledger has so many answers."""
    while running.poll() is None:
        with suppress(sqlite3.OperationalError):
            if ledger_rows(run_file, f"SELECT 1 FROM attempt LIMIT 1 OFFSET {count - 1}"):
                return
        time.sleep(0.001)


@BOTH
def test_ctrl_c_leaves_a_run_that_says_how_to_go_on(kind: str, tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=10_000)) as provider:
        run_file = write_run(tmp_path, provider, kind=kind)
        running = started(run_file)
        provider.wait_for(CREATE[kind].replace("POST", "GET") + "/ID", 2)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate()
        provider.faults = Faults()
        result = run(run_file)
    assert (running.returncode, "assay resume x" in told) == (130, True)
    assert (result.counts.evaluated_records, provider.created) == (6, 1)


@BOTH
def test_a_run_that_waits_is_cancelled_from_elsewhere_and_its_batch_with_it(kind: str, tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=10_000)) as provider:
        run_file = write_run(tmp_path, provider, kind=kind)
        running = started(run_file, "--quiet")
        provider.wait_for(CREATE[kind].replace("POST", "GET") + "/ID", 2)
        api.cancel("x", runs_dir=tmp_path / "runs")
        running.communicate()
    assert running.returncode == 130
    assert provider.seen[CREATE[kind] + "/ID/cancel"] == 1
    assert Counter(line["error_code"] for line in attempts(run_file)) == {None: 3, "batch_cancelled": 3}
    assert manifest(run_file)["status"] == "cancelled"
