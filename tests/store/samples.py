"""Small runs for the tests of the store: ledgers with records, sealed folders, and children that can be killed."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.core.model_call import Reply
from assay.core.outcome import Attempt, Grade, GradedOutcome
from assay.store.artifacts import AttemptChain, MerkleTree, StagingFolder
from assay.store.ledger import CommitEntry, RecordRow
from assay.store.sqlite import SqliteLedger, create_ledger

DAY = 86400.0
ENDED = "2026-01-15T10:00:00Z"
ENDED_AT = 1768471200.0
ROOT = Path(__file__).parents[2]


def new_ledger(folder: Path, records: int = 3) -> SqliteLedger:
    """A ledger with valid records."""
    ledger = create_ledger(folder / "ledger.sqlite", plan=b'{"run_id":"r"}', plan_sha256="ab", at=1.0)
    ledger.replace_records(rows(records))
    return ledger


def rows(count: int) -> Iterable[RecordRow]:
    return (RecordRow(number, f"q{number}", f"{number:064x}", b'{"id":"q"}') for number in range(count))


def attempt(**members: Any) -> Attempt:
    """An attempt that was answered, unless told otherwise."""
    usual: dict[str, Any] = {
        "stage": "candidate",
        "call_id": "candidate",
        "round": 1,
        "started_at": 1.5,
        "latency_ms": 2.0,
        "model": "m",
    }
    return Attempt(**{**usual, "reply": Reply(text="yes"), **members})


def graded(score: float = 1.0) -> GradedOutcome:
    return GradedOutcome(grade=Grade(score=score, passed=True, answer="yes", raw_score=score, scale="0-1"))


def done(position: int, score: float = 1.0) -> CommitEntry:
    """Two attempts and an outcome."""
    return CommitEntry(position, (attempt(), attempt(stage="judge", call_id="judge:overall")), graded(score))


def fill(staging: StagingFolder, records: int = 3) -> dict[str, Any]:
    """Write the artifacts of a small run; returns what its manifest says beyond hashes."""
    chain, tree = AttemptChain(), MerkleTree()
    predictions, attempts = staging.open_lines("predictions.jsonl"), staging.open_lines("attempt_logs.jsonl")
    for number in range(records):
        digest = f"{number:064x}"
        predictions.line(json.dumps({"record_id": f"q{number}", "record_sha256": digest}).encode())
        attempts.line(chain.line(json.dumps({"record_id": f"q{number}", "attempt": 1}).encode()))
        tree.add(bytes.fromhex(digest))
    for name in ("input_dataset.json", "metrics_summary.json", "metrics_by_slice.json", "eval_results.json"):
        staging.write(name, b'{"name": "%s"}\n' % name.encode())
    for name in ("cases.jsonl", "record_validation.jsonl", "failures.jsonl", "responses.jsonl"):
        staging.open_lines(name).line(b'{"record_id":"q0"}')
    evidence = {"records_merkle_root": tree.hexdigest(), "attempt_chain_sha256": chain.hexdigest(), "plan_sha256": "0" * 64}
    return {"run_id": "r1", "status": "completed", "completed_at": ENDED, **evidence}


def sealed_run(runs: Path, name: str = "r1", records: int = 3) -> Path:
    """A published run folder."""
    with StagingFolder(runs / ".active") as staging:
        staging.seal(fill(staging, records))
        staging.publish(runs / name)
    return runs / name


@contextmanager
def full_disk() -> Iterator[None]:
    """Inside, no file of this process can grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def start_python(code: str, *arguments: str) -> "subprocess.Popen[str]":
    """A child that can import the package and these tests."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_python(code: str, *arguments: str) -> str:
    """What a child printed; its errors make the test fail."""
    with start_python(code, *arguments) as child:
        printed, complaints = child.communicate()
    assert child.returncode == 0, complaints
    return printed
